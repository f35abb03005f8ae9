"""Measures that can be added up: what was counted in a span of time, of one task in one queue [M1], and what
gauges showed, of one worker, of one host and of the store [M3].

A worker counts into samples of a minute. A rollup adds them to the rows that charts are drawn from: those of
the minute, of the hour and of all time, each for the task, for its whole queue and for everything. Adding up
is associative and commutative, so it does not matter in which order or in how many steps it is done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec

K = TypeVar("K", str, int)

MINUTE: Final = 60
HOUR: Final = 3600
EVER: Final = 0
"""The span of the row that counts everything since the store was made; its time is 0."""

SPANS: Final = (MINUTE, HOUR, EVER)
KEPT: Final = {MINUTE: 86400.0 * 30, HOUR: 86400.0 * 365}
"""For how many seconds the rows of a span are kept."""

COUNTS: Final = frozenset(
    {
        "succeeded", "retry", "dead", "cancelled", "snooze", "throttled", "unknown", "released",
        "claims", "claimed", "empty", "refused", "rescued", "lost", "unresponsive", "dropped",
        "looks", "ready", "waited", "rounds", "waited_most",
    }
)  # fmt: skip
"""The counters. Outcomes by their kind; claims that found jobs, the jobs in them, claims that found none;
writes that were refused by the fence [C5]; jobs taken back from dead workers, those workers, and those that
lived and took nothing [fault 32]; events that found no room [M2]. Then what the coordinator sees when it
looks at queues, see `standing`."""


ENDS: Final = frozenset({"succeeded", "dead", "cancelled"})
"""The outcomes that end a job. Since the store was made they are counted by the store, see `with_ends`."""


class Sample(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The counts of one span of time. Histograms are those of `core.histogram`, in milliseconds."""

    at: int
    """Its first second since the epoch, by the store's clock."""
    queue: str = ""
    """"": of all queues, or of none in particular."""
    task: str = ""
    """"": of all tasks, or of none in particular."""
    counts: dict[str, int] = {}
    waits: dict[int, int] = {}
    """How long jobs had been ready when they were started."""
    runs: dict[int, int] = {}
    """How long runs took, however they ended."""

    def add(self, other: Sample) -> None:
        """Count what the other has counted as well."""
        add_up(self.counts, other.counts)
        add_up(self.waits, other.waits)
        add_up(self.runs, other.runs)


class Place(NamedTuple):
    """Which row something is counted in."""

    span: int
    at: int
    queue: str
    task: str


def places(sample: Sample) -> Iterator[Place]:
    """Every row that a sample is counted in: each once."""
    whose = dict.fromkeys(((sample.queue, sample.task), (sample.queue, ""), ("", "")))
    for span in SPANS:
        for queue, task in whose:
            yield Place(span, sample.at - sample.at % span if span else 0, queue, task)


def roll(samples: Iterable[Sample]) -> dict[Place, Sample]:
    """Return the counts to be added to each row."""
    alike: dict[tuple[int, str, str], Sample] = {}
    for sample in samples:  # many tell of the same minute and task: added up before they are spread
        key = (sample.at, sample.queue, sample.task)
        if key not in alike:
            alike[key] = Sample(at=sample.at, queue=sample.queue, task=sample.task)
        alike[key].add(sample)
    rows: dict[Place, Sample] = {}
    for sample in alike.values():
        for place in places(sample):
            if place not in rows:
                rows[place] = Sample(at=place.at, queue=place.queue, task=place.task)
            rows[place].add(sample)
    return rows


def with_ends(totals: Iterable[Sample], ended: Iterable[Sample]) -> list[Sample]:
    """Return the totals since the store was made, with the ends of jobs as the store has counted them [M7]: a
    worker that is killed takes what it has not reported along. `ended` is of each task in each queue."""
    rows: dict[tuple[str, str], Sample] = {}
    for each in totals:
        counts = {name: n for name, n in each.counts.items() if name not in ENDS}
        rows[each.queue, each.task] = msgspec.structs.replace(each, counts=counts)
    for each in ended:
        for key in ((each.queue, each.task), (each.queue, ""), ("", "")):
            if key not in rows:
                rows[key] = Sample(at=0, queue=key[0], task=key[1], counts={})
            add_up(rows[key].counts, each.counts)
    return [rows[key] for key in sorted(rows)]


