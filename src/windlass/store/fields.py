"""Every setting that operators change without a change of code, of a queue [K1], a task [P6] and a budget
[F1], and every option of a job [E2]. One entry each: name, type, default, help, unit and bounds. Annotations
are not put off here: `fields_of` reads them, and parsing them again would take longer than all else.

Everything else is made from these entries: what is accepted and how the rest is refused (`changes`,
`tasks.options`), the columns that SQLite reads and writes, the checks on PostgreSQL, the options of the
command line, the API and its OpenAPI document, the forms, the page of a job and the reference. A new setting
needs its entry here, a column in a migration of each store, and the code that uses it; a new option of a job
a place in `Options` and in `windlass.enqueue` instead of the columns.
"""

import functools
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, TypedDict, get_args, get_origin

import msgspec

from windlass.core.abilities import MAX_NEEDS
from windlass.core.durations import Duration, duration_text
from windlass.core.flow.caps import PERIODS
from windlass.core.flow.rates import rate_text
from windlass.core.slots import MAX_SLOTS, MAX_TOTAL
from windlass.core.states import Priority, PriorityName
from windlass.core.texts import storable
from windlass.endings import MAX_ATTEMPTS, MAX_DELAY

Unit: TypeAlias = Literal[
    "yes, no", "on, off", "time", "rate", "size", "cap", "slots", "jobs", "records", "parts", "tokens",
    "failures", "zone", "argument", "name", "priority", "moment", "attempts", "key", "choice", "ids", "tags",
    "headers", "text", "abilities", "connection",
]  # fmt: skip
"""`time` is in seconds and `rate` is so many a second; people write and read them as 30s and 10/s. `size` is
a count that people may write as 128MiB, `cap` one that they may write with its period as 2M/day. Those
behind `argument` are of options of jobs alone."""
_LISTS: Final = {"ids": "a list of ids of jobs", "tags": "a list of texts", "headers": "texts by name"}
_WRITTEN: Final = {**_LISTS, "abilities": "up to 8 names with commas between them"}
OnConflict = Literal["skip", "replace", "reject"]
Otherwise = Literal["dead", "cancel", "run", "run_only"]
MAX_KEY: Final = 255
"""Characters of a key."""
MAX_HEADERS: Final = 64
MAX_BYTES: Final = 1024 * 1024
"""Bytes of a payload, of a result and of the value of a signal, as JSON."""
_PRIORITIES: Final = tuple(each.name.lower() for each in Priority)
_MAX: Final = 2**31 - 1
_MAX_DEPTH: Final = 2**53
"""PostgreSQL divides by these as float8."""
_MAX_BIG: Final = 2**63 - 1


