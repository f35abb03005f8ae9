"""Parents and parts as JSON; see `windlass.words.job_shapes`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from windlass.core.progress import Look, progress
from windlass.store.records import ParentRecord, PartRecord
from windlass.words.job_shapes import id_text
from windlass.words.text import iso, parsed


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
        told = progress(looks)
        return cls(
            round(told.fraction, 6),
            told.percent,
            told.unit,
            _rounded(told.rate),
            _rounded(told.records_rate),
            _rounded(told.left),
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
    parallel: int
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
