"""Lines: letting those who wait at a gate go on when it has room [F1] [F3] [F6].

Where a pass is given back the next one goes on in the same transaction. Promotion walks over all lines for
the rest, in bounded steps: those who wait for tokens, which come with time, and those whose limit was raised.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import apsw

from windlass.core.gates import is_slots, over_gate
from windlass.store.flow import GateRecord
from windlass.store.sqlite import moves
from windlass.store.sqlite.gates import BUDGET
from windlass.store.sqlite.rows import HELD, OFFERED, Row, fetch
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("lines")
OVER: Final = "over:"
SHUT: Final = "shut:"
AT_ONCE: Final = 100
"""How many one transaction lets through a gate that a pass of was given back; promotion sees to the rest."""

GATES: Final = 500
"""How many lines one step of promotion looks at, of each kind."""

COUNTED: Final = 10_000
LISTED: Final = 5000
"""How many gates of each kind a listing looks at."""

_LAST: Final = "\U0010ffff"
_KINDS: Final = {"tokens": ((BUDGET, "budget;"),), "slots": (("", BUDGET), ("budget;", _LAST))}
"""Between which two names the gates of each kind lie."""

_LISTS: Final = (
    (BUDGET, "budget;"), ("key:", "key;"), ("order:", "order;"), (OVER, "over;"), (SHUT, "shut;"),
    ("task:", "task;"),
)  # fmt: skip

SOON: Final = 0.1
"""Seconds until the next step, where one could not look at all lines for tokens."""


class Let(NamedTuple):
    """How many went through a gate, how many of them came to their lanes at once, and how many tokens were
    there for those who did not: while they wait elsewhere these are for others."""

    through: int = 0
    arrived: int = 0
    left: int = 0


def go_on(tx: Transaction) -> None:
    """Let those go on who wait where passes were given back."""
    freed, tx.gates.freed = tx.gates.freed, {}
    for gate in freed:
        let_through(tx, gate, AT_ONCE)


def let_through(tx: Transaction, gate: str, limit: int) -> Let:
    """Let the first of a line through, while there is room. Each token lets one out at a time, also where
    that one waits for a slot then: else a whole line would move to the next."""
    tx.births.write()
    through = arrived = left = 0
    if not tx.gates.has_line(gate):
        return Let()
    while through < limit and (row := _first(tx, gate)) is not None:
        need = row.need or 0
        if need > _most(tx, gate):
            moves.change_line(tx, row, over_gate(gate))  # so that nobody waits behind it
            through += 1
            continue
        if is_slots(gate) and tx.limits.is_shut(tx.lanes.numbered(row.lane).queue):
            moves.shut_out(tx, row)  # nobody would run it
            through += 1
            continue
        if not _has_room(tx, gate, row, left):
            if is_slots(gate) and _make_room(tx, gate):
                continue
            break
        if moves.pass_gate(tx, row, gate):
            arrived += 1
        else:
            left += need
        through += 1
    return Let(through, arrived, left)


def walk(tx: Transaction, limit: int) -> tuple[int, float | None]:
    """One bounded step over the lines. Answers with how many came to their lanes, and in how many seconds
    there will be tokens for one who waits for them."""
    tx.save()
    tokens = _some(tx, "tokens")
    again = SOON if len(tokens) == GATES else math.inf
    admitted = 0
    for gate in (*tokens, *_some(tx, "slots")):
        if gate.startswith(OVER):
            limit -= _let_back(tx, gate, limit)
            continue
        if gate.startswith(SHUT):
            limit -= _open_up(tx, gate, limit)
            continue
        through, arrived, left = let_through(tx, gate, limit)
        limit, admitted = limit - through, admitted + arrived
        if gate.startswith(BUDGET):
            again = min(again, _next_token(tx, gate, left))
    return admitted, again if math.isfinite(again) else None


def free_keys(tx: Transaction) -> None:
    """The limit of some keys has changed: let the first of their lines see to it. Nobody knows which lines
    have jobs of the task in question, and where there are very many the rest is for promotion."""
    for gate in _names(tx.connection, "key:", "key;", GATES):
        tx.gates.free(gate)


def gates(connection: apsw.Connection, limit: int, now: float) -> list[GateRecord]:
    """Gates that jobs wait at, the longest wait first. Of each kind the first thousands by name are looked
    at, so that a crowd of ordering keys does not hide the task that is full. Reads only."""
    waits = [
        (fetch(connection, _SQL["since"], (name,))[0][0], name)
        for low, high in _LISTS
        for name in _names(connection, low, high, LISTED)
    ]
    return [
        GateRecord(
            name=name,
            passes=fetch(connection, _SQL["passes"], (name, COUNTED))[0][0],
            waiting=fetch(connection, _SQL["waiting"], (name, COUNTED))[0][0],
            oldest=max(0.0, now - since),
        )
        for since, name in sorted(waits)[: max(limit, 0)]
    ]


def _most(tx: Transaction, gate: str) -> float:
    """The most that one at a gate may need."""
    known = tx.budgets.named(_bucket(gate)[0]) if gate.startswith(BUDGET) else None
    return math.inf if known is None else known.settings.burst


def _let_back(tx: Transaction, gate: str, limit: int) -> int:
    """Those whose need their budget can hold by now go back to their place in its line."""
    line = BUDGET + gate.removeprefix(OVER)
    known = tx.budgets.named(_bucket(line)[0])
    found = [] if known is None else tx.all(_SQL["fitting"], (gate, known.settings.burst, limit))
    for columns in found:
        moves.change_line(tx, Row(*columns), line)
    return len(found)


def _make_room(tx: Transaction, gate: str) -> bool:
    """Take slots back from jobs that stand in the lane of a queue where nobody runs them [F3]."""
    tx.gates.write()
    found = (moves.find(tx, job) for (job,) in tx.all(_SQL["with_pass"], (gate, AT_ONCE)))
    idle = [row for row in found if row is not None and _is_idle(tx, row)]
    for row in idle:
        moves.shut_out(tx, row)
    return bool(idle)


def _is_idle(tx: Transaction, row: Row) -> bool:
    lane = tx.lanes.numbered(row.lane)
    waits = not lane.runs(row) if row.state in OFFERED else row.state == HELD and row.gate is None
    return waits and tx.limits.is_shut(lane.queue)


def _open_up(tx: Transaction, gate: str, limit: int) -> int:
    """Those who wait for their queue go on, where somebody runs its jobs again."""
    gone = 0
    if not tx.limits.is_shut(gate.removeprefix(SHUT)):
        while gone < limit and (row := _first(tx, gate)) is not None:
            moves.go_on(tx, row)
            gone += 1
    return gone


def _first(tx: Transaction, gate: str) -> Row | None:
    found = tx.one(_SQL["first"], (gate,))
    return Row(*found) if found else None


def _has_room(tx: Transaction, gate: str, row: Row, left: int) -> bool:
    """Whether the first of a line may go on, by what its gate is."""
    if row.need is not None:
        return tx.budgets.grants(*_bucket(gate), row.need, tx.gates.passes(gate) + left)
    way = tx.gates.of(tx.lanes.numbered(row.lane).queue, row.task, row.options)
    limit = next((limit for name, limit in way if name == gate), None)
    return limit is None or tx.gates.passes(gate) < limit  # None: the limit was lifted meanwhile


def _next_token(tx: Transaction, gate: str, left: int) -> float:
    """Seconds until the first of a line for tokens may go on by itself, or may have what was kept for
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
    return min(wait, max(alone, tx.gates.kept_for(gate)))


def _bucket(gate: str) -> tuple[str, str]:
    """The budget and the key of a gate; no budget has a slash in its name."""
    budget, _, key = gate.removeprefix(BUDGET).partition("/")
    return budget, key


def _some(tx: Transaction, kind: str) -> list[str]:
    """The next lines of a kind, from where the last step left off."""
    start = str(fetch(tx.connection, _SQL["cursor"], (kind,))[0][0])
    names: list[str] = []
    for after, before in ((start, _LAST), ("", start)):
        for low, high in _KINDS[kind]:
            names += _names(tx.connection, max(after, low), min(before, high), GATES - len(names))
    cursor = names[-1] if len(names) == GATES else ""
    if cursor != start:
        tx.run(_SQL["keep_cursor"], (cursor, kind))
    return names


def _names(connection: apsw.Connection, after: str, before: str, limit: int) -> Iterator[str]:
    """The names of gates with lines, in order: one probe of an index each, however long the line is."""
    for _ in range(limit):
        found = fetch(connection, _SQL["after"], (after, before))
        if not found:
            return
        after = found[0][0]
        yield after
