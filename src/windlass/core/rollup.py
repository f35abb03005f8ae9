"""Measures that can be added up: what was counted in a span of time, of one task in one queue [M1].

A worker counts into samples of a minute. A rollup adds them to the rows that charts are drawn from: those of
the minute, of the hour and of all time, each for the task, for its whole queue and for everything. Adding up
is associative and commutative, so it does not matter in which order or in how many steps it is done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

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
"""The outcomes that end a job. Since the store was made they are counted by the store, see `with_ends`. A job
that expired is none of these: only the store counts it."""


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
