"""How the options of a job are read [E2], and the template they make. Which there are stands in
`windlass.store.fields`; here is a reader for each unit.

Options are checked when they are given, so a mistake shows at `using(...)` and not only when a job is sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sized
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from windlass.core.abilities import needs_text, read_abilities
from windlass.core.durations import seconds
from windlass.core.names import check_name, meant_or_known
from windlass.core.states import Priority
from windlass.core.texts import storable
from windlass.errors import InvalidName, InvalidOption
from windlass.handles.job import WAITS_FOR_COMMIT
from windlass.store.fields import MAX_KEY, Field, JobOptions, OnConflict, Unit
from windlass.store.records import JOB_OPTIONS, NewJob, Options

MAX_HEADER: Final = 4096
LAST_RUN_AT: Final = 7_258_118_400.0  # the year 2200
S = TypeVar("S", bound=Sized)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NOTHING_TO_FAIL: Final = "otherwise='run_only' is for a job that comes after others; name some in after=[…]"


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A job without its task and payload: options as given, checked, ready to be filled in many times."""

    queue: str | None = None
    priority: int = Priority.NORMAL
    delay: float | None = None
    run_at: float | None = None
    options: Options = Options()
    on_conflict: OnConflict = "skip"
    idempotency_key: str | None = None
    connection: Any = None

    def using(self, given: JobOptions) -> Template:
        """This template with further options on top; later ones win."""
        plain: dict[str, Any] = {}
        carried: dict[str, Any] = {}
        for name, value in given.items():
            field = JOB_OPTIONS.get(name)
            if field is None:
                raise InvalidOption(f"there is no option {name!r}{meant_or_known(name, JOB_OPTIONS)}")
            if value is None and field.unit != "connection":
                raise InvalidOption(f"{name}: None is not a value; leave the option out instead")
            target = carried if field.kept in Options.__struct_fields__ else plain
            target[field.kept] = _READERS[field.unit](field, value)
        if "debounce" in plain:
            self._debounce(plain, carried)
        if plain.get("delay") is not None and plain.get("run_at") is not None:
            raise InvalidOption("delay and run_at are mutually exclusive; give one of them")
        if carried.get("after") and (plain.get("delay") is not None or plain.get("run_at") is not None):
            raise InvalidOption("after= excludes delay and run_at; leave them out")
        if "delay" in plain or "run_at" in plain:
            plain = {"delay": None, "run_at": None, **plain}
        options = msgspec.structs.replace(self.options, **carried) if carried else self.options
        return msgspec.structs.replace(self, options=options, **plain)

    def _debounce(self, plain: dict[str, Any], carried: dict[str, Any]) -> None:
        if carried.get("unique_key", self.options.unique_key) is None:
            raise InvalidOption("debounce needs a unique key: give unique= too")
        if plain.keys() & {"delay", "run_at", "on_conflict"}:
            raise InvalidOption("debounce implies delay and on_conflict='replace'; leave them out")
        plain |= {"delay": plain.pop("debounce"), "on_conflict": "replace"}

    def job(self, task: str, payload: str, queue: str, place: int | None = None) -> NewJob:
        """The job this template makes. `queue` is where it goes if no option said; `place` is its number in
        a call that sends many, so that each of them gets an idempotency key of its own."""
        key = self.idempotency_key
        return NewJob(
            task=task,
            payload=payload,
            queue=self.queue or queue,
            priority=self.priority,
            delay=self.delay,
            run_at=self.run_at,
            options=self.options,
            on_conflict=self.on_conflict,
            idempotency_key=key if key is None or place is None else f"{key}/{place}",
        )


def _name(field: Field, value: Any) -> str:
    return check_name(field.name, value)


def _priority(field: Field, value: Any) -> int:
    try:
        return int(Priority.parse(value))
    except (ValueError, TypeError) as error:
        raise InvalidOption(f"{field.name}: {error}") from None


