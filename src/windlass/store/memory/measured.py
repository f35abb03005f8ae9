"""What a memory store was told, and what it has made of that: news, the rows of charts, events, and who told.
How these are used is in `measures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, islice

from windlass.core.rollup import Place, Sample, roll
from windlass.store.measures import EventRecord, Vitals
from windlass.store.telling import EVENTS_KEPT, MOST_EVENTS, TELLERS_KEPT, countable, cutoffs


@dataclass(eq=False)
class Source:
    """A process that tells: the number of its last news, and how it was doing."""

    number: int
    at: float
    vitals: Vitals | None = None
    vitals_at: float | None = None


@dataclass(eq=False)
class Measured:
    """What was measured."""

    tellers: dict[int, Source] = field(default_factory=dict)
    news: list[Sequence[Sample]] = field(default_factory=list)
    """What was told and not yet rolled up."""
    rows: dict[Place, Sample] = field(default_factory=dict)
    events: dict[int, EventRecord] = field(default_factory=dict)
    """By their numbers, so the oldest first."""
    numbers: count[int] = field(default_factory=lambda: count(1))

    def fold(self, limit: int) -> tuple[int, int]:
        """Add the oldest news to the rows; how many of the one went into how many of the other."""
        batches, self.news = self.news[:limit], self.news[limit:]
        rolled = roll(sample for batch in batches for sample in countable(batch))
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
        surplus = len(self.events) - MOST_EVENTS
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
        silent = [id for id, teller in self.tellers.items() if teller.at <= now - TELLERS_KEPT]
        for id in silent:
            if id not in alive:
                del self.tellers[id]
