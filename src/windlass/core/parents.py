"""What a parent does next, from how its parts stand [P9]. The PostgreSQL store says the same in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from windlass.core.states import FINISHED, State


class Step(StrEnum):
    """What a parent does next."""

    WAIT = "wait"
    RELEASE = "release"
    FINALIZE = "finalize"
    SUCCEED = "succeed"
    DIE = "die"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the parts of a parent stand. `pending` are those not yet released, `out` those released and not
    ended; `final` is the state of the finalizer's job, None while there is none."""

    pending: int
    out: int
    dead: int
    cancelled: int
    parallel: int
    tolerated: int
    cancelling: bool = False
    finalizer: bool = False
    final: State | None = None


def next_step(parent: Standing) -> Step:  # noqa: PLR0911 - one for each rule
    """What to do with a parent now. Asked again after every step but WAIT, until it has ended."""
    if parent.cancelling:
        busy = parent.out > 0 or (parent.final is not None and parent.final not in FINISHED)
        return Step.WAIT if busy else Step.CANCEL
    if parent.pending and parent.out < parent.parallel:
        return Step.RELEASE
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
        return f"{failed} of its parts failed, {parent.tolerated} are tolerated"
    return "its finalizer is dead" if cause is None else f"its finalizer is dead: {cause}"
