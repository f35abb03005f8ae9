"""What was reported to the oracle, and what it has made of that: reports, rows of charts, events, reporters.
How these are used is in `measures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, islice

from windlass.core.rollup import Place, Sample, roll
from windlass.store.measures import (
    EVENTS_KEPT,
    MAX_EVENTS,
    REPORTERS_KEPT,
    countable,
    cutoffs,
)
from windlass.store.records import EventRecord, Vitals


@dataclass(eq=False)
class Source:
    """A process that reports: the number of its last report, and how it was doing."""

    number: int
    at: float
    vitals: Vitals | None = None
    vitals_at: float | None = None


@dataclass(eq=False)
class Measured:
    """What was measured."""

    reporters: dict[int, Source] = field(default_factory=dict)
    reports: list[Sequence[Sample]] = field(default_factory=list)
    """What was told and not yet rolled up."""
    rows: dict[Place, Sample] = field(default_factory=dict)
    events: dict[int, EventRecord] = field(default_factory=dict)
    """By their numbers, so the oldest first."""
    numbers: count[int] = field(default_factory=lambda: count(1))

    def fold(self, limit: int) -> tuple[int, int]:
        """Add the oldest reports to the rows; how many of the one went into how many of the other."""
        batches, self.reports = self.reports[:limit], self.reports[limit:]
        rolled = roll(sample for samples in batches for sample in countable(samples))
        for place, sample in rolled.items():
            if place in self.rows:
                self.rows[place].add(sample)
            else:
                self.rows[place] = sample
        return len(batches), len(rolled)

    def tidy(self, now: float, limit: int) -> int:
        """Remove rows and events that have outlived their time, so many of each at most."""
        ends = cutoffs(now)
        rows = [place for place in self.rows if place.span in ends and place.at < ends[place.span]][:limit]
        surplus = len(self.events) - MAX_EVENTS
        events = [
            id
            for n, (id, event) in enumerate(islice(self.events.items(), limit))
            if n < surplus or event.at <= now - EVENTS_KEPT
        ]
        for place in rows:
            del self.rows[place]
        for id in events:
            del self.events[id]
        return len(rows) + len(events)

    def forget(self, alive: set[int], now: float) -> None:
        """Forget who has told nothing for long and is no worker that is alive."""
        silent = [id for id, reporter in self.reporters.items() if reporter.at <= now - REPORTERS_KEPT]
        for id in silent:
            if id not in alive:
                del self.reporters[id]
