"""Parents and parts as JSON (see `jobs`), and reading all parts of a parent."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

import msgspec

from windlass.core.progress import Look, progress
from windlass.core.states import State
from windlass.presentation.jobs import id_text
from windlass.presentation.text import Shape, iso, parsed, plain
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
            _rounded(current.rate),
            _rounded(current.records_rate),
            _rounded(current.left),
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


def parent_shape(parent: ParentRecord, *looks: Look) -> ParentShape:
    """A parent and how far it is, from looks at it, the latest last."""
    return ParentShape(**parent_fields(parent, *looks))


def parent_fields(parent: ParentRecord, *looks: Look) -> dict[str, Any]:
    """What a ParentShape, or one that says more, is made of."""
    return {
        **msgspec.structs.asdict(parent),
        "id": str(parent.id),
        "state": str(parent.state),
        "final": id_text(parent.final),
        "created_at": iso(parent.created_at),
        "finished_at": iso(parent.finished_at),
        "progress": ProgressShape.of(*looks),
    }


def part_shape(part: PartRecord) -> PartShape:
    """A part as JSON has it."""
    return PartShape(**part_fields(part))


def part_fields(part: PartRecord) -> dict[str, Any]:
    """What a PartShape, or one that says more, is made of."""
    return {
        **msgspec.structs.asdict(part),
        "parent": str(part.parent),
        "span": parsed(part.span),
        "state": str(part.state),
        "job": id_text(part.job),
        "created_at": iso(part.created_at),
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def parent_as_json(parent: ParentRecord, *looks: Look) -> Shape:
    """A parent and how far it is, from looks at it, the latest last."""
    return plain(parent_shape(parent, *looks))


def part_as_json(part: PartRecord) -> Shape:
    """A part of a parent [P4]."""
    return plain(part_shape(part))


# -- reading parts --------------------------------------------------------------------------------------


NEEDING: Final = (State.DEAD, State.CANCELLED, State.RETRYING, State.RUNNING)
"""The states of parts that are listed, the most urgent first."""
_KEPT: Final = 20
_PAGE: Final = 10_000


class Parts(msgspec.Struct, frozen=True):
    """The parts of a parent. There may be a million, so of most only the state is kept."""

    states: list[State]
    """Of every part, by index."""
    needing: list[PartRecord]
    """Some of those that need attention, the most urgent first."""


async def read_parts(store: Store, parent: int, most: int | None = None) -> Parts:
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
