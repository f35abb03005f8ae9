"""Groups of jobs [W4]: jobs of any tasks and queues that are waited for, counted and cancelled together.

    with app.open_group("nightly") as group:            # async: `async with await app.aopen_group("nightly")`
        group.enqueue(load, "a.csv")
        group.enqueue_many(resize, [(1,), (2,)])
        group.on_success(report, month="2026-11")       # once all have succeeded
        group.on_failure(warn)                          # once all have ended and one has not succeeded
        group.on_end(clean_up)                          # once all have ended, however
    group.result()                                      # {"succeeded": 3}

A group is a job, too: the one that ends it, of the task `windlass.group`. It comes after all that was added,
waits as long as the group is open, and succeeds where they all have. So whatever may come after a job may
come after a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar, overload

from windlass.core.names import check_name
from windlass.core.states import Priority
from windlass.errors import ConfigurationError, InvalidName, JobNotFound
from windlass.handles.calls import A, B, C, D, Named, Takes0, Takes1, Takes2, Takes3, Takes4, TakesMore
from windlass.handles.job import Job
from windlass.operations import groups
from windlass.operations.groups import PAGE
from windlass.operations.operation import Ops
from windlass.running.encoding import encode
from windlass.store.records import NewJob, Options, Receipt

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.tasks.task import Task

P = ParamSpec("P")
R = TypeVar("R")
MAX_NAME: Final = 200
GROUP: Final = "windlass.group"
"""The task that ends a group; see `windlass.tasks.builtin`."""


def end_of_group(name: str, queue: str) -> NewJob:
    """The job that ends a group of this name. Raises InvalidName."""
    given: object = name
    if not isinstance(given, str) or not 0 < len(given) <= MAX_NAME:
        raise InvalidName(f"group name {name!r:.80} is not allowed: use a text of 1 to {MAX_NAME} characters")
    return NewJob(
        task=GROUP,
        payload=encode({"name": name}),
        queue=check_name("queue", queue),
        priority=int(Priority.HIGH),
        options=Options(group_end=True, otherwise="run"),
    )


def _task(given: Task[P, R]) -> Task[P, R]:
    """Return the given object, if it is a task."""
    if isinstance(given, Job):
        raise ConfigurationError(
            f"{given!r} is enqueued already: a group makes its own jobs, as in group.enqueue(task, …). For "
            "what comes after jobs there is .using(after=[…])"
        )
    if not hasattr(given, "_template"):
        raise ConfigurationError(
            f"{given!r} is not a task: pass a function that @app.task has registered, or app.named('…')"
        )
    return given


class Group(Job[dict[str, int]]):
    """A group of jobs, and the job that ends it. As a block it is closed at its end; where the block raises,
    it is cancelled."""

    __slots__ = ()

    def __init__(self, app: Windlass, id: int, receipt: Receipt | None = None) -> None:
        super().__init__(app, id, app._tasks[GROUP]._result, task=GROUP, receipt=receipt)

    def __repr__(self) -> str:
        return f"<Group {self.id}>"

    # -- adding -----------------------------------------------------------------------------------------

    def enqueue(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Make a job and add it, in one transaction. Raises GroupClosed, or CircularWait where it comes after
        the group."""
        job = self._job_of(task, args, kwargs)
        return task._handle(self._send([job])[0])

    async def aenqueue(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Make a job and add it, in one transaction; see `enqueue`."""
        job = self._job_of(task, args, kwargs)
        return task._handle((await self._asend([job]))[0])

    @overload
    def enqueue_many(self, task: Takes0, calls: Iterable[tuple[()] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(self, task: Takes1[A], calls: Iterable[tuple[A] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(self, task: Takes2[A, B], calls: Iterable[tuple[A, B] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(self, task: Takes3[A, B, C], calls: Iterable[tuple[A, B, C] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(
        self, task: Takes4[A, B, C, D], calls: Iterable[tuple[A, B, C, D] | Named]
    ) -> list[int]: ...
    @overload
    def enqueue_many(self, task: TakesMore, calls: Iterable[tuple[Any, ...] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(self, task: Task[..., Any], calls: Iterable[Named]) -> list[int]: ...
    def enqueue_many(self, task: Any, calls: Iterable[tuple[Any, ...] | Named]) -> list[int]:
        """Make many jobs and add them, all or none; see `Task.enqueue_many`."""
        return [receipt.id for receipt in self._send(self._checked(task)._jobs(calls))]

    @overload
    async def aenqueue_many(self, task: Takes0, calls: Iterable[tuple[()] | Named]) -> list[int]: ...
    @overload
    async def aenqueue_many(self, task: Takes1[A], calls: Iterable[tuple[A] | Named]) -> list[int]: ...
    @overload
    async def aenqueue_many(self, task: Takes2[A, B], calls: Iterable[tuple[A, B] | Named]) -> list[int]: ...
    @overload
    async def aenqueue_many(
        self, task: Takes3[A, B, C], calls: Iterable[tuple[A, B, C] | Named]
    ) -> list[int]: ...
    @overload
    async def aenqueue_many(
        self, task: Takes4[A, B, C, D], calls: Iterable[tuple[A, B, C, D] | Named]
    ) -> list[int]: ...
    @overload
    async def aenqueue_many(self, task: TakesMore, calls: Iterable[tuple[Any, ...] | Named]) -> list[int]: ...
    @overload
    async def aenqueue_many(self, task: Task[..., Any], calls: Iterable[Named]) -> list[int]: ...
    async def aenqueue_many(self, task: Any, calls: Iterable[tuple[Any, ...] | Named]) -> list[int]:
        """Make many jobs and add them, all or none; see `Task.enqueue_many`."""
        return [receipt.id for receipt in await self._asend(self._checked(task)._jobs(calls))]

    def on_success(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Make a job that runs once all jobs of the group have succeeded, and is cancelled otherwise."""
        return _task(task).using(after=[self], otherwise="cancel").enqueue(*args, **kwargs)

    async def aon_success(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Make a job that runs once all jobs of the group have succeeded; see `on_success`."""
        return await _task(task).using(after=[self], otherwise="cancel").aenqueue(*args, **kwargs)

    def on_failure(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Make a job that runs once all jobs of the group have ended and one has not succeeded, or the group
        was cancelled; it is cancelled otherwise."""
        return _task(task).using(after=[self], otherwise="run_only").enqueue(*args, **kwargs)

    async def aon_failure(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Make a job that runs where one job of the group has not succeeded; see `on_failure`."""
        return await _task(task).using(after=[self], otherwise="run_only").aenqueue(*args, **kwargs)

    def on_end(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Make a job that runs once all jobs of the group have ended, however that was."""
        return _task(task).using(after=[self], otherwise="run").enqueue(*args, **kwargs)

    async def aon_end(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Make a job that runs once all jobs of the group have ended; see `on_end`."""
        return await _task(task).using(after=[self], otherwise="run").aenqueue(*args, **kwargs)

    # -- closing ----------------------------------------------------------------------------------------

    def close(self) -> bool:
        """Take no more jobs: the group ends with the last of those it has. False: it was not open."""
        return self._run(lambda ops: groups.close_group(ops, self.id)).closed

    async def aclose(self) -> bool:
        """Take no more jobs; see `close`."""
        return (await self._arun(lambda ops: groups.close_group(ops, self.id))).closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(JobNotFound):  # nothing is left of it, and the error is the user's
                self.cancel_jobs()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.aclose()
        else:
            with suppress(JobNotFound):
                await self.acancel_jobs()

    # -- looking and managing ---------------------------------------------------------------------------

    def counts(self) -> Mapping[str, int]:
        """How many of its jobs are in each state: `{"succeeded": 7, "running": 2}`. Those that are not there
        any more are `deleted` where they had not succeeded, else `gone`, as their retention has passed. Each
        job is looked up: of thousands ask seldom. Raises JobNotFound where there is no such group."""
        return self._run(self._counts)

    async def acounts(self) -> Mapping[str, int]:
        """How many of its jobs are in each state; see `counts`."""
        return await self._arun(self._counts)

    def jobs(self, *, after: int = 0, limit: int = PAGE) -> list[Job[Any]]:
        """Its jobs in the order in which they were added, those behind the job `after`: pass the id of the
        last one for the next page."""
        found = self._run(lambda ops: ops.store.group_jobs(self.id, after, limit))
        return [self._app.job(id) for id in found]

    async def ajobs(self, *, after: int = 0, limit: int = PAGE) -> list[Job[Any]]:
        """Its jobs in the order in which they were added; see `jobs`."""
        found = await self._arun(lambda ops: ops.store.group_jobs(self.id, after, limit))
        return [self._app.job(id) for id in found]

    def cancel_jobs(self) -> int:
        """Cancel the group: it takes no more jobs and is cancelled itself, and so are those of its jobs that
        have not ended. Answers with how many that were. What runs `on_end` runs all the same. Raises
        JobNotFound where there is no such group."""
        return self._run(lambda ops: groups.cancel_group(ops, self.id)).cancelled

    async def acancel_jobs(self) -> int:
        """Cancel the group and its jobs; see `cancel_jobs`."""
        return (await self._arun(lambda ops: groups.cancel_group(ops, self.id))).cancelled

    # -- how --------------------------------------------------------------------------------------------

    async def _counts(self, ops: Ops) -> Mapping[str, int]:
        counts = await ops.store.group_counts(self.id)
        if not counts:  # a group without jobs, or none
            await groups.find_end(ops.store, self.id)
        return counts

    def _checked(self, task: Task[..., Any]) -> Task[..., Any]:
        if _task(task)._template.connection is not None:
            raise ConfigurationError(
                "a group takes jobs in a transaction of its own: leave out connection=, or enqueue the jobs "
                "and the one that comes after= them in yours"
            )
        return task

    def _job_of(self, task: Task[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        return self._checked(task)._called(args, kwargs)

    def _send(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        return self._app._producer.send(jobs, group=self.id)

    async def _asend(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        return await self._app._producer.asend(jobs, group=self.id)
