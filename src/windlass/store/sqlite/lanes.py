"""Lanes within one operation: loaded when first needed, changed in memory, written back once at its end."""

from __future__ import annotations

from typing import Any, Final

import apsw

from windlass.core.ids import MAX_SEQ, RESERVED_LANE, SEQ_BITS, pack
from windlass.store.records import QueueRecord
from windlass.store.sqlite.rows import DEAD, HELD, OFFERED, RETRYING, SCHEDULED, Bindings, Row
from windlass.store.sqlite.statements import Statements

_SQL = Statements("lanes")
_COUNTERS: Final = {HELD: "held", SCHEDULED: "scheduled", RETRYING: "retrying", DEAD: "dead"}


class Lane:
    """One queue × priority: its next place, its cursor, and how many of its jobs stand where."""

    __slots__ = (
        "base", "dead", "held", "hi", "id", "joined", "priority", "queue", "ready", "retrying", "running",
        "scheduled", "seq", "served", "stored",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - the columns of a row, in their order
        self,
        id: int,
        queue: str,
        priority: int,
        seq: int,
        hi: int,
        served: str | None,
        ready: int,
        held: int,
        running: int,
        scheduled: int,
        retrying: int,
        dead: int,
    ) -> None:
        self.id, self.queue, self.priority, self.seq, self.hi, self.served = (
            id,
            queue,
            priority,
            seq,
            hi,
            served,
        )
        self.ready, self.held, self.running = ready, held, running
        self.scheduled, self.retrying, self.dead = scheduled, retrying, dead
        self.base = id << SEQ_BITS  # the position before this lane's first place: base + seq is a position
        self.joined = False  # whether somebody has joined its ring of fair keys in this operation [C3]
        self.stored = self.columns()

    def columns(self) -> Bindings:
        """What changes in a lane's row, and its number."""
        return (
            self.seq, self.hi, self.served, self.ready, self.held, self.running,
            self.scheduled, self.retrying, self.dead, self.id,
        )  # fmt: skip

    @property
    def cursor(self) -> int:
        """The position of the last place claimed."""
        return self.base + self.hi

    @property
    def end(self) -> int:
        """The position no place of this lane is beyond."""
        return self.base + MAX_SEQ

    def draw(self) -> int:
        """Give out the next place, as a position."""
        self.seq += 1
        return pack(self.id, self.seq)

    def runs(self, row: Row) -> bool:
        """Whether an offered job of this lane is running: it stands at or before the cursor."""
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
        self._by_name: dict[tuple[str, int], Lane] = {}

    def named(self, queue: str, priority: int) -> Lane:
        """The lane of this queue and priority; its first use declares both."""
        lane = self._by_name.get((queue, priority))
        if lane is None:
            found = self._connection.execute(_SQL["named"], (queue, priority)).fetchall()
            if not found:
                declare_queue(self._connection, queue)
                found = self._connection.execute(_SQL["create"], (queue, priority)).fetchall()
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
        """Those whose ring somebody has joined since this was last asked."""
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
        self._by_name[lane.queue, lane.priority] = lane
        return lane


def declare_queue(connection: apsw.Connection, name: str) -> None:
    """Add a queue with the default settings where there is none of this name."""
    new = QueueRecord(name=name)
    connection.execute(_SQL["declare_queue"], (new.name, new.dead_retention, new.window))
