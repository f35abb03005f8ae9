"""Waiting lists: letting jobs go on that wait at a gate for room [F1] [F3] [F6].

Where passes are given back the next ones go on in the same transaction, those of all these gates together.
Promotion walks over all waiting lists for the rest, in bounded steps: those who wait for tokens, which come
with time, and those whose limit was raised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import apsw

from windlass.core.flow.gates import Gate, is_slots, over_gate
from windlass.store.records import GateRecord
from windlass.store.sqlite import transitions
from windlass.store.sqlite.flow.limits import BUDGET
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import HELD, OFFERED, Row, fetch
from windlass.store.sqlite.schema import Statements
from windlass.store.sqlite.transitions import way_of

_SQL = Statements("waiting_lists")

OVER: Final = "over:"
SHUT: Final = "shut:"
MAX_AT_ONCE: Final = 1000
"""How many one transaction lets through a gate that a pass of was given back; promotion sees to the rest."""

MAX_GATES: Final = 500
"""How many waiting lists one step of promotion looks at, of each kind."""

MAX_NEWS: Final = 20
"""With so many waiting lists for tokens a new one is no news."""

MAX_COUNTED: Final = 10_000
MAX_LISTED: Final = 5000
"""How many gates of each kind a listing looks at."""

_LAST: Final = "\U0010ffff"
_KINDS: Final = {"tokens": ((BUDGET, "budget;"),), "slots": (("", BUDGET), ("budget;", _LAST))}
"""Between which two names the gates of each kind lie."""

_LISTS: Final = (
    (BUDGET, "budget;"), ("key:", "key;"), ("order:", "order;"), (OVER, "over;"), (SHUT, "shut;"),
    ("task:", "task;"),
)  # fmt: skip

SOON: Final = 0.1
"""Seconds until the next step, where one could not look at all waiting lists for tokens."""


class LetThrough(NamedTuple):
    """How many went through a gate, how many of them came to their lanes at once, and how many tokens were
    there for those who did not: while they wait elsewhere these are for others."""

    through: int = 0
    arrived: int = 0
    left: int = 0


def serve_freed_gates(tx: Transaction) -> None:
    """Let those go on who wait where passes were given back, gate by gate in the order they were."""
    freed, tx.gates.freed = tx.gates.freed, {}
    for gate in freed:
        let_through(tx, gate, MAX_AT_ONCE)


def let_through(tx: Transaction, gate: str, limit: int) -> LetThrough:
    """Let the first who wait through, while there is room. Each token lets one through at a time, also where
    that one waits for a slot then: else a whole waiting list would move to the next."""
    tx.inserts.write()
    through = arrived = left = 0
    if not tx.gates.anyone_waits(gate):
        return LetThrough()
    while through < limit and (row := _first(tx, gate)) is not None:
        need = row.need or 0
        if need > _max_need(tx, gate):
            transitions.change_list(tx, row, over_gate(gate))  # so that nobody waits behind it
            through += 1
            continue
        if is_slots(gate) and tx.limits.is_shut(tx.lanes.numbered(row.lane).place):
            transitions.shut_out(tx, row)  # nobody would run it
            through += 1
            continue
        if not _has_room(tx, gate, row, left):
            if is_slots(gate) and _take_idle_slots(tx, gate):
                continue
            break
        if transitions.pass_gate(tx, row, gate):
            arrived += 1
        else:
            left += need
        through += 1
    return LetThrough(through, arrived, left)


def walk(tx: Transaction, limit: int) -> tuple[int, float | None]:
    """One bounded step over the waiting lists. Answers with how many came to their lanes, and in how many
    seconds there will be tokens for one who waits for them."""
    tx.save()
    slots = _next_gates(tx, "slots")
    for gate in slots:  # first of all: they may be the first of their waiting lists
        if gate.startswith(OVER):
            limit -= _return_fitting(tx, gate, limit)
    tokens = _next_gates(tx, "tokens")
    next_in = SOON if len(tokens) == MAX_GATES else math.inf
    admitted = 0
    for gate in (*tokens, *slots):
        if gate.startswith(OVER):
            continue
        if gate.startswith(SHUT):
            limit -= _resume_queue(tx, gate, limit)
            continue
        through, arrived, left = let_through(tx, gate, limit)
        limit, admitted = limit - through, admitted + arrived
        if gate.startswith(BUDGET):
            next_in = min(next_in, _next_token(tx, gate, left))
    return admitted, next_in if math.isfinite(next_in) else None


def token_lists(connection: apsw.Connection) -> frozenset[str]:
    """The gates of budgets at which somebody waits; none where there are many, since whoever promotes looks
    often enough then. Reads only."""
    found = frozenset(_gate_names(connection, BUDGET, "budget;", MAX_NEWS))
    return found if len(found) < MAX_NEWS else frozenset()


def free_keys(tx: Transaction) -> None:
    """The limit of some keys has changed: let the first who wait see to it. Nobody knows which waiting
    lists have jobs of the task in question, and where there are very many the rest is for promotion."""
    for gate in _gate_names(tx.connection, "key:", "key;", MAX_GATES):
        tx.gates.free(gate)


def gates(connection: apsw.Connection, now: float, limit: int = 100) -> list[GateRecord]:
    """Gates that jobs wait at, the longest wait first. Of each kind the first thousands by name are looked
    at, so that a crowd of ordering keys does not hide the task that is full. Reads only."""
    waits = [
        (fetch(connection, _SQL["since"], (name,))[0][0], name)
        for low, high in _LISTS
        for name in _gate_names(connection, low, high, MAX_LISTED)
    ]
    return [
        GateRecord(
            name=name,
            passes=fetch(connection, _SQL["passes"], (name, MAX_COUNTED))[0][0],
            waiting=fetch(connection, _SQL["waiting"], (name, MAX_COUNTED))[0][0],
            oldest=max(0.0, now - since),
        )
        for since, name in sorted(waits)[: max(limit, 0)]
    ]


def _max_need(tx: Transaction, gate: str) -> float:
    """The most that one at a gate may need."""
    known = tx.budgets.named(_bucket(gate)[0]) if gate.startswith(BUDGET) else None
    return math.inf if known is None else known.settings.burst


def _return_fitting(tx: Transaction, gate: str, limit: int) -> int:
    """Put jobs whose need their budget can hold by now back to their place on its waiting list."""
    back = BUDGET + gate.removeprefix(OVER)
    known = tx.budgets.named(_bucket(back)[0])
    found = [] if known is None else tx.all(_SQL["fitting"], (gate, known.settings.burst, limit))
    for columns in found:
        transitions.change_list(tx, Row(*columns), back)
    return len(found)


def _take_idle_slots(tx: Transaction, gate: str) -> bool:
    """Take slots back from jobs that stand in the lane of a queue where nobody runs them [F3]."""
    tx.gates.write()
    found = (transitions.find(tx, job) for (job,) in tx.all(_SQL["with_pass"], (gate, MAX_AT_ONCE)))
    idle = [row for row in found if row is not None and _is_idle(tx, row)]
    for row in idle:
        transitions.shut_out(tx, row)
    return bool(idle)


def _is_idle(tx: Transaction, row: Row) -> bool:
    lane = tx.lanes.numbered(row.lane)
    waits = not lane.runs(row) if row.state in OFFERED else row.state == HELD and row.gate is None
    return waits and tx.limits.is_shut(lane.place)


def _resume_queue(tx: Transaction, gate: str, limit: int) -> int:
    """Let jobs that wait for their queue go on, where somebody runs its jobs again."""
    gone = 0
    if not tx.limits.is_shut(gate.removeprefix(SHUT)):
        while gone < limit and (row := _first(tx, gate)) is not None:
            transitions.resume(tx, row)
            gone += 1
    return gone


def _first(tx: Transaction, gate: str) -> Row | None:
    found = tx.one(_SQL["first"], (gate,))
    return Row(*found) if found else None


def _has_room(tx: Transaction, gate: str, row: Row, left: int) -> bool:
    """Return whether the first who waits may go on, by what its gate is."""
    if row.need is not None:
        return tx.budgets.soon(*_bucket(gate), row.need, tx.gates.passes(gate) + left) < math.inf
    return _has_pass(tx, gate, way_of(tx, row))


def _has_pass(tx: Transaction, gate: str, way: Iterable[Gate]) -> bool:
    """Return whether one more may be beyond the gate of a key or a task, as a job whose way this is says."""
    for name, limit in way:
        if name == gate:
            return tx.gates.passes(gate) < limit
    return True  # the limit was lifted meanwhile


def _next_token(tx: Transaction, gate: str, left: int) -> float:
    """Seconds until the first who waits for tokens may go on by itself, or may have what was reserved for
    another; inf where others must do something first, such as raise a rate."""
    row = _first(tx, gate)
    budget, key = _bucket(gate)
    if row is None or row.need is None or tx.budgets.named(budget) is None:
        return math.inf
    promised = tx.gates.passes(gate)
    wait = tx.budgets.wait(budget, key, row.need, promised + left)
    if not promised:
        return wait
    alone = tx.budgets.wait(budget, key, row.need, left)
    return min(wait, max(alone, tx.gates.next_lapse(gate)))


def _bucket(gate: str) -> tuple[str, str]:
    """The budget and the key of a gate; no budget has a slash in its name."""
    budget, _, key = gate.removeprefix(BUDGET).partition("/")
    return budget, key


def _next_gates(tx: Transaction, kind: str) -> list[str]:
    """The next gates of a kind that have a waiting list, from where the last step left off."""
    start = str(fetch(tx.connection, _SQL["cursor"], (kind,))[0][0])
    names: list[str] = []
    for after, before in ((start, _LAST), ("", start)):
        for low, high in _KINDS[kind]:
            names += _gate_names(tx.connection, max(after, low), min(before, high), MAX_GATES - len(names))
    cursor = names[-1] if len(names) == MAX_GATES else ""
    if cursor != start:
        tx.run(_SQL["keep_cursor"], (cursor, kind))
    return names


def _gate_names(connection: apsw.Connection, after: str, before: str, limit: int) -> Iterator[str]:
    """The names of gates with a waiting list, in order: one probe of an index each, however long it is."""
    for _ in range(limit):
        found = fetch(connection, _SQL["after"], (after, before))
        if not found:
            return
        after = found[0][0]
        yield after
