"""How the parts of a parent stand, for a strip and for the few that need a look. There may be a million, so
of most only the state is kept."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from windlass.core.states import State
from windlass.store.protocol import Store
from windlass.store.records import PartRecord

NEEDING: Final = (State.DEAD, State.CANCELLED, State.RETRYING, State.RUNNING)
"""The states of parts that are listed, the most urgent first."""
_KEPT: Final = 20
_PAGE: Final = 10_000


class Parts(msgspec.Struct, frozen=True):
    """What a look has found."""

    states: list[State]
    """Of every part, by index."""
    needing: list[PartRecord]
    """Some of those that need attention, the most urgent first."""


async def look_at_parts(store: Store, parent: int, most: int | None = None) -> Parts:
    """All parts of a parent, or about as many as `most`."""
    states: list[State] = []
    found: dict[State, list[PartRecord]] = {state: [] for state in NEEDING}
    while (most is None or len(states) < most) and (
        page := await store.parts(parent, start=len(states), limit=_PAGE)
    ):
        for part in page:
            states.append(part.state)
            if part.state in found and len(found[part.state]) < _KEPT:
                found[part.state].append(part)
    needing = [part for state in NEEDING for part in found[state]][:_KEPT]
    return Parts(states, list(await asyncio.gather(*(_with_error(store, part) for part in needing))))


async def _with_error(store: Store, part: PartRecord) -> PartRecord:
    """A part that is tried again, with what its last attempt failed of [M4]; a dead one knows already."""
    if part.state is not State.RETRYING or part.job is None or part.error:
        return part
    job = await store.job(part.job)
    if job is None or not job.errors:
        return part
    last = job.errors[-1]
    return msgspec.structs.replace(part, error=f"{last.type}: {last.message}")
