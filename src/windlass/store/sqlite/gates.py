"""Passes within one operation: who is beyond which gate, and which gates have room [F3] [F6]. What is asked
of the file is remembered until the operation ends, and all that changes it goes through here.

Moving jobs is for `moves`, letting them out of their lines for `lines`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import apsw

from windlass.core.bucket import PROMISED_FOR
from windlass.core.clock import SLIP
from windlass.core.gates import Gate, gates_of, keeps
from windlass.store.records import DEFAULT_OPTIONS, Options
from windlass.store.sqlite import order
from windlass.store.sqlite.limits import Limits
from windlass.store.sqlite.rows import Bindings, encode, fetch
from windlass.store.sqlite.statements import Statements

_SQL = Statements("gates")
BUDGET: Final = "budget:"


class Gates:
    """The gates that an operation has to do with."""

    def __init__(self, connection: apsw.Connection, limits: Limits, now: float) -> None:
        self._connection = connection
        self._limits = limits
        self._now = now
        self._kept = now - PROMISED_FOR, now + SLIP  # when what is kept for somebody was put by
        self._lines: dict[str, bool] = {}
        self._passes: dict[str, int] = {}
        self._given: list[Bindings] = []
        self.freed: dict[str, None] = {}
        """Gates that may have room for those in their lines, in the order they got it (see `settle`)."""

    def of(self, queue: str, task: str, options: Options) -> Sequence[Gate]:
        """The gates of a job, in the order it passes them."""
        own, key = self._limits.tasks.get(task, (None, None))
        if options is DEFAULT_OPTIONS and own is None:
            return ()
        return gates_of(queue, task, options, own, key)

    def walk(self, way: Iterable[Gate], passes: Collection[str] = ()) -> tuple[list[str], str | None]:
        """How far a job gets that has these passes: the gates that let it through, and the one whose line it
        joins. Where others wait already nobody goes before them."""
        through: list[str] = []
        for name, limit in way:
            if name in passes:
                continue
            if self.has_line(name) or self.passes(name) >= limit:
                self._lines[name] = True
                return through, name
            self._passes[name] += 1
            through.append(name)
        return through, None

    def has_line(self, gate: str) -> bool:
        """Whether anybody waits there."""
        if gate not in self._lines:
            self._lines[gate] = bool(fetch(self._connection, _SQL["line"], (gate,)))
        return self._lines[gate]

    def passes(self, gate: str) -> int:
        """How many passes are out; at the gate of a budget, how many tokens are kept for those who have
        one."""
        if gate not in self._passes:
            if gate.startswith(BUDGET):
                found = fetch(self._connection, _SQL["promised"], (gate, *self._kept))
            else:
                found = fetch(self._connection, _SQL["passes"], (gate,))
            self._passes[gate] = int(found[0][0])
        return self._passes[gate]

    def kept_for(self, gate: str) -> float:
        """Seconds until the first of the tokens that are kept for somebody are kept no longer; inf where
        there are none."""
        found = fetch(self._connection, _SQL["first_promised"], (gate, *self._kept))[0][0]
        return math.inf if found is None else max(0.0, found + PROMISED_FOR - self._now)

    def let_through(self, gate: str) -> None:
        """Somebody has his pass; `give` keeps it."""
        self._passes[gate] = self.passes(gate) + 1

    def joined(self, gate: str) -> None:
        """Somebody joins a line."""
        self._lines[gate] = True

    def left(self, gate: str) -> None:
        """Somebody has left a line; whoever is in it is written."""
        self._lines.pop(gate, None)

    def give(self, job: int, gates: Iterable[str]) -> None:
        """Keep the passes of a job that was let through."""
        self._given += [(job, gate) for gate in gates]

    def put_by(self, job: int, gate: str, need: int, place: int) -> None:
        """The first of a line for tokens has its pass, and they are put by for it [F1]."""
        self._passes[gate] = self.passes(gate) + need
        self._connection.execute(_SQL["put_by"], (job, gate, need, place, self._now))

    def write(self) -> None:
        """Write the passes that were given."""
        if self._given:
            given, self._given = self._given, []
            self._connection.executemany(_SQL["give"], given)
            order.begin(self._connection, [gate for _, gate in given if keeps(gate)], self._now)

    def held_by(self, job: int) -> list[str]:
        """The passes of a job."""
        self.write()
        return [gate for (gate,) in fetch(self._connection, _SQL["held_by"], (job,))]

    def held_by_many(self, jobs: Sequence[int]) -> dict[int, set[str]]:
        """The passes of these jobs."""
        self.write()
        held: defaultdict[int, set[str]] = defaultdict(set)
        for job, gate in fetch(self._connection, _SQL["held_by_many"], (encode(jobs).decode(),)):
            held[job].add(gate)
        return held

    def drop(self, job: int, *, ended: bool) -> None:
        """A job gives its passes back; that of its ordering key only when it has ended for good [F6]."""
        self.write()
        for gate, n, at in fetch(self._connection, _SQL["drop_all" if ended else "drop_some"], (job,)):
            self._free(gate, n, at)
            if keeps(gate):
                order.advance(self._connection, gate, self._now)

    def drop_slots(self, job: int) -> None:
        """A job that has to wait for tokens keeps nobody from his slot: it gives back the passes of its key
        and its task [F3]."""
        self.write()
        for gate, n, at in fetch(self._connection, _SQL["drop_slots"], (job,)):
            self._free(gate, n, at)

    def reserved_for(self, jobs: Sequence[int]) -> dict[int, set[str]]:
        """The passes of budgets, of those of these jobs that have any."""
        held: defaultdict[int, set[str]] = defaultdict(set)
        for job, gate in fetch(self._connection, _SQL["reserved"], (encode(jobs).decode(),)):
            held[job].add(gate)
        return held

    def use_up(self, job: int) -> None:
        """The job has its tokens, so its passes of budgets are void [F1]."""
        for gate, n, at in fetch(self._connection, _SQL["use_up"], (job,)):
            self._free(gate, n, at)

    def stand_back(self, job: int) -> None:
        """A job that had tokens put by waits in another line: meanwhile they are not kept from anybody, but
        it need not stand in line for them once more."""
        for gate, n, at in fetch(self._connection, _SQL["stand_back"], (job,)):
            self._free(gate, n, at)

    def come_forward(self, job: int) -> None:
        """It has come to its lane, and its tokens are put by once more."""
        for gate, n in fetch(self._connection, _SQL["come_forward"], (job, self._now)):
            if gate in self._passes:
                self._passes[gate] += n

    def come_back(self, job: int, gate: str) -> int | None:
        """A job that stands back did not find its tokens and goes back to their line; its place in it, if it
        was there before."""
        found = fetch(self._connection, _SQL["come_back"], (job, gate))
        return int(found[0][0]) if found else None

    def bind(self, pos: int) -> None:
        """The job at this place has a pass, so its end has more to do."""
        self._connection.execute(_SQL["bind"], (pos,))

    def free(self, gate: str) -> None:
        """There may be room at this gate."""
        if not gate.startswith(BUDGET):  # room there comes with time, and is for `promote` to give
            self.freed[gate] = None

    def _free(self, gate: str, n: int, at: float | None) -> None:
        since, until = self._kept
        late = at is not None and not since < at <= until  # what it had was kept from nobody
        if gate in self._passes and not late:
            self._passes[gate] -= n
        self.free(gate)