def standing(sample: Sample) -> tuple[float, float]:
    """How many jobs were ready, and for how many seconds the oldest had waited, on average over the looks
    that found any. A gauge cannot be added up, but what it showed can, with how often it was looked at."""
    looks = sample.counts.get("looks" if sample.queue else "rounds", 0)
    if not looks:
        return 0.0, 0.0
    waited = sample.counts.get("waited" if sample.queue else "waited_most", 0)
    return sample.counts.get("ready", 0) / looks, waited / looks / 1000.0


def rate(samples: Iterable[Sample], now: float, kinds: Collection[str] = ("succeeded",)) -> float:
    """Return how many jobs ended in these ways in a second, over the last whole minute and what has passed of
    the present one."""
    since = int(now) - int(now) % MINUTE - MINUTE
    ended = sum(sample.counts.get(kind, 0) for sample in samples if sample.at >= since for kind in kinds)
    return round(ended / max(now - since, 1.0), 3)


def add_up(counted: dict[K, int], more: Mapping[K, int]) -> None:
    """Add to each number the other one of the same key."""
    for key, n in more.items():
        counted[key] = counted.get(key, 0) + n


# -- gauges ----------------------------------------------------------------------------------------------

Subject = Literal["worker", "host", "store"]

GAUGES: Final = {
    "cpu": 1000, "memory": 1, "lag": 1000, "running": 100, "slots": 100,
    "machine_cpu": 1000, "machine_memory": 1, "machine_total": 1,
    "bytes": 1, "wal_rate": 1, "wal_file": 1, "connections": 100, "cache_hits": 100_000, "lock_waits": 100,
}  # fmt: skip
"""The gauges, and how many units of each are 1. Readings are whole numbers of such units: floats would not
add up to the same in every order, and take twice the room. Of a worker: cores, bytes, seconds, slots in use
and slots it has. Of the machine that a host runs on: share of all cores, bytes in use and bytes it has. Of
the store: bytes, bytes of write-ahead log a second or in its file, connections, share of pages found in the
cache, and waits for the write lock a minute."""

GAUGES_KEPT: Final = {MINUTE: 90_000.0, HOUR: 86400.0 * 35}
"""For how many seconds rows of gauges are kept: a day, a month, and a little, so that a chart of the last day
or month is whole to its edge. There is a row for each worker, so they are kept for less long than others."""


class Reading(msgspec.Struct, array_like=True):
    """A reading of a gauge. It is the average over a minute of one process."""

    total: int
    n: int
    """How many readings."""
    most: int
    """The highest moment of all."""

    def add(self, other: Reading) -> None:
        """Take in what the other has read as well."""
        self.total += other.total
        self.n += other.n
        self.most = max(self.most, other.most)


class Gauges(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The gauges of one worker, one host or the store, in one span of time."""

    at: int
    """Its first second since the epoch, by the store's clock."""
    of: Subject
    name: str = ""
    """The label of the worker, or the name of the host; "": of all workers, or of the store."""
    host: str = ""
    """Where a worker runs."""
    values: dict[str, Reading] = {}
    calls: dict[int, int] = {}
    """How long the store took to answer this process's reports: a histogram, in milliseconds."""

    def add(self, other: Gauges) -> None:
        """Take in what the other has read as well."""
        for name, reading in other.values.items():
            if name in self.values:
                self.values[name].add(reading)
            else:
                self.values[name] = msgspec.structs.replace(reading)
        add_up(self.calls, other.calls)


class GaugePlace(NamedTuple):
    """Which row gauges are kept in."""

    span: int
    at: int
    of: Subject
    name: str


def roll_gauges(reported: Iterable[Gauges]) -> dict[GaugePlace, Gauges]:
    """Return the gauges to be added to each row. A worker counts in its own, in that of all workers and in
    that of its host; the calls of everybody count in that of the store."""
    rows: dict[GaugePlace, Gauges] = {}
    for gauges in reported:
        whose: list[tuple[Subject, str]] = [(gauges.of, gauges.name)]
        if gauges.of == "worker":
            whose += [("worker", ""), ("host", gauges.host)] if gauges.host else [("worker", "")]
        for span in GAUGES_KEPT:
            at = gauges.at - gauges.at % span
            for of, name in whose:
                _row(rows, GaugePlace(span, at, of, name)).add(gauges)
            if gauges.calls and gauges.of != "store":
                add_up(_row(rows, GaugePlace(span, at, "store", "")).calls, gauges.calls)
    return rows


def _row(rows: dict[GaugePlace, Gauges], place: GaugePlace) -> Gauges:
    if place not in rows:
        rows[place] = Gauges(at=place.at, of=place.of, name=place.name)
    return rows[place]
