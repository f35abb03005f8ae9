"""The backend for `django.tasks`: enqueues Django's tasks as jobs of Windlass, and finds their results.

    TASKS = {"default": {"BACKEND": "windlass.contrib.django.WindlassBackend",
                         "QUEUES": ["default", "mail"],
                         "OPTIONS": {"database": "default", "max_attempts": 5, "timeout": "10m"}}}

On PostgreSQL the job is part of the caller's transaction; elsewhere it is enqueued after the commit, and only
then has its result an id. See `place` for why, and for the other choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from inspect import signature
from typing import Any, Final

from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from windlass.app import Windlass
from windlass.contrib.django import results
from windlass.contrib.django.api import BaseTaskBackend, Task, TaskResultDoesNotExist, signals
from windlass.contrib.django.app import app_and_place, known_task, register
from windlass.contrib.django.place import place_of
from windlass.contrib.django.task import WindlassTask, job_name, job_priority
from windlass.core import ids
from windlass.store.factory import POSTGRES, kind_of
from windlass.store.fields import JobOptions
from windlass.store.records import JobRecord

PATH: Final = "django.task"
PRIORITY: Final = "django.priority"
RUN_AFTER: Final = "django.run_after"
"""Headers of jobs: the task's path where its name is not it, priority and time as Django has them. A job's
own time changes with each retry."""


class WindlassBackend(BaseTaskBackend):
    """Jobs of Windlass as a backend of Django."""

    task_class = WindlassTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Any) -> None:
        """Refuse what cannot be run, and remember what can: Django asks for each task as it is defined, so a
        worker knows those whose modules it has imported."""
        super().validate_task(task)
        register(self.alias, task)

    # -- enqueue ------------------------------------------------------------------------------------------

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Make a job, with the caller's transaction or after it. Raises TypeError for arguments that the task
        does not take."""
        self.validate_task(task)
        first = (None,) if task.takes_context else ()
        signature(task.func).bind(*first, *args, **kwargs)
        result = results.new_result(task, self.alias, args, kwargs)
        app, place = app_and_place(self.alias)
        if place.joins is not None and kind_of(app.settings.database_url) == POSTGRES:
            self._send(result, connections[place.joins])
        elif place.awaits is not None and self._in_transaction(app, place.awaits):

            def send() -> None:
                self._send(result)

            # Robust: one that fails then, when nothing can be rolled back any more, is logged by Django, and
            # the other jobs of the transaction are enqueued all the same.
            transaction.on_commit(send, using=place.awaits, robust=True)
        else:
            self._send(result)
        return result

    def _in_transaction(self, app: Windlass, alias: str) -> bool:
        """Return whether there is a commit to wait for. A test's own never comes, and its jobs are its
        own."""
        return app._test_mode is None and transaction.get_connection(alias).in_atomic_block

    def _send(self, result: Any, connection: Any = None) -> None:
        task = result.task
        app, _ = app_and_place(self.alias)
        options = JobOptions(queue=task.queue_name, priority=job_priority(task.priority))
        if task.run_after is not None:
            naive = timezone.is_naive(task.run_after)
            options["run_at"] = timezone.make_aware(task.run_after) if naive else task.run_after
        now = timezone.now()
        options["headers"] = {**_headers(task), results.ENQUEUED: now.isoformat()}
        if connection is not None:
            options["connection"] = connection
        job = app.named(job_name(task)).using(**options).enqueue(*result.args, **result.kwargs)
        results.enqueued(result, job.id, now)
        signals.task_enqueued.send(type(self), task_result=result)

    # -- results ------------------------------------------------------------------------------------------

    def get_result(self, result_id: str) -> Any:
        """The job with this id as it stands. Raises TaskResultDoesNotExist."""
        if ids.read(result_id) is None:
            raise TaskResultDoesNotExist(
                f"{result_id[:40]!r} is not the id of a job; a job that waits for a commit has none before it"
            )
        app, _ = app_and_place(self.alias)
        job = app._store_handle().call(lambda store: store.job(int(result_id)))
        if job is None:
            raise TaskResultDoesNotExist(
                f"there is no job {result_id}: it never existed, was deleted, or its retention has passed"
            )
        return results.kept_result(self._task_of(job), self.alias, job, app.codec)

    def _task_of(self, job: JobRecord) -> Any:
        """The task of a job, as it was enqueued."""
        path = job.options.headers.get(PATH, job.task)
        task = known_task(self.alias, job.task)
        if task is None:
            try:
                task = import_string(path)
            except ImportError:
                task = None
        if not isinstance(task, Task):
            raise TaskResultDoesNotExist(f"job {job.id} is of {path}, which is no task of Django's here")
        run_after = job.options.headers.get(RUN_AFTER)
        found = task.using(
            queue_name=job.queue if job.queue in self.queues or not self.queues else None,
            priority=int(job.options.headers.get(PRIORITY, 0)),
            run_after=None if run_after is None else datetime.fromisoformat(run_after),
        )
        return found if found.backend == self.alias else found.using(backend=self.alias)

    # -- checks -------------------------------------------------------------------------------------------

    def check(self, **kwargs: Any) -> Iterable[CheckMessage]:
        """Return the faults of this entry of TASKS, for `manage.py check`."""
        yield from super().check(**kwargs)
        try:
            place_of(self.options)
        except ImproperlyConfigured as error:
            yield Error(str(error), id="windlass.E001")


def _headers(task: Any) -> dict[str, str]:
    headers = {}
    if job_name(task) != task.module_path:
        headers[PATH] = task.module_path
    if task.priority:
        headers[PRIORITY] = str(task.priority)
    if task.run_after is not None:
        headers[RUN_AFTER] = task.run_after.isoformat()
    return headers
