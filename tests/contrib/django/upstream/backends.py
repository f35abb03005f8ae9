"""Our backend in the two roles that Django's tests know: it keeps jobs, or runs them at once."""

from dataclasses import dataclass
from typing import Any

from windlass.contrib.django import WindlassBackend, get_app
from windlass.contrib.django.task import WindlassTask
from windlass.store.records import JobFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceTask(WindlassTask):
    """A task that is tried once, as Django's own backends do it."""

    max_attempts: int | None = 1


class Dummy(WindlassBackend):
    """Keeps jobs for the test to look at."""

    task_class = OnceTask

    @property
    def results(self) -> list[Any]:
        """Those of all jobs."""
        page = get_app(self.alias)._store_handle().call(lambda store: store.jobs(JobFilter(), 100))
        return [self.get_result(str(job.id)) for job in page.jobs]

    def clear(self) -> None:
        """Forget all jobs."""
        get_app(self.alias).jobs().delete()


class Immediate(Dummy):
    """Runs a job where it is enqueued."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue it, run it, and return its result."""
        result = super().enqueue(task, args, kwargs)
        get_app(self.alias).run_until_idle()
        result.refresh()
        return result
