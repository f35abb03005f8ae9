"""Parents and parts as JSON (see `jobs`), and reading all parts of a parent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, Literal, Self

import msgspec

from windlass.codec import MARK
from windlass.core.progress import Look, progress
from windlass.core.states import State
from windlass.presentation.retries import RetryingShape
from windlass.presentation.text import parsed, rounded, shaped
from windlass.store.protocol import Store
from windlass.store.records import ParentRecord, PartRecord


class ProgressShape(msgspec.Struct, frozen=True):
    """How far a parent is; what cannot be told is null."""

    fraction: float
    percent: int
    unit: Literal["size", "parts"]
    per_second: float | None
    records_per_second: float | None
    seconds_left: float | None

    @classmethod
    def of(cls, *looks: Look) -> ProgressShape:
        """From looks at a parent, the latest last."""
        current = progress(looks)
        return cls(
            round(current.fraction, 6),
            current.percent,
            current.unit,
            rounded(current.rate),
            rounded(current.records_rate),
            rounded(current.left),
        )


class ParentShape(msgspec.Struct, frozen=True, kw_only=True):
    """A parent and how far it is [P10]."""

    id: str
    task: str
    queue: str
    state: str
    total: int
    succeeded: int
    dead: int
    cancelled: int
    out: int
    parallel: int | None
    tolerated: int
    size: int
    done: int
    records: int
    final: str | None
    cancel_requested: bool
    reason: str | None
    created_at: str | None
    finished_at: str | None
    progress: ProgressShape
    retrying: RetryingShape | None
    """Parts that failed and will be tried again; null where there are none [M4]."""

    @classmethod
    def of(
        cls, parent: ParentRecord, *looks: Look, retrying: RetryingShape | None = None, **more: Any
    ) -> Self:
        """A parent and how far it is, from looks at it, the latest last; `more` is what a larger shape
        adds."""
        return shaped(cls, parent, progress=ProgressShape.of(*looks), retrying=retrying, **more)


class PartShape(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a parent [P4]."""

    parent: str
    index: int
    total: int
    span: Any
    size: int
    state: str
    job: str | None
    attempt: int
    done: int
    records: int
    error: str | None
    created_at: str | None

    @classmethod
    def of(cls, part: PartRecord, **more: Any) -> Self:
        """A part as JSON has it; `more` is what a larger shape adds."""
        return shaped(cls, part, span=_span(part.span), **more)


def _span(value: Any) -> Any:
    """What a part covers; what a codec has sealed in words alone."""
    return parsed(msgspec.json.encode(value).decode()) if isinstance(value, dict) and MARK in value else value


# -- drawing parts --------------------------------------------------------------------------------------

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


# -- reading parts --------------------------------------------------------------------------------------


NEEDING: Final = (State.DEAD, State.CANCELLED, State.RETRYING, State.RUNNING)
"""The states of parts that are listed, the most urgent first."""
_KEPT: Final = 20


class Parts(msgspec.Struct, frozen=True):
    """The parts of a parent. There may be a million, so of most only the state is kept."""

    states: list[State]
    """Of every part, by index."""
    needing: list[PartRecord]
    """Some of those that need attention, the most urgent first."""


async def read_parts(store: Store, parent: int, most: int | None = None) -> Parts:
    """All parts of a parent, or the first `most`. Only those that are listed are read as a whole."""
    states = (await store.part_states(parent))[:most]
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
