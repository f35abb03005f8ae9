"""Which lane comes next: by priority, with ageing so that low is never starved [C2]."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class LaneHead(msgspec.Struct, frozen=True):
    """A lane as the claimer sees it: its priority and how long its oldest waiting job has waited."""

    lane: int
    queue: str
    priority: int
    waited: float


def effective(priority: int, waited: float, step: float) -> int:
    """The priority after ageing: one step better per `step` seconds waited (step 0 switches it off)."""
    return priority - int(max(waited, 0.0) // step) if step > 0 else priority


def claim_order(heads: Iterable[LaneHead], step: float = 60.0) -> list[LaneHead]:
    """Order lanes by effective priority; among equals the one whose head has waited longest."""
    return sorted(heads, key=lambda h: (effective(h.priority, h.waited, step), -h.waited, h.lane))
