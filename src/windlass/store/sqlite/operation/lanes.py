"""Lanes and claims within one operation: loaded when first needed, changed in memory, written back once at
its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import apsw

from windlass.core.abilities import place_name
from windlass.core.ids import MAX_SEQ, RESERVED_LANE, SEQ_BITS, pack
from windlass.store.records import QueueRecord
from windlass.store.sqlite.rows import DEAD, HELD, OFFERED, RETRYING, SCHEDULED, Bindings, Row, fetch
from windlass.store.sqlite.schema import Statements

_SQL = Statements("lanes")

_COUNTERS: Final = {HELD: "held", SCHEDULED: "scheduled", RETRYING: "retrying", DEAD: "dead"}


@dataclass(slots=True, eq=False)
class Lane:
    """One queue × priority × what its jobs need of a worker: its next place, its cursor, and how many of its
    jobs stand where."""

    id: int
    queue: str
    priority: int
    needs: str
    seq: int
    hi: int
    served: str | None
    ready: int
    held: int
    running: int
    scheduled: int
    retrying: int
    dead: int
    base: int = field(init=False)
    """The position before its first place: base + seq is a position."""
    joined: bool = field(default=False, init=False)
    """True if somebody has joined its ring of fair keys in this operation [C3]."""
    no_turns: bool = field(default=False, init=False)
    """True if nobody is in that ring, as far as this operation has looked."""
    window: int | None = field(default=None, init=False)
    """How many jobs of fair keys may wait in it, once somebody has asked."""
    stored: Bindings = field(init=False)

    def __post_init__(self) -> None:
        self.base = self.id << SEQ_BITS
        self.stored = self.columns()

    def columns(self) -> Bindings:
        """Return the columns of a lane's row that change, and its number."""
        return (
            self.seq, self.hi, self.served, self.ready, self.held, self.running,
            self.scheduled, self.retrying, self.dead, self.id,
        )  # fmt: skip

    @property
    def place(self) -> str:
        """Return the name that it shares with lanes of other priorities; see `place_name`."""
        return place_name(self.queue, self.needs)

    @property
    def cursor(self) -> int:
        """The position of the last place claimed."""
        return self.base + self.hi

    @property
    def end(self) -> int:
        """The position no place of this lane is beyond."""
        return self.base + MAX_SEQ

    def next_place(self) -> int:
        """Give out the next place, as a position."""
        self.seq += 1
        return pack(self.id, self.seq)

    def next_places(self, n: int) -> range:
        """Return the next n positions."""
        first = self.base + self.seq + 1
        self.seq += n
        if n:
            pack(self.id, self.seq)  # the last of them is one
        return range(first, first + n)

    def join_ring(self) -> None:
        """Somebody waits for the turn of its fair key."""
        self.joined, self.no_turns = True, False

    def runs(self, row: Row) -> bool:
        """Return whether an offered job of this lane is running: it stands at or before the cursor."""
        return row.pos <= self.cursor

    def count(self, row: Row, by: int) -> None:
        """Count a job in or out where it stands [I4]. Succeeded and cancelled ones are not counted."""
        if row.state in OFFERED:
            if self.runs(row):
                self.running += by
            else:
                self.ready += by
        elif (name := _COUNTERS.get(row.state)) is not None:
            setattr(self, name, getattr(self, name) + by)


class Lanes:
    """The lanes an operation has touched."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._by_id: dict[int, Lane] = {}
        self._by_name: dict[tuple[str, int, str], Lane] = {}

    def named(self, queue: str, priority: int, needs: str = "") -> Lane:
        """The lane of this queue and priority for jobs that need this; its first use declares both."""
        name = (queue, priority, needs)
        lane = self._by_name.get(name)
        if lane is None:
            found = self._connection.execute(_SQL["named"], name).fetchall()
            if not found:
                declare_queue(self._connection, queue)
                found = self._connection.execute(_SQL["create"], name).fetchall()
            lane = self._keep(found[0])
        return lane

    def numbered(self, number: int) -> Lane:
        """The lane with this number."""
        lane = self._by_id.get(number)
        return lane or self._keep(self._connection.execute(_SQL["numbered"], (number,)).fetchall()[0])

    def reserved(self) -> Lane:
        """Lane 0, where jobs stand that have no place in a lane."""
        return self.numbered(RESERVED_LANE)

    def joined(self) -> list[Lane]:
        """Return the lanes whose ring somebody has joined since the last call."""
        found = [lane for lane in self._by_id.values() if lane.joined]
        for lane in found:
            lane.joined = False
        return found

    def save(self) -> None:
        """Write back what has changed."""
        for lane in self._by_id.values():
            columns = lane.columns()
            if columns != lane.stored:
                self._connection.execute(_SQL["save"], columns)
                lane.stored = columns

    def _keep(self, found: tuple[Any, ...]) -> Lane:
        fresh = Lane(*found)
        lane = self._by_id.setdefault(fresh.id, fresh)
        self._by_name[lane.queue, lane.priority, lane.needs] = lane
        return lane


def declare_queue(connection: apsw.Connection, name: str) -> None:
    """Add a queue with the default settings where there is none of this name."""
    new = QueueRecord(name=name)
    connection.execute(_SQL["declare_queue"], (new.name, new.dead_retention, new.window))


# -- claims --------------------------------------------------------------------------------------------------


class Leases:
    """The claims whose jobs an operation ends or takes back."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._last = (0, 0, 0, 0)  # the claim found last: its lane, lo, hi and id
        self._left: Counter[int] = Counter()

    def leave(self, lane: int, seq: int) -> None:
        """The job at this place no longer runs."""
        of, lo, hi, _ = self._last
        if of != lane or not lo <= seq <= hi:
            self._last = fetch(self._connection, _SQL["covering"], (lane, seq))[0]
        self._left[self._last[3]] += 1

    def leave_many(self, claim: int, count: int) -> None:
        """Note that some jobs of this claim no longer run."""
        self._left[claim] += count

    def save(self) -> None:
        """Write what was counted."""
        for claim, count in self._left.items():
            self._connection.execute(_SQL["finished"], (count, claim))
        self._left.clear()