class Field(msgspec.Struct, frozen=True):
    """A setting. What stands below `name` is read from its annotation."""

    help: str
    """The help text, in a line."""
    unit: Unit
    label: str = ""
    """Its title in a form."""
    unset: str = ""
    """The meaning of no value."""
    zero: bool = False
    """True if it may be 0."""
    most: int | None = None
    more: str = ""
    """The text that the reference adds to the help."""
    when: str = ""
    """When to change it, for the reference."""
    verbs: bool = False
    """Commands and buttons of their own change it, so `set` and the form leave it out."""
    kept: str = ""
    """The name of a job's option in the store, the API and JSON: its name, unless this says another."""
    change: bool = False
    """True if this option of a job can be changed while it waits [E8]."""
    beside: str = ""
    """The option of a job without which it means nothing."""
    choices: tuple[str, ...] = ()
    name: str = ""
    kind: type = NoneType
    """bool, int, float or str; of an option of a job, int or any other."""
    optional: bool = False
    """True if it may be None."""
    default: Any = None

    def checked(self, what: str, owner: str, value: Any) -> Any:
        """The value as it is kept. Raises ValueError where the setting of this owner cannot have it."""
        if self.optional and value is None:
            return None
        if not self._fits(value):
            raise ValueError(f"{self.name} of {what} {owner!r} cannot be {value!r}: write {self.allowed}")
        return self.kind(value)

    def _fits(self, value: Any) -> bool:
        if self.kind is bool or self.choices:
            return isinstance(value, self.kind) and (not self.choices or value in self.choices)
        if self.kind is str:
            return isinstance(value, str) and 1 <= len(value) <= (self.most or MAX_KEY) and storable(value)
        number = (int,) if self.kind is int else (int, float)
        return (
            isinstance(value, number)
            and not isinstance(value, bool)
            and (value > 0 or (self.zero and value == 0))
            and value <= (sys.float_info.max if self.most is None else self.most)
        )

    @property
    def allowed(self) -> str:
        """The values that it may have."""
        if self.kind is bool:
            return "true or false"
        if self.unit in _WRITTEN:
            return _WRITTEN[self.unit]
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is str:
            return f"a text of 1 to {self.most or MAX_KEY} characters"
        if self.kind is int:
            return f"a whole number from {0 if self.zero else 1} to {self.most:,}"
        least = "0 or more" if self.zero else "more than 0"
        return f"seconds, {least}" if self.unit == "time" else f"a number per second, {least}"

    @property
    def default_text(self) -> str:
        """Its default, as people write it."""
        return ", else ".join(filter(None, (self.unset, self.text(self.default))))

    def text(self, value: Any) -> str:
        """A value as people write it on the command line and in forms; nothing for None."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return self.unit.split(", ")[0 if value else 1]
        if self.unit == "time":
            return duration_text(value)
        if self.unit == "priority":
            return Priority(value).name.lower()
        return rate_text(value) if self.unit == "rate" else str(value)


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a queue. Operators set them [K1], or code does, by `app.queue(name)` [K11]."""

    name: str
    paused: Annotated[bool, Field(
        "Start no new jobs; running ones finish.", "yes, no", label="Paused", verbs=True,
        more="`windlass queue pause` and `resume` change it.", when="something behind it is broken",
    )] = False  # fmt: skip
    max_workers: Annotated[int | None, Field(
        "Slots over the whole cluster.", "slots", label="Slots over the cluster", most=MAX_TOTAL,
        unset="as workers say",
        more="They are shared out over its workers; `-q mail=8` sets it for a new queue.",
        when="it should get more, or less, of your workers",
    )] = None  # fmt: skip
    process_slots: Annotated[int | None, Field(
        "Slots of each process that serves it, however many there are.", "slots",
        label="Slots per process", most=MAX_SLOTS, unset="its share, or 16",
        more="With `max_workers` the smaller counts; `-q imports=4/process` sets it for a new queue.",
        when="autoscaling adds processes, and each can run so many jobs",
    )] = None  # fmt: skip
    retention: Annotated[float | None, Field(
        "How long succeeded and cancelled jobs are shown.", "time", label="Keep succeeded jobs", zero=True,
        unset="as the store says", more="At most the retention of the store.",
        when="its history is of no use",
    )] = None  # fmt: skip
    dead_retention: Annotated[float, Field(
        "How long dead jobs are kept.", "time", label="Keep dead jobs", zero=True,
        when="operators need them for less time, or more",
    )] = 30 * 86400.0  # fmt: skip
    window: Annotated[int, Field(
        "Jobs with a fair key let in at a time.", "jobs", label="Fair-key jobs let in", most=_MAX,
        when="many workers run tiny jobs (more), or turns should be stricter (fewer)",
    )] = 100  # fmt: skip
    safety_bound: Annotated[float, Field(
        "Hard limit on any run, whatever its task says.", "time", label="End any run after",
        when="its jobs are long",
    )] = 3600.0  # fmt: skip
    backoff: Annotated[bool, Field(
        "Whether retries and cool-downs wait longer each time.", "yes, no", label="Wait longer each time",
        more="Retries of a task with `retry=` go by that.", when="retries should come at once (no)",
    )] = True  # fmt: skip
    backoff_base: Annotated[float, Field(
        "The first wait before a retry.", "time", label="First retry after", zero=True,
    )] = 5.0  # fmt: skip
    backoff_cap: Annotated[float, Field(
        "The longest wait before a retry.", "time", label="Retry at the latest after", zero=True,
    )] = 1800.0  # fmt: skip
    cool_base: Annotated[float, Field(
        "The first cool-down after a throttle.", "time", label="First cool-down",
        more="A throttle is a handler that raises `Throttled`. Without `backoff` each cool-down is as long.",
        when="the upstream forgives sooner, or later",
    )] = 60.0  # fmt: skip
    cool_cap: Annotated[float, Field(
        "The longest cool-down.", "time", label="Longest cool-down",
    )] = 1800.0  # fmt: skip
    concurrency: Annotated[int | None, Field(
        "How many of its jobs run at a time, exactly.", "jobs", label="At most running", most=_MAX,
        unset="no limit", when="the upstream can take exactly so many at once",
    )] = None  # fmt: skip
    governor: Annotated[bool, Field(
        "Find its rate by trying, from rate_min to rate_max.", "on, off", label="Governor",
        when="nobody knows how much the upstream can take",
    )] = False  # fmt: skip
    rate_min: Annotated[float, Field(
        "The governor's lowest rate of jobs.", "rate", label="Governor's lowest rate", zero=True,
    )] = 1.0  # fmt: skip
    rate_max: Annotated[float, Field(
        "The governor's highest rate of jobs.", "rate", label="Governor's highest rate",
    )] = 1000.0  # fmt: skip
    max_depth: Annotated[int | None, Field(
        "Refuse new jobs when so many are ready.", "jobs", label="Refuse new jobs at", most=_MAX_DEPTH,
        unset="no limit", more="This is backpressure.", when="producers can wait, or should slow down",
    )] = None  # fmt: skip
    shed_depth: Annotated[int | None, Field(
        "Shed load at so many ready jobs.", "jobs", label="Shed load at a depth of", most=_MAX_DEPTH,
        unset="never", when="the least important jobs may be dropped",
    )] = None  # fmt: skip
    shed_wait: Annotated[float | None, Field(
        "Shed load when the oldest job has waited so long.", "time", label="Shed load at a wait of",
        unset="never",
    )] = None  # fmt: skip
    shed_latency: Annotated[float | None, Field(
        "Shed load when the store is so slow.", "time", label="Shed load at a latency of", unset="never",
    )] = None  # fmt: skip

    def time_limit(self, timeout: float | None) -> float:
        """Seconds that a run may take, whose own limit is `timeout` [C6]."""
        return self.safety_bound if timeout is None else min(timeout, self.safety_bound)


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a task that operators set, instead of what its code says: that is None here [P6]."""

    name: str
    batch: Annotated[int | None, Field(
        "Records per batch.", "records", label="Batch", most=_MAX_BIG, unset="as the code says",
    )] = None  # fmt: skip
    batch_timeout: Annotated[float | None, Field(
        "How long a batch may take before it is halved.", "time", label="Batch timeout",
        unset="as the code says",
    )] = None  # fmt: skip
    parallel: Annotated[int | None, Field(
        "How many parts of a parent may run at a time, if split from now.", "parts", label="Parallel",
        most=_MAX_BIG, unset="as the code says",
    )] = None  # fmt: skip
    chunk: Annotated[int | None, Field(
        "How much a part covers, if split from now: bytes of a file (128MiB), or numbers, shards, items.",
        "size", label="Chunk", most=_MAX_BIG, unset="as the code says",
        more="It counts as the splitter does. A function as splitter has none.",
    )] = None  # fmt: skip
    concurrency: Annotated[int | None, Field(
        "How many of its jobs run at a time over the whole cluster.", "jobs", label="Concurrency",
        most=_MAX_BIG, unset="as the code says",
    )] = None  # fmt: skip
    key_concurrency: Annotated[int | None, Field(
        "How many of its jobs run at a time for each concurrency key.", "jobs", label="Per key",
        most=_MAX_BIG, unset="as the code says",
    )] = None  # fmt: skip


class NewBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A budget as code declares it. Operators may set all of it, and what they set stays [F1]."""

    name: str
    rate: Annotated[float, Field(
        "Tokens it grows by: 10/s, 100/m, 5000/h, 10/30s.", "rate", label="Rate, as 10/s, 600/m or 5000/h",
        zero=True, most=_MAX_BIG,
    )]  # fmt: skip
    burst: Annotated[int, Field(
        "The most it holds, and so the most granted at once.", "tokens", label="Burst", most=_MAX_BIG,
        unset="the rate of a second",
    )]  # fmt: skip
    key: Annotated[str | None, Field(
        "The argument by whose value tasks divide it; shown, and no more than that.", "argument",
        label="Divided by", unset="none",
    )] = None  # fmt: skip
    cap: Annotated[int | None, Field(
        "The most tokens in a period, whatever the rate: 2M/day, or a number.", "cap", label="Cap",
        most=_MAX_BIG, unset="none", when="spending must stop for the day",
        more="No less than the burst. A job that would go over it waits until the period ends.",
    )] = None  # fmt: skip
    cap_per: Annotated[str, Field(
        "The period that use is counted by.", "choice", label="Cap per", choices=PERIODS,
    )] = "day"  # fmt: skip
    cap_zone: Annotated[str, Field(
        "The time zone whose days and months are counted.", "zone", label="Time zone of the cap", most=64,
    )] = "UTC"  # fmt: skip
    breaker: Annotated[int, Field(
        "It opens after so many failed runs in a row; 0: never.", "failures", label="Breaker opens after",
        zero=True, most=_MAX_BIG,
    )] = 0  # fmt: skip
    breaker_pause: Annotated[float, Field(
        "How long the breaker stays open.", "time", label="Breaker stays open for",
        more="Each time in a row it is twice as long, up to sixteen times.",
    )] = 30.0  # fmt: skip


