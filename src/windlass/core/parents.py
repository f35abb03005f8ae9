"""The next step of a parent, from the states of its parts [P9]. PostgreSQL decides it in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from windlass.core.states import FINISHED, State


class Step(StrEnum):
    """The next step of a parent."""

    WAIT = "wait"
    OFFER = "offer"
    FINALIZE = "finalize"
    SUCCEED = "succeed"
    DIE = "die"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the parts of a parent stand. `pending` are those not yet offered, `out` those offered and not
    ended; of these, `waiting` have not been claimed yet. `wanted` is how many may wait: one, or as many as
    the worker that asks can start now. `final` is the state of the finalizer's job, None while there is
    none."""

    pending: int
    out: int
    waiting: int
    dead: int
    cancelled: int
    parallel: int | None
    tolerated: int
    wanted: int = 1
    cancelling: bool = False
    finalizer: bool = False
    final: State | None = None


def parts_to_offer(parent: Standing) -> int:
    """How many parts a parent offers now: no more than are wanted, so that parts of several parents take
    turns in the lane of their queue, and none beyond `parallel` [P8]."""
    room = parent.wanted - parent.waiting
    if parent.parallel is not None:
        room = min(room, parent.parallel - parent.out)
    return max(0, min(parent.pending, room))


def next_step(parent: Standing) -> Step:  # noqa: PLR0911 - one for each rule
    """Return the next step of a parent. Asked again after every step but WAIT, until it has ended."""
    if parent.cancelling:
        busy = parent.out > 0 or (parent.final is not None and parent.final not in FINISHED)
        return Step.WAIT if busy else Step.CANCEL
    if parts_to_offer(parent):
        return Step.OFFER
    if parent.pending or parent.out:
        return Step.WAIT
    if parent.dead + parent.cancelled > parent.tolerated:
        return Step.DIE
    if not parent.finalizer:
        return Step.SUCCEED
    match parent.final:
        case None:
            return Step.FINALIZE
        case State.SUCCEEDED:
            return Step.SUCCEED
        case State.DEAD:
            return Step.DIE
        case State.CANCELLED:
            return Step.CANCEL
        case _:
            return Step.WAIT


def why_dead(parent: Standing, cause: str | None = None) -> str:
    """The reason that a dead parent shows; `cause` is what its finalizer died of."""
    failed = parent.dead + parent.cancelled
    if failed > parent.tolerated:
        verb = "is" if parent.tolerated == 1 else "are"
        return f"{failed} of its parts failed, {parent.tolerated} {verb} tolerated"
    return "its finalizer is dead" if cause is None else f"its finalizer is dead: {cause}"
