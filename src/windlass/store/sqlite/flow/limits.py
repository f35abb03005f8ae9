"""Limits within one operation: which tasks and queues have any [F3] [F4] [F5], who is beyond which gate and
which gates have room [F3] [F6], and how far ordering keys have come [F6].

What is asked of the file is remembered until the operation ends, and all that changes it goes through here.
Letting jobs off the waiting lists of gates is for `waiting_lists`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import apsw

from windlass.core.abilities import can_run
from windlass.core.clock import SLIP
from windlass.core.flow.admission import pressure
from windlass.core.flow.bucket import PROMISED_FOR
from windlass.core.flow.gates import Gate, gates_of, keeps, order_gate
from windlass.store.records import DEFAULT_OPTIONS, Options, Watermark
from windlass.store.sqlite.operation.lanes import Lanes
from windlass.store.sqlite.rows import Bindings, decode_names, encode, fetch, named, readable_options
from windlass.store.sqlite.schema import Statements

_SQL = Statements("limits")

TaskLimits = dict[str, tuple[int | None, int | None]]

_Place = tuple[str, int | None, Any]
"""The place of a pass that was given back: its gate, its run, and its place on the waiting list, where it is
of a run."""


class Limits:
    """The limits as they are while an operation lasts."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._tasks: TaskLimits | None = None
        self._queues: set[str] = set()
        self._served: list[tuple[Collection[str], Set[str]]] | None = None
        self._paused: dict[str, int] = {}
        self._shut: dict[str, bool] = {}

    @property
    def tasks(self) -> TaskLimits:
        """Task → its settings `concurrency` and `key_concurrency`, for those that have one."""
        return self._load() if self._tasks is None else self._tasks

    @property
    def queues(self) -> set[str]:
        """The queues that may refuse or shed a job."""
        if self._tasks is None:
            self._load()
        return self._queues

    def load(self, queue: str) -> tuple[Any, ...]:
        """Return the load of a queue that has limits: max_depth, shed_depth, shed_wait, shed_latency, its
        pressure as of the last enqueue, and its depth."""
        ((*limits, depth),) = fetch(self._connection, _SQL["load"], (queue,))
        return (*limits, int(depth))

    def watch(self, lanes: Lanes) -> None:
        """Bring the pressure on queues up to date with their depth: it falls later than it rises, and so has
        to remember [F4]."""
        lanes.save()
        for queue in self.queues:
            max_depth, *_, before, depth = self.load(queue)
            now = pressure(depth, max_depth, before)
            if now != before:
                self._connection.execute(_SQL["press"], (now, queue))

    def is_shut(self, place: str) -> bool:
        """Return whether nobody runs such jobs of a queue (see `place_name`): it is paused, or none of those
        who work serves it and is able to. A worker that names no queue may serve any; where nobody works at
        all, nobody is kept from anything [F3]."""
        if self._served is None:
            self._served = [
                (decode_names(names), frozenset(decode_names(abilities)))
                for names, abilities in fetch(self._connection, _SQL["served"])
            ]
            self._paused = dict(fetch(self._connection, _SQL["paused"]))
        if place not in self._shut:
            queue, _, needs = place.partition(" ")
            unserved = bool(self._served) and not any(
                (not names or queue in names) and can_run(needs, abilities)
                for names, abilities in self._served
            )
            self._shut[place] = bool(self._paused.get(queue)) or unserved
        return self._shut[place]

    def _load(self) -> TaskLimits:
        self._tasks = {}
        for what, name, own, key in fetch(self._connection, _SQL["limited"]):
            if what == "task":
                self._tasks[name] = (own, key)
            else:
                self._queues.add(name)
        return self._tasks


# -- gates and passes ----------------------------------------------------------------------------------------

BUDGET: Final = "budget:"


@lru_cache(4096)
def _way(
    queue: str, task: str, options: str | None, concurrency: int | None, key_concurrency: int | None
) -> Sequence[Gate]:
    return tuple(gates_of(queue, task, readable_options(options), concurrency, key_concurrency))


