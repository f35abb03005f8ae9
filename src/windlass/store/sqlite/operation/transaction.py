"""The state of an operation: the connection inside its savepoint, the time, and what it has loaded
or changed in memory. `Inserts` is the part that creates jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import apsw
import msgspec

from windlass.core.expiry import deadline
from windlass.store import unknown_tasks
from windlass.store.records import DEFAULT_OPTIONS, EnqueueStatus, NewJob, Receipt
from windlass.store.settings import StoreSettings
from windlass.store.sqlite.flow.limits import Gates, Limits
from windlass.store.sqlite.operation.budget_rows import Budgets
from windlass.store.sqlite.operation.lanes import Lane, Lanes, Leases
from windlass.store.sqlite.rows import BOUND, HELD, PLAIN, SCHEDULED, Bindings, Ending, fetch, options_json
from windlass.store.sqlite.schema import Statements

_SQL = Statements("enqueue")
_CLUSTER = Statements("cluster")


class Inserts:
    """The jobs that one operation creates. They are collected and written together: a call that adds a
    thousand plain jobs to a lane writes a thousand job rows and one row that says so."""

    def __init__(
        self, connection: apsw.Connection, lanes: Lanes, gates: Gates, limits: Limits, now: float
    ) -> None:
        self._connection = connection
        self._lanes = lanes
        self._gates = gates
        self._limits = limits
        self._now = now
        self._rows: list[Bindings] = []
        self._keys: list[Bindings] = []
        self._deadlines: list[Bindings] = []
        self._runs: list[tuple[int, int]] = []  # the first number and id of each run of neighbours
        self._next = 0  # the number of the next job; 0: not looked up yet
        self._neighbour = 0  # the position that would continue the last run
        self.wrote: bool = False

    def add(self, new: NewJob) -> Receipt:
        """Create a job where it belongs. It takes its unique key, which must be free."""
        now = self._now
        options = new.options
        lane = self._lanes.named(new.queue, new.priority, options.needs or "")
        run_at: float | None = None
        gate: str | None = None
        status: EnqueueStatus = "enqueued"
        plain = options is DEFAULT_OPTIONS and new.delay is None and new.run_at is None
        if plain and new.task not in self._limits.tasks:
            lane.ready += 1
            lane.seq += 1
            pos, state, text = lane.base + lane.seq, PLAIN, None
        else:
            run_at = now + new.delay if new.delay is not None else new.run_at
            if run_at is not None and run_at <= now:
                run_at = None
            pos, state, status, gate = self._place(new, lane, run_at)
            kept = unknown_tasks.since(options, None)  # for the store to say, not for a producer
            if options.expires is not None:
                at = deadline(now, run_at, options.expires)
                kept = msgspec.structs.replace(kept, expires_at=at)
                self._deadlines.append((pos, at))
            if options.after or options.group_end:
                run_at = None  # for `after` to write, once nothing is left to wait for [P12]
            text = options_json(kept)
            if options.unique_key is not None:
                self._keys.append((options.unique_key, pos))
        number = self._next or self._first_number()
        if pos != self._neighbour:
            self._runs.append((number, pos))
        self._neighbour = pos + 1
        self._next = number + 1
        fair = options.fair_key
        self._rows.append(
            (pos, lane.id, state, now, now, number, new.task, new.payload, text, run_at, fair, gate)
        )
        return Receipt(pos, status)

    def _place(
        self, new: NewJob, lane: Lane, run_at: float | None
    ) -> tuple[int, int, EnqueueStatus, str | None]:
        """A place for the job, its state there, what its producer hears, and the gate it waits at."""
        if run_at is not None or new.options.after or new.options.group_end:
            lane.scheduled += 1
            return self._lanes.reserved().next_place(), SCHEDULED, "scheduled", None
        way = self._gates.of(new.queue, new.task, new.options)
        through, gate = self._gates.walk(way)
        if gate is not None or new.options.fair_key is not None:
            lane.held += 1
            if gate is None:
                lane.join_ring()
            pos, state = self._lanes.reserved().next_place(), HELD
        else:
            lane.ready += 1
            bound = through or new.options.unique_key is not None or new.options.part is not None
            pos, state = lane.next_place(), BOUND if bound else PLAIN
        self._gates.give(pos, through)
        return pos, state, "held" if state == HELD else "enqueued", gate

    def _first_number(self) -> int:
        return self._connection.execute(_SQL["next_number"]).get or 1

    def write(self) -> None:
        """Write what was collected."""
        self._gates.write()
        if not self._rows:
            return
        self.wrote = True
        self._connection.executemany(_SQL["insert_job"], self._rows)
        # Numbers are given out without a gap, so a run ends where the next begins.
        ends = [number for number, _ in self._runs[1:]] + [self._next]
        inserts = [
            (number, pos, end - number, self._now)
            for (number, pos), end in zip(self._runs, ends, strict=True)
        ]
        self._connection.executemany(_SQL["insert"], inserts)
        if self._keys:
            self._connection.executemany(_SQL["insert_key"], self._keys)
        if self._deadlines:
            self._connection.executemany(_SQL["insert_deadline"], self._deadlines)
            self._deadlines = []
        self._rows, self._keys, self._runs, self._neighbour = [], [], [], 0


class Transaction:
    """One operation under the write lock. It happens as a whole or not at all."""

    __slots__ = (
        "awaited_ends", "budgets", "calls", "connection", "ended", "endings", "gates", "inserts",
        "lanes", "leases", "limits", "notify", "now", "passed", "settings",
    )  # fmt: skip

    def __init__(
        self, connection: apsw.Connection, now: float, settings: StoreSettings, *, books: bool
    ) -> None:
        self.connection: Final = connection
        self.now: Final = now
        self.settings: Final = settings
        self.lanes: Final = Lanes(connection)
        self.leases: Final = Leases(connection)
        self.limits: Final = Limits(connection)
        self.gates: Final = Gates(connection, self.limits, now)
        self.budgets: Final = Budgets(connection, now, books=books)
        self.inserts: Final = Inserts(connection, self.lanes, self.gates, self.limits, now)
        self.endings: list[Ending] = []
        """The jobs that have ended, and what follows from that is still to be done (see `settle`)."""
        self.awaited_ends: list[Ending] = []
        """Ended jobs whose followers are still to be served (see `complete`)."""
        self.passed: dict[int, tuple[str, int]] = {}
        """Jobs that were let through their only gate, with that and the place that they had there."""
        self.ended: Final[Counter[tuple[str, str, int]]] = Counter()
        """How many jobs of which queue and task have ended in which state [M7]."""
        self.notify: bool = False
        """True if somebody in this process may be waiting for this: jobs were offered, or have ended."""
        self.calls: bool = False
        """True if hosts should ask at once what has changed; see `cluster.host_calls`."""

    def all(self, sql: str, bindings: Bindings = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return fetch(self.connection, sql, bindings)

    def one(self, sql: str, bindings: Bindings = ()) -> tuple[Any, ...] | None:
        """Run a statement to its end and return its first row."""
        rows = fetch(self.connection, sql, bindings)
        return rows[0] if rows else None

    def run(self, sql: str, bindings: Bindings = ()) -> int:
        """Run a statement that writes and return how many rows it touched."""
        self.connection.execute(sql, bindings)
        return self.connection.changes()

    def many(self, sql: str, bindings: Iterable[Bindings]) -> None:
        """Run a statement once per tuple of bindings."""
        self.connection.executemany(sql, bindings)

    def save(self) -> None:
        """Write what was changed in memory. The last step of every operation, after `settle`."""
        self.inserts.write()
        self.notify |= self.inserts.wrote
        if self.calls:
            self.run(_CLUSTER["note_host_call"])
            self.notify = True
        self.budgets.save()
        self.leases.save()
        self.lanes.save()
        if self.ended:
            self.many(_SQL["count_ended"], ((*key, n) for key, n in self.ended.items()))
            self.ended.clear()
