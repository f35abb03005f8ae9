"""A job as a program asks for it over HTTP, and the job that is made of it [E2]. Its options are checked as
`task.using(...)` and `task.enqueue(...)` check them, and its arguments where the app knows the task [E3].
Texts that no store can keep are refused here, with the same message whatever the store [M6]."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec

from windlass.core.texts import storable
from windlass.errors import InvalidOption
from windlass.operations.operation import JobId, given_id
from windlass.operations.refusals import Invalid
from windlass.store.fields import Field, Unit
from windlass.store.records import JOB_OPTIONS, NewJob

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.tasks.task import Task

_JSON: Final[Mapping[Unit, Any]] = {
    "priority": str | int, "time": float | str, "moment": float | str, "attempts": int, "jobs": int,
    "ids": list[JobId], "tags": list[str], "headers": dict[str, str],
}  # fmt: skip
_WRITTEN: Final[Mapping[Unit, str]] = {
    "priority": f"One of {', '.join(JOB_OPTIONS['priority'].choices)}.",
    "time": "Seconds, or a text such as 5m.",
    "moment": "Seconds since the epoch, or ISO 8601 with an offset.",
}
_OPTIONS: Final = [field for field in JOB_OPTIONS.values() if field.unit != "connection"]


class _Call(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A job to enqueue. A field that is null or left out comes from the task's code, or is the default."""

    task: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


def _type(field: Field) -> Any:
    kind = _JSON.get(field.unit, Literal[field.choices] if field.choices else str)
    told = f"{field.help} {_WRITTEN.get(field.unit, '')}".strip()
    return Annotated[kind | None, msgspec.Meta(description=told)]


if TYPE_CHECKING:
    NewJobBody: TypeAlias = _Call
else:
    NewJobBody = msgspec.defstruct(
        "NewJobBody",
        [(field.kept, _type(field), None) for field in _OPTIONS],
        bases=(_Call,),
        module=__name__,
        namespace={"__doc__": _Call.__doc__},
        kw_only=True,
        forbid_unknown_fields=True,
    )


class _Change(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A change of a waiting job; what is null or left out stays."""

    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None


if TYPE_CHECKING:
    JobChangeBody: TypeAlias = _Change
else:
    JobChangeBody = msgspec.defstruct(
        "JobChangeBody",
        [(field.kept, _type(field), None) for field in _OPTIONS if field.change],
        bases=(_Change,),
        module=__name__,
        namespace={"__doc__": _Change.__doc__},
        kw_only=True,
        forbid_unknown_fields=True,
    )


def changes_of(body: JobChangeBody) -> dict[str, Any]:
    """Return what a program asks to change, as `job.change` takes it."""
    given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
    fields = {field.kept: field for field in _OPTIONS}
    return {
        name if name not in fields else fields[name].name: value
        if name not in fields
        else _value(fields[name], value)
        for name, value in given.items()
    }


class Maker:
    """Makes the jobs that are asked for. Those who enqueue many jobs ask for the same task and options again
    and again, so what was read and checked of these last is kept."""

    def __init__(self, app: Windlass) -> None:
        self._app = app
        self._asked: list[Any] = []
        self._known: Task[..., Any] | None = None
        self._task: Task[..., Any] | None = None

    async def make(self, body: NewJobBody) -> NewJob:
        """The job that is asked for. Raises an EnqueueError that says what is wrong with it."""
        name, args, kwargs, *asked = msgspec.structs.astuple(body)
        known, task = self._app.tasks.get(name), self._task
        if task is None or task.name != name or known is not self._known or asked != self._asked:
            self._task = None
            task = self._read(name, asked)
            self._asked, self._known, self._task = asked, known, task
        placed = task if task.is_registered else await task._aplaced()
        return placed._job(task._encode(tuple(args), kwargs))

    def _read(self, name: str, asked: list[Any]) -> Task[..., Any]:
        pairs = zip(_OPTIONS, asked, strict=True)
        given: Any = {field.name: _value(field, value) for field, value in pairs if value is not None}
        task = self._app.named(name)
        return task.using(**given) if given else task


def _value(field: Field, value: Any) -> Any:
    if field.unit == "ids":
        return [given_id(str(id)) for id in value]
    if field.unit != "moment" or not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise InvalidOption(
            f"{field.name}: {value[:40]!r} is no time; write it like 2026-01-31T09:00:00Z, or give epoch "
            "seconds"
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