class HasId(Protocol):
    """Something with a job's id, such as a Job."""

    @property
    def id(self) -> int:
        """The id."""


class JobOptions(TypedDict, total=False):
    """The options of a job: what `task.using(...)` takes [E2]. On keys see [C3], [E6], [E7], [F3] and [F6],
    on jobs after others [P12], on a connection [E1]."""

    queue: Annotated[str, Field(
        "The queue, instead of the task's own.", "name", unset="the task's", change=True)]  # fmt: skip
    priority: Annotated[Priority | PriorityName | int, Field(
        "Its priority in its queue.", "priority", change=True, unset="the task's", choices=_PRIORITIES,
        more="`urgent`, `high`, `normal` or `low`.")]  # fmt: skip
    delay: Annotated[Duration, Field(
        "Run after this time, such as 30s, 5m or 1h30m.", "time", zero=True, most=int(MAX_DELAY),
        change=True, more="Not together with `run_at`.")]  # fmt: skip
    run_at: Annotated[datetime | float, Field(
        "Run at this time.", "moment", change=True,
        more="A `datetime` with time zone, or seconds since the epoch.",
    )]  # fmt: skip
    max_attempts: Annotated[int, Field(
        "How often it is tried before it is dead.", "attempts", change=True,
        most=MAX_ATTEMPTS, unset="the task's",
        more="Up to 1000.")]  # fmt: skip
    timeout: Annotated[Duration, Field(
        "How long one attempt may run.", "time", change=True, most=30 * 86400,
        unset="the task's", more="Up to 30 days.",
    )]  # fmt: skip
    expires: Annotated[Duration, Field(
        "End it as cancelled where nobody has begun it after this time.", "time", most=int(MAX_DELAY),
        more="It counts from the enqueue, or from `run_at` where that is later; not once an attempt has "
        "begun.", when="it is of no use later")]  # fmt: skip
    unique: Annotated[str, Field(
        "Unique key: at most one unfinished job holds it.", "key", kept="unique_key", most=MAX_KEY,
        more="Up to 255 characters.", when="the same work must not be queued twice")]  # fmt: skip
    on_conflict: Annotated[OnConflict, Field(
        "What to do when the unique key is held.", "choice",
        more="`replace` the one that waits, or `reject` with AlreadyEnqueued. While it runs, `skip` and "
        "`replace` make it run again.")]  # fmt: skip
    debounce: Annotated[Duration, Field(
        "Run so long after the last enqueue with the same unique key.", "time", zero=True,
        most=int(MAX_DELAY), more='It is `delay` and `on_conflict="replace"` in one word.',
        when="only the last of many edits counts")]  # fmt: skip
    idempotency_key: Annotated[str, Field(
        "Sending again with the same key adds nothing and answers with the first job.", "key", most=MAX_KEY,
        when="a call may be repeated because its connection broke")]  # fmt: skip
    fair_key: Annotated[str, Field(
        "Jobs of different keys in one queue take turns.", "key", most=MAX_KEY, unset="by the task's",
    )]  # fmt: skip
    ordering_key: Annotated[str, Field(
        "Jobs of one key in one queue run one at a time, in order.", "key", most=MAX_KEY,
        unset="by the task's", more="A retry keeps its place.")]  # fmt: skip
    concurrency_key: Annotated[str, Field(
        "At most as many jobs of one key run at a time as its key limit says.", "key", most=MAX_KEY,
        unset="by the task's", when="tasks share a key")]  # fmt: skip
    key_limit: Annotated[int, Field(
        "How many jobs of its concurrency key run at a time.", "jobs", most=999_999_999,
        beside="concurrency_key", more="The task's setting `key_concurrency` overrides it.")]  # fmt: skip
    after: Annotated[Iterable[int | HasId], Field(
        "Jobs that must have succeeded before this one is ready.", "ids", most=1000,
        more="Jobs, or their ids; up to 1000. Not together with a time.", when="chains, groups")]  # fmt: skip
    otherwise: Annotated[Otherwise, Field(
        "What becomes of it where one of those ends in another way.", "choice", beside="after",
        more="`dead`, `cancel` or `run`. With `run_only` it runs only then, and is cancelled where all "
        "succeed.")]  # fmt: skip
    needs: Annotated[str | Iterable[str], Field(
        "Abilities: only a worker that has all of these runs it.", "abilities", unset="the task's",
        change=True, most=MAX_NEEDS, more="One name, or up to 8, such as `gpu`; a worker has them by "
        "`--ability gpu`.", when="it needs a special machine")]  # fmt: skip
    tags: Annotated[Iterable[str], Field(
        "Words to find it by.", "tags", change=True, most=32, unset="the task's",
        more="Up to 32 of 64 characters.",
    )]  # fmt: skip
    headers: Annotated[Mapping[str, str], Field(
        "Small texts that travel with it.", "headers", change=True, most=MAX_HEADERS,
        more="Up to 64 of 4096 characters.",
    )]  # fmt: skip
    trace: Annotated[str, Field(
        "A W3C traceparent that the run continues.", "text", most=MAX_KEY, unset="that of the caller",
        more="Set for you by `windlass.contrib.otel`.")]  # fmt: skip
    connection: Annotated[Any, Field(
        "A connection of yours: the job exists if and only if its transaction commits.", "connection",
        more="To the jobs' PostgreSQL database or, as an `apsw.Connection`, to their SQLite file.",
        when="a job must be there exactly if the data is")]  # fmt: skip


SUBJECTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "queue": QueueSettings,
    "task": TaskRecord,
    "budget": NewBudget,
}
"""Who has settings."""


@functools.cache
def fields_of(record: type[msgspec.Struct]) -> Mapping[str, Field]:
    """The settings among the attributes of a record, by name. What is no setting is its name, or state."""
    return {
        info.name: entry(info.name, info.type, None if info.default is msgspec.NODEFAULT else info.default)
        for info in msgspec.structs.fields(record)
        if get_origin(info.type) is Annotated
    }


def entry(name: str, annotation: Any, default: Any) -> Field:
    """A setting, or an option of a job, from its annotation."""
    kind: Any
    field: Field
    kind, field = get_args(annotation)
    inner: tuple[Any, ...] = get_args(kind)
    choices = inner if get_origin(kind) is Literal else field.choices
    kinds = [each for each in inner or (kind,) if each is not NoneType]
    return msgspec.structs.replace(
        field,
        name=name,
        kept=field.kept or name,
        kind=str if choices else kinds[0],
        optional=NoneType in inner,
        choices=choices,
        default=default,
    )