class Gates:
    """The gates that an operation has to do with."""

    def __init__(self, connection: apsw.Connection, limits: Limits, now: float) -> None:
        self._connection = connection
        self._limits = limits
        self._now = now
        self._kept = now - PROMISED_FOR, now + SLIP  # when reservations that still count were made
        self._waiting: dict[str, bool] = {}
        self._passes: dict[str, int] = {}
        self._given: list[Bindings] = []
        self._begun: list[str] = []
        self._reserved: bool | None = None
        self.freed: dict[str, None] = {}
        """Gates that may have room for those who wait, in the order they got it (see `deferred.settle`)."""

    def of(self, queue: str, task: str, options: Options) -> Sequence[Gate]:
        """The gates of a job, in the order it passes them."""
        own, key = self._limits.tasks.get(task, (None, None))
        if options is DEFAULT_OPTIONS:
            return () if own is None else _way(queue, task, None, own, key)
        return gates_of(queue, task, options, own, key)

    def way(self, queue: str, task: str, options: str | None) -> Sequence[Gate]:
        """Return the gates of a job in the file, in the order it passes them."""
        own, key = self._limits.tasks.get(task, (None, None))
        return () if options is None and own is None else _way(queue, task, options, own, key)

    def walk(self, way: Iterable[Gate], passes: Collection[str] = ()) -> tuple[list[str], str | None]:
        """How far a job gets that has these passes: the gates that let it through, and the one whose
        waiting list it joins. Where others wait already nobody goes before them."""
        through: list[str] = []
        for name, limit in way:
            if name in passes:
                continue
            if self.anyone_waits(name) or self.passes(name) >= limit:
                self._waiting[name] = True
                return through, name
            self._passes[name] += 1
            through.append(name)
        return through, None

    def anyone_waits(self, gate: str) -> bool:
        """Return whether anybody waits there."""
        if gate not in self._waiting:
            self._waiting[gate] = bool(fetch(self._connection, _SQL["anyone_waits"], (gate,)))
        return self._waiting[gate]

    def passes(self, gate: str) -> int:
        """How many passes are out; at the gate of a budget, how many tokens are reserved."""
        if gate not in self._passes:
            if gate.startswith(BUDGET):
                found = fetch(self._connection, _SQL["reserved_tokens"], (gate, *self._kept))
            else:
                found = fetch(self._connection, _SQL["passes"], (gate,))
            self._passes[gate] = int(found[0][0])
        return self._passes[gate]

    def next_lapse(self, gate: str) -> float:
        """Seconds until the first reservation lapses; inf where there is none."""
        found = fetch(self._connection, _SQL["first_reserved"], (gate, *self._kept))[0][0]
        return math.inf if found is None else max(0.0, found + PROMISED_FOR - self._now)

    def let_through(self, gate: str) -> None:
        """Count a pass; `give` keeps it."""
        self._passes[gate] = self.passes(gate) + 1

    def joined_list(self, gate: str) -> None:
        """A job joins the waiting list of a gate."""
        self._waiting[gate] = True

    def left_list(self, gate: str) -> None:
        """A job has left the waiting list of a gate; whoever is on it is written."""
        self._waiting.pop(gate, None)

    def give(self, job: int, gates: Iterable[str]) -> None:
        """Keep the passes of a job that was let through."""
        for gate in gates:
            self._given.append((job, gate))
            if keeps(gate):
                self._begun.append(gate)

    def reserve(self, job: int, gate: str, need: int, place: int) -> None:
        """The first who waits for tokens has its pass, and they are reserved for it [F1]."""
        self._passes[gate] = self.passes(gate) + need
        self._reserved = True
        self._connection.execute(_SQL["reserve"], (job, gate, need, place, self._now))

    def write(self) -> None:
        """Write the passes that were given."""
        if self._given:
            given, self._given = self._given, []
            self._connection.executemany(_SQL["give"], given)
        if self._begun:
            begun, self._begun = self._begun, []
            begin_order(self._connection, begun, self._now)

    def held_by(self, job: int) -> list[str]:
        """The passes of a job."""
        self.write()
        return [gate for (gate,) in fetch(self._connection, _SQL["held_by"], (job,))]

    def held_by_many(self, jobs: Sequence[int]) -> dict[int, set[str]]:
        """The passes of these jobs."""
        self.write()
        return self._by_job("held_by_many", jobs)

    @property
    def any_reserved(self) -> bool:
        """Return whether tokens are reserved for anybody, or were before he had to wait elsewhere."""
        if self._reserved is None:
            self._reserved = bool(fetch(self._connection, _SQL["any_reserved"]))
        return self._reserved

    def reserved_for(self, jobs: Sequence[int]) -> dict[int, set[str]]:
        """The passes of budgets, of those of these jobs that have any."""
        return self._by_job("reservations", jobs)

    def _by_job(self, statement: str, jobs: Sequence[int]) -> dict[int, set[str]]:
        held: defaultdict[int, set[str]] = defaultdict(set)
        for job, gate in fetch(self._connection, _SQL[statement], (encode(jobs).decode(),)):
            held[job].add(gate)
        return held

    def drop(self, job: int, *, ended: bool) -> None:
        """A job gives its passes back; that of its ordering key only when it has ended for good [F6]."""
        self.write()
        places = self._give_back("drop_all" if ended else "drop_some", job)
        self._advance(places, self._runs_left((gate, run) for gate, run, _ in places if run is not None))

    def drop_many(self, jobs: Sequence[int]) -> dict[int, list[str]]:
        """Give back the passes of many jobs that have ended for good; return which gates each of them had a
        pass of, but for those of a run that others of it still have a place at. Whoever asks says when there
        is room at these (see `free`)."""
        self.write()
        dropped: defaultdict[int, list[str]] = defaultdict(list)
        runs: defaultdict[tuple[str, int], list[_Place]] = defaultdict(list)
        alone: list[_Place] = []
        last: dict[tuple[str, int], int] = {}
        for job, gate, run, place, n, at in fetch(
            self._connection, _SQL["drop_many"], (encode(jobs).decode(),)
        ):
            if run is None:
                self._count_back(gate, n, at, None)
                alone.append((gate, None, None))
                dropped[job].append(gate)
            else:
                runs[gate, run].append((gate, run, place))
                last[gate, run] = job
        left = self._runs_left(runs)
        for gate, run in runs:
            self._count_back(gate, 1, None, run)
            if (gate, run) not in left:
                dropped[last[gate, run]].append(gate)  # its jobs took one place together
        self._advance(chain(alone, *runs.values()), left)
        return dropped

    def drop_slots(self, job: int) -> None:
        """A job that has to wait for tokens keeps nobody from a slot: it gives back the passes of its key and
        its task [F3]."""
        self.write()
        self._give_back("drop_slots", job)

    def call_back(self, job: int, gate: str) -> None:
        """A job gives back the pass of one gate, whose limit was lowered [F3]."""
        self._give_back("call_back", job, gate)

    def beyond(self, gate: str) -> list[int]:
        """The jobs that hold a pass of a gate."""
        self.write()
        return [job for (job,) in fetch(self._connection, _SQL["beyond"], (gate,))]

    def spend_reservations(self, job: int) -> None:
        """The job has its tokens, so its passes of budgets are void [F1]."""
        self._give_back("spend_reservations", job)

    def suspend_reservation(self, job: int) -> None:
        """A job with a reservation waits at another gate: meanwhile its tokens are not kept from anybody, but
        it need not wait for them once more."""
        self._give_back("suspend_reservation", job)

    def resume_reservation(self, job: int) -> None:
        """It has come to its lane, and its tokens are reserved once more."""
        for gate, n in fetch(self._connection, _SQL["resume_reservation"], (job, self._now)):
            if gate in self._passes:
                self._passes[gate] += n

    def cancel_reservation(self, job: int, gate: str) -> int | None:
        """A job with a suspended reservation did not find its tokens and waits for them again. Returns its
        place on the waiting list, if it was there before."""
        found = fetch(self._connection, _SQL["cancel_reservation"], (job, gate))
        return int(found[0][0]) if found else None

    def bind(self, pos: int) -> None:
        """The job at this place has a pass, so its end has more to do."""
        self._connection.execute(_SQL["bind"], (pos,))

    def free(self, gate: str) -> None:
        """There may be room at this gate."""
        if not gate.startswith(BUDGET):  # room there comes with time, and is for `promote` to give
            self.freed[gate] = None

    def _give_back(self, statement: str, *names: int | str) -> list[_Place]:
        """Take passes from a job, as a statement says, and note the room that they leave."""
        found = fetch(self._connection, _SQL[statement], names)
        for gate, run, _, n, at in found:
            self._count_back(gate, n, at, run)
            self.free(gate)
        return [(gate, run, place) for gate, run, place, _, _ in found]

    def _count_back(self, gate: str, n: int, at: float | None, run: int | None) -> None:
        """A pass is no longer out; what a lapsed reservation had was kept from nobody."""
        since, until = self._kept
        if run is not None:
            self._passes.pop(gate, None)  # whoever asks counts: the place is free with the last of its run
        elif gate in self._passes and (at is None or since < at <= until):
            self._passes[gate] -= n

    def _runs_left(self, runs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the runs of which some jobs have not ended, and the place on their waiting list of the first
        of them."""
        gates = {gate for gate, _ in runs}
        found = fetch(self._connection, _SQL["runs_left"], (encode(list(gates)).decode(),)) if gates else ()
        return {(gate, run): place for gate, run, place in found}

    def _advance(self, places: Iterable[_Place], left: Mapping[tuple[str, int], int]) -> None:
        """Jobs that gave these back have ended for good. Those of a run that come after one which has not
        never had their turn: they were cancelled before [F6]."""
        ends = Counter(
            gate
            for gate, run, place in places
            if keeps(gate) and (run is None or place < left.get((gate, run), math.inf))
        )
        if ends:
            self._connection.executemany(
                _SQL["advance_order"], ((n, self._now, *_ordering_key(gate)) for gate, n in ends.items())
            )


# -- ordering keys -------------------------------------------------------------------------------------------

ORDERING_KEYS_KEPT: Final = 30 * 86400.0
MAX_COUNTED: Final = 10_000


def begin_order(connection: apsw.Connection, gates: Iterable[str], now: float) -> None:
    """Jobs of these keys have their turn."""
    connection.executemany(_SQL["begin_order"], ((*_ordering_key(gate), now) for gate in gates))


def watermarks(
    connection: apsw.Connection, now: float, queue: str, *, key: str | None = None, limit: int = 100
) -> list[Watermark]:
    """The ordering keys of a queue, by key. Reads only."""
    if key is not None:
        rows = named(connection, _SQL["watermark"], (queue, key))
    else:
        rows = named(connection, _SQL["watermarks"], (queue, max(limit, 0)))
    return [_watermark(connection, row, now) for row in rows]


def forget_ordering_keys(connection: apsw.Connection, now: float, limit: int) -> int:
    """Remove keys that nobody has used for long."""
    connection.execute(_SQL["forget_ordering_keys"], (now - ORDERING_KEYS_KEPT, limit))
    return connection.changes()


def _watermark(connection: apsw.Connection, row: dict[str, Any], now: float) -> Watermark:
    gate = order_gate(row["queue"], row["key"])
    turn = fetch(connection, _SQL["turn_since"], (gate,))
    born = [since for (since,) in (*turn, *fetch(connection, _SQL["next_since"], (gate,)))]
    in_line = fetch(connection, _SQL["count_waiting"], (gate, MAX_COUNTED - len(turn)))[0][0]
    age = max(0.0, now - min(born)) if born else 0.0
    return Watermark(**row, waiting=in_line + len(turn), age=age)


def _ordering_key(gate: str) -> tuple[str, str]:
    """The queue and the key of a gate; no queue has a slash in its name."""
    queue, _, key = gate.removeprefix("order:").partition("/")
    return queue, key
