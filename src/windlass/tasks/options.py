"""The options of one enqueue [E2]: what can be said, what is allowed, and the template they make.

Options are checked when they are given, so a mistake shows at `using(...)` and not only when a job is sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypedDict, get_args

import msgspec

from windlass.core.durations import Duration, seconds
from windlass.core.names import check_name
from windlass.core.states import Priority
from windlass.errors import InvalidOption
from windlass.signals import MAX_ATTEMPTS, MAX_DELAY
from windlass.store.records import NewJob, OnConflict, Options, Otherwise

MAX_KEY: Final = 255
MAX_TAGS: Final = 32
MAX_AFTER: Final = 1000
MAX_HEADERS: Final = 64
MAX_HEADER: Final = 4096
MAX_LIMIT: Final = 1_000_000
MAX_TIMEOUT: Final = 30 * 86400.0
LAST_RUN_AT: Final = 7_258_118_400.0  # the year 2200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class JobOptions(TypedDict, total=False):
    """What `task.using(...)` takes."""

    queue: str
    """The queue, instead of the task's own."""
    priority: Priority | str | int
    """urgent, high, normal or low."""
    delay: Duration
    """Run after this time: "5m", seconds or a timedelta. Not together with run_at."""
    run_at: datetime | float
    """Run at this time: a datetime with time zone, or seconds since the epoch."""
    max_attempts: int
    """How often the job is tried before it is dead."""
    timeout: Duration
    """How long one attempt may run."""
    unique: str
    """At most one unfinished job holds this key [E6]."""
    on_conflict: OnConflict
    """What happens when the key is held: skip (default), replace or reject."""
    debounce: Duration
    """Run after this time, and begin that time anew whenever a job with the same `unique` key is enqueued
    while this one waits, in its place: `delay` and on_conflict="replace" in one word [E6]."""
    idempotency_key: str
    """Sending again with the same key adds nothing and answers with the first job [E7]."""
    fair_key: str
    """Jobs of different keys in one queue take turns [C3]."""
    ordering_key: str
    """Jobs of one key in one queue run one at a time and in order; a retry keeps its place [F6]."""
    concurrency_key: str
    """At most key_limit jobs of one key run at a time [F3]."""
    key_limit: int
    """How many that are; 1 without it, and the task's setting `key_concurrency` overrides it."""
    after: Iterable[int | HasId]
    """Jobs, or their ids, that must have succeeded before this one is ready [P12]."""
    otherwise: Otherwise
    """What becomes of this job where one of those ends in another way: dead (default), cancel or run."""
    tags: Iterable[str]
    """Words to find the job by."""
    headers: Mapping[str, str]
    """Small texts that travel with the job."""
    trace: str
    """A W3C traceparent that the run continues."""
    connection: Any
    """A connection to PostgreSQL or, of apsw, to the jobs' SQLite file: the job exists if and only if its
    transaction commits [E1]."""


class HasId(Protocol):
    """Something with a job's id, such as a Job."""

    @property
    def id(self) -> int:
        """The id."""


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
        for name in given:
            if name not in JobOptions.__annotations__:
                known = ", ".join(JobOptions.__annotations__)
                raise InvalidOption(f"there is no option {name!r}; known: {known}")
        plain: dict[str, Any] = {}
        carried: dict[str, Any] = {}
        for name, value in given.items():
            if value is None and name != "connection":
                raise InvalidOption(f"{name}: None is not a value; leave the option out instead")
            read = _READERS[name](name, value)
            target = "unique_key" if name == "unique" else name
            (carried if target in Options.__struct_fields__ else plain)[target] = read
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


def _queue(name: str, value: Any) -> str:
    return check_name(name, value)


def _priority(name: str, value: Any) -> int:
    try:
        return int(Priority.parse(value))
    except (ValueError, TypeError) as error:
        raise InvalidOption(f"{name}: {error}") from None


def _span(name: str, value: Any, most: float) -> float:
    try:
        span = seconds(value)
    except ValueError as error:
        raise InvalidOption(f"{name}: {error}") from None
    if span > most:
        raise InvalidOption(f"{name}: {value!r} is too long; at most {most / 86400:g} days are allowed")
    return span


def _delay(name: str, value: Any) -> float:
    return _span(name, value, MAX_DELAY)


def _timeout(name: str, value: Any) -> float:
    span = _span(name, value, MAX_TIMEOUT)
    if span == 0:
        raise InvalidOption(f"{name}: 0 would leave no time to run")
    return span


def _run_at(name: str, value: Any) -> float:
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


def _attempts(name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MAX_ATTEMPTS:
        raise InvalidOption(f"{name}: {value!r} is not a whole number from 1 to {MAX_ATTEMPTS}")
    return value


def _text(name: str, value: Any, most: int = MAX_KEY) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= most:
        raise InvalidOption(f"{name}: {str(value)[:80]!r} is not a string of 1 to {most} characters")
    if "\0" in value or not _is_unicode(value):
        raise InvalidOption(f"{name}: {value[:80]!r} holds a NUL byte or invalid Unicode")
    return value


def _is_unicode(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _conflict(name: str, value: Any) -> str:
    if value not in get_args(OnConflict):
        raise InvalidOption(f"{name}: {value!r} is not one of {', '.join(get_args(OnConflict))}")
    return str(value)


def _whole(name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MAX_LIMIT:
        raise InvalidOption(f"{name}: {value!r} is not a whole number from 1 to {MAX_LIMIT}")
    return value


def _after(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidOption(f"{name}: {value!r} is not a list of jobs; write after=[job]")
    ids: tuple[Any, ...] = tuple(dict.fromkeys(getattr(each, "id", each) for each in value))
    for id in ids:
        if type(id) is not int or id < 1:
            raise InvalidOption(f"{name}: {id!r} is neither a job nor its id")
    if len(ids) > MAX_AFTER:
        raise InvalidOption(f"{name}: {len(ids)} jobs are too many; at most {MAX_AFTER} are allowed")
    return ids


def _otherwise(name: str, value: Any) -> str:
    if value not in get_args(Otherwise):
        raise InvalidOption(f"{name}: {value!r} is not one of {', '.join(get_args(Otherwise))}")
    return str(value)


def _tags(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption(f"{name}: {value!r} is not a list of tags")
    tags = tuple(_text(name, tag, 64) for tag in value)
    if len(tags) > MAX_TAGS:
        raise InvalidOption(f"{name}: {len(tags)} tags are too many; at most {MAX_TAGS} are allowed")
    return tags


def _headers(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidOption(f"{name}: {value!r} is not a mapping of texts")
    if len(value) > MAX_HEADERS:
        raise InvalidOption(f"{name}: {len(value)} headers are too many; at most {MAX_HEADERS} are allowed")
    return {_text(name, key): _text(f"{name}[{key}]", text, MAX_HEADER) for key, text in value.items()}


def _connection(name: str, value: Any) -> Any:
    return value


_READERS: Final[Mapping[str, Any]] = {
    "queue": _queue,
    "priority": _priority,
    "delay": _delay,
    "run_at": _run_at,
    "max_attempts": _attempts,
    "timeout": _timeout,
    "unique": _text,
    "on_conflict": _conflict,
    "idempotency_key": _text,
    "fair_key": _text,
    "ordering_key": _text,
    "concurrency_key": _text,
    "key_limit": _whole,
    "debounce": _delay,
    "after": _after,
    "otherwise": _otherwise,
    "tags": _tags,
    "headers": _headers,
    "trace": _text,
    "connection": _connection,
}
