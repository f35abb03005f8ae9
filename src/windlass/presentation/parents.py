"""Parts of a parent: the states that are told apart where they are drawn, and reading all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from windlass.core.states import State
from windlass.store.protocol import Store
from windlass.store.records import PartRecord

DRAWN: Final = (
    State.DEAD,
    State.CANCELLED,
    State.RETRYING,
    State.RUNNING,
    State.READY,
    State.WAITING,
    State.SUCCEEDED,
)
"""The states that a strip of parts tells apart, the worst first."""

_DRAWN_AS: Final = {state: state if state in DRAWN else State.RUNNING for state in State} | {
    State.SCHEDULED: State.READY
}


def drawn_state(state: State) -> State:
    """How a part is drawn: one that is due later waits like one that is due now."""
    return _DRAWN_AS[state]


def strip_of(states: Sequence[State], cells: int) -> tuple[list[State], int]:
    """The parts by index as at most so many cells, and how many parts a cell stands for. Of several it shows
    the one that most needs attention [P10]."""
    each = max(1, -(-len(states) // cells))
    cut = (set(states[at : at + each]) for at in range(0, len(states), each))
    return [min(map(drawn_state, some), key=DRAWN.index) for some in cut], each


NEEDING: Final = (State.DEAD, State.CANCELLED, State.RETRYING, State.RUNNING)
"""The states of parts that are listed, the most urgent first."""
_KEPT: Final = 20


class Parts(msgspec.Struct, frozen=True):
    """The parts of a parent. There may be a million, so of most only the state is kept."""

    states: list[State]
    """The state of every part, by index."""
    needing: list[PartRecord]
    """Some of those that need attention, the most urgent first."""


async def read_parts(store: Store, parent: int) -> Parts:
    """Read all parts of a parent. Only those that are listed are read as a whole."""
    states = await store.part_states(parent)
    needing: list[int] = []
    for state in NEEDING:
        if len(needing) < _KEPT:
            found = (index for index, each in enumerate(states) if each is state)
            needing += islice(found, _KEPT - len(needing))
    read = await asyncio.gather(*(store.parts(parent, start=index, limit=1) for index in needing))
    return Parts(states, await with_errors(store, [part for page in read for part in page]))


async def with_errors(store: Store, parts: Sequence[PartRecord]) -> list[PartRecord]:
    """The parts, the first of those that are tried again with what they failed with last [M4]."""
    told = [part.index for part in parts if part.state is State.RETRYING][:_KEPT]
    found = await asyncio.gather(*(_with_error(store, part) for part in parts if part.index in told))
    erred = {part.index: part for part in found}
    return [erred.get(part.index, part) for part in parts]


async def _with_error(store: Store, part: PartRecord) -> PartRecord:
    """A part that is tried again, with what its last attempt failed with."""
    if part.job is None or part.error:
        return part
    job = await store.job(part.job)
    if job is None or not job.errors:
        return part
    last = job.errors[-1]
    return msgspec.structs.replace(part, error=f"{last.type}: {last.message}")
