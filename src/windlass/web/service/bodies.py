"""A job as a program asks for it over HTTP, and the job that is made of it [E2]. Its options are checked as
`task.using(...)` and `task.enqueue(...)` check them, and its arguments where the app knows the task [E3].
Texts that no store can keep are refused here, with the same message whatever the store [M6]."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from windlass.errors import InvalidOption
from windlass.store.records import NewJob, OnConflict, Otherwise
from windlass.web.service.checks import given_id

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.tasks.task import Task


from windlass.handles.bulk import storable
from windlass.web.http.problems import Invalid

JobId = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,19}$", description="The id of a job.")]


class NewJobBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A job to enqueue. A field that is null or left out comes from the task's code, or is the default."""

    task: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    queue: str | None = None
    priority: str | int | None = None
    """urgent, high, normal or low."""
    delay: float | str | None = None
    """Run after this time: seconds, or text such as 5m."""
    run_at: float | str | None = None
    """Run at this time: seconds since the epoch, or ISO 8601 with an offset."""
    max_attempts: int | None = None
    timeout: float | str | None = None
    unique_key: str | None = None
    on_conflict: OnConflict | None = None
    debounce: float | str | None = None
    idempotency_key: str | None = None
    fair_key: str | None = None
    ordering_key: str | None = None
    concurrency_key: str | None = None
    key_limit: int | None = None
    after: list[JobId] | None = None
    otherwise: Otherwise | None = None
    tags: list[str] | None = None
    headers: dict[str, str] | None = None
    trace: str | None = None


_FIELDS: Final = NewJobBody.__struct_fields__
_ARGUMENTS: Final = _FIELDS.index("kwargs") + 1
"""Task and arguments come first, options follow."""


class Maker:
    """Makes the jobs that are asked for. Those who enqueue many jobs ask for the same task and options again
    and again, so what was read and checked of these last is kept."""

    def __init__(self, app: Windlass) -> None:
        self._app = app
        self._asked: list[Any] = []
        self._known: Task[..., Any] | None = None
        self._task: Task[..., Any] | None = None

    def make(self, body: NewJobBody) -> NewJob:
        """The job that is asked for. Raises an EnqueueError that says what is wrong with it."""
        name, args, kwargs, *asked = msgspec.structs.astuple(body)
        known, task = self._app.tasks.get(name), self._task
        if task is None or task.name != name or known is not self._known or asked != self._asked:
            self._task = None
            task = self._read(name, dict(zip(_FIELDS[_ARGUMENTS:], asked, strict=True)))
            self._asked, self._known, self._task = asked, known, task
        return task._job(task._encode(tuple(args), kwargs))

    def _read(self, name: str, asked: dict[str, Any]) -> Task[..., Any]:
        given = {option: value for option, value in asked.items() if value is not None}
        if "run_at" in given:
            given["run_at"] = _moment(given["run_at"])
        if "after" in given:
            given["after"] = [given_id(id) for id in given["after"]]
        if "unique_key" in given:
            given["unique"] = given.pop("unique_key")
        task = self._app.named(name)
        return task.using(**given) if given else task


def _moment(value: float | str) -> float | datetime:
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise InvalidOption(
            f"run_at: {value[:40]!r} is not a time; write 2026-01-31T09:00:00Z, or seconds since the epoch"
        ) from None


NOT_KEPT: Final = "holds a NUL byte or half a character, which no store can keep; leave it out"


def check_texts(value: Any, field: str | None = None) -> None:
    """Refuse a value that holds such a text, however deep. Jobs to enqueue are left to those who make them,
    who check every option, and may not be looked through twice: there are many."""
    match value:
        case str():
            if not storable(value):
                raise Invalid(f"{field or 'this text'} {NOT_KEPT}", field)
        case NewJobBody():
            pass
        case msgspec.Struct():
            for name in value.__struct_fields__:
                check_texts(getattr(value, name), name)
        case dict():
            for name, each in value.items():
                check_texts(name)
                check_texts(each, name)
        case list() | tuple():
            for each in value:
                check_texts(each, field)