def _time(field: Field, value: Any) -> float:
    try:
        span = seconds(value)
    except ValueError as error:
        raise InvalidOption(f"{field.name}: {error}") from None
    if field.most is not None and span > field.most:
        days = f"{field.most / 86400:g} days"
        raise InvalidOption(f"{field.name}: {value!r} is too long; at most {days} are allowed")
    if span == 0 and not field.zero:
        raise InvalidOption(f"{field.name}: 0 would leave no time to run")
    return span


def _moment(field: Field, value: Any) -> float:
    name = field.name
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidOption(f"{name}: {value!r} has no time zone; use datetime.now(UTC) or similar")
        value = (value - _EPOCH).total_seconds()
    if type(value) not in (int, float) or not math.isfinite(value):
        raise InvalidOption(
            f"{name}: {value!r} is not a time; give a datetime with a time zone, or seconds since the epoch"
        )
    if not 0 <= value < LAST_RUN_AT:
        raise InvalidOption(f"{name}: {value!r} is out of range; it must lie between the years 1970 and 2200")
    return float(value)


def _whole(field: Field, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= (field.most or value):
        raise InvalidOption(f"{field.name}: {value!r} is not {field.allowed}")
    return value


def _choice(field: Field, value: Any) -> str:
    if value not in field.choices:
        raise InvalidOption(f"{field.name}: {value!r} is not {field.allowed}")
    return str(value)


def _text(field: Field, value: Any) -> str:
    return _checked(field.name, value, field.most or MAX_HEADER)


def _checked(name: str, value: Any, most: int) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= most:
        raise InvalidOption(f"{name}: {str(value)[:80]!r} is not a string of 1 to {most} characters")
    if not storable(value):
        raise InvalidOption(f"{name}: {value[:80]!r} holds a NUL byte or invalid Unicode")
    return value


def _ids(field: Field, value: Any) -> tuple[int, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidOption(f"{field.name}: {value!r} is not a list of jobs; write {field.name}=[job]")
    value = list(value)
    if any(getattr(each, "receipt", None) == "on_commit" for each in value):
        raise InvalidOption(f"{field.name}: {WAITS_FOR_COMMIT}")
    ids: tuple[Any, ...] = tuple(dict.fromkeys(getattr(each, "id", each) for each in value))
    for id in ids:
        if type(id) is not int or id < 1:
            raise InvalidOption(f"{field.name}: {id!r} is neither a job nor its id")
    return _few(field, ids, "jobs")


def _tags(field: Field, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption(f"{field.name}: {value!r} is not {field.allowed}")
    return _few(field, tuple(_checked(field.name, tag, 64) for tag in value), "tags")


def _abilities(field: Field, value: Any) -> str:
    try:
        names = read_abilities(value)
    except InvalidName as error:
        raise InvalidOption(f"{field.name}: {error}") from None
    return needs_text(_few(field, names, "abilities"))


def _headers(field: Field, value: Any) -> dict[str, str]:
    name = field.name
    if not isinstance(value, Mapping):
        raise InvalidOption(f"{name}: {value!r} is not a mapping of texts")
    _few(field, value, "headers")
    return {
        _checked(name, key, MAX_KEY): _checked(f"{name}[{key}]", text, MAX_HEADER)
        for key, text in value.items()
    }


def _few(field: Field, found: S, what: str) -> S:
    if field.most is not None and len(found) > field.most:
        raise InvalidOption(
            f"{field.name}: {len(found)} {what} are too many; at most {field.most} are allowed"
        )
    return found


_READERS: Final[Mapping[Unit, Callable[[Field, Any], Any]]] = {
    "name": _name,
    "priority": _priority,
    "time": _time,
    "moment": _moment,
    "attempts": _whole,
    "jobs": _whole,
    "key": _text,
    "text": _text,
    "choice": _choice,
    "ids": _ids,
    "tags": _tags,
    "abilities": _abilities,
    "headers": _headers,
    "connection": lambda _field, value: value,
}
