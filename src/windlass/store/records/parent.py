"""Jobs that are split: the plan of their parts, and how far a parent and each of its parts are [P4]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from windlass.core.states import State


class PartOf(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which part of which parent a job is [P4]."""

    parent: int
    index: int
    """From 0; -1 is the finalizer."""
    total: int
    """How many parts the parent has."""
    span: str = "null"
    """The span that the part covers, as JSON; its meaning is the splitter's."""
    size: int = 0
    """How much that is, in the splitter's unit."""
    created_at: float = 0.0
    """When the parent was split."""


class PartPlan(msgspec.Struct, frozen=True):
    """A part as planned: what it covers (JSON, the splitter's own) and how much that is."""

    span: str
    size: int = 0
    """In the splitter's unit: bytes, numbers, items. The unit of a part's progress."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is split [P4]."""

    parts: Sequence[PartPlan]
    parallel: int | None = None
    """How many parts may run at a time; None: any number [P8]."""
    tolerated: int = 0
    """How many parts may fail while the parent still ends well [P9]."""
    finalizer: bool = False
    """True if a last job runs once all parts have ended."""


class ParentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A parent and how far its parts are."""

    id: int
    task: str
    queue: str
    state: State
    total: int
    """Parts in all. succeeded + dead + cancelled + out + those not yet offered."""
    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0
    out: int = 0
    """Parts that are offered and have not ended."""
    parallel: int | None = None
    tolerated: int = 0
    size: int = 0
    """The sizes of all parts together."""
    done: int = 0
    """How much of it is done, by what parts have saved."""
    records: int = 0
    """The records done, by what parts have saved."""
    final: int | None = None
    """The finalizer's job, once all parts have ended."""
    cancel_requested: bool = False
    reason: str | None = None
    created_at: float = 0.0
    """When it was split."""
    finished_at: float | None = None


class PartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a parent [P4]."""

    parent: int
    index: int
    total: int
    span: Any
    """The span that it covers, as `Part.span` has it; its shape is the splitter's. Sealed, where a codec
    sealed it."""
    size: int
    state: State
    """`waiting` before it is offered, then the state of its job."""
    job: int | None = None
    """The job that runs it, or ran it last."""
    attempt: int = 0
    """The attempt of that job; 0 before it is offered."""
    done: int = 0
    records: int = 0
    error: str | None = None
    """Type and message of the failure it died of."""
    created_at: float = 0.0


def states_of_parts(total: int, runs: Iterable[tuple[int, int, State]]) -> list[State]:
    """The states of so many parts by index, given those that have not succeeded as runs: from which index on,
    how many, and their state."""
    states = [State.SUCCEEDED] * total
    for first, n, state in runs:
        states[first : first + n] = [state] * n
    return states
