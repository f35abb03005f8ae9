"""Births: the creation of jobs. Where a new job goes, and the rows that say so. No unique or idempotency keys
are looked at here; `enqueue` has done that."""

from __future__ import annotations

import apsw

from windlass.store.records import DEFAULT_OPTIONS, EnqueueStatus, NewJob, Receipt
from windlass.store.sqlite.lanes import Lane, Lanes
from windlass.store.sqlite.rows import BOUND, HELD, PLAIN, SCHEDULED, Bindings, options_json
from windlass.store.sqlite.statements import Statements

_SQL = Statements("births")


class Births:
    """The jobs that one operation creates. They are collected and written together: a call that adds a
    thousand plain jobs to a lane inserts a thousand job rows and one birth."""

    def __init__(self, connection: apsw.Connection, lanes: Lanes, now: float) -> None:
        self._connection = connection
        self._lanes = lanes
        self._now = now
        self.any = False
        self._rows: list[Bindings] = []
        self._keys: list[Bindings] = []
        self._runs: list[list[int]] = []
        self._run = [0, 0, 0]  # first number, first id, how many
        self._next = 0  # the number of the next job; 0: not looked up yet

    def add(self, new: NewJob) -> Receipt:
        """Create a job where it belongs. It takes its unique key, which must be free."""
        now = self._now
        lane = self._lanes.named(new.queue, new.priority)
        options = new.options
        if options is DEFAULT_OPTIONS and new.delay is None and new.run_at is None:
            lane.ready += 1
            lane.seq += 1
            pos = lane.base + lane.seq
            number = self._number(pos)
            self._rows.append((pos, lane.id, PLAIN, now, now, number, new.task, new.payload, None, None, None))
            return Receipt(pos, "enqueued")
        run_at = now + new.delay if new.delay is not None else new.run_at
        if run_at is not None and run_at <= now:
            run_at = None
        pos, state, status = self._place(new, lane, run_at)
        if options.unique_key is not None:
            self._keys.append((options.unique_key, pos))
        text, fair_key = options_json(options), options.fair_key
        number = self._number(pos)
        self._rows.append(
            (pos, lane.id, state, now, now, number, new.task, new.payload, text, run_at, fair_key)
        )
        return Receipt(pos, status)

    def _place(self, new: NewJob, lane: Lane, run_at: float | None) -> tuple[int, int, EnqueueStatus]:
        if run_at is not None:
            lane.scheduled += 1
            return self._lanes.reserved().draw(), SCHEDULED, "scheduled"
        if new.options.fair_key is not None:
            lane.held += 1
            return self._lanes.reserved().draw(), HELD, "held"
        lane.ready += 1
        return lane.draw(), PLAIN if new.options.unique_key is None else BOUND, "enqueued"

    def _number(self, pos: int) -> int:
        """The job's number in the order of creation. Neighbours in number and place share one birth row."""
        if not self._next:
            self._next = self._connection.execute(_SQL["next"]).get or 1
        number = self._next
        self._next = number + 1
        run = self._run
        if pos == run[1] + run[2] and number == run[0] + run[2]:
            run[2] += 1
        else:
            self._run = [number, pos, 1]
            self._runs.append(self._run)
        return number

    def write(self) -> None:
        """Write what was collected."""
        if not self._rows:
            return
        self.any = True
        self._connection.executemany(_SQL["job"], self._rows)
        self._connection.executemany(_SQL["birth"], [(*run, self._now) for run in self._runs])
        if self._keys:
            self._connection.executemany(_SQL["key"], self._keys)
        self._rows, self._keys, self._runs, self._run = [], [], [], [0, 0, 0]
