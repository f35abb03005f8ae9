"""Decides whether a queue takes another job: backpressure on its own depth [F4], and shedding when all is too
much [F5].

Shedding is judged first. Both are off unless a queue's settings switch them on, and both are for new jobs
only: what was accepted once is never turned away again."""

from __future__ import annotations

from typing import Final, Literal

from windlass.core.counts import plural
from windlass.core.states import Priority
from windlass.errors import QueueFull, Refused, Shed

Pressure = Literal["none", "soft", "full"]
SOFT: Final = 0.7
CLEAR: Final = 0.6
URGENT: Final = 1.2
WARNING: Final = 0.7
CRITICAL: Final = 0.9
EMERGENCY: Final = 1.0
FULL_RETRY_AFTER: Final = 5.0
"""Seconds after which a producer that found a queue full may try again."""

SHED_RETRY_AFTER: Final = 10.0
LATENCY_COUNTS: Final = 30.0
"""Seconds for which an observed latency of the store counts."""


def pressure(depth: int, max_depth: int | None, before: Pressure) -> Pressure:
    """The pressure on a queue, which remembers: it rises at 70 % and 100 %, and falls at 60 % [F4]."""
    if max_depth is None:
        return "none"
    fill = depth / max_depth
    if fill >= 1.0 or (before == "full" and fill > CLEAR):
        return "full"
    return "soft" if fill >= SOFT or (before != "none" and fill > CLEAR) else "none"


def is_full(depth: int, max_depth: int | None, now: Pressure, priority: int) -> bool:
    """Return whether a new job is refused. `now` is the pressure as of this depth; urgent jobs find room
    until 120 %."""
    if max_depth is None or now != "full":
        return False
    return priority != Priority.URGENT or depth >= max_depth * URGENT


def shed_level(
    depth: int, wait: float, latency: float, limits: tuple[int | None, float | None, float | None]
) -> float:
    """How much too much it is: the largest of depth, oldest wait and store latency over their limits. A limit
    of None does not count; without any the level is 0."""
    shares = (measure / limit for measure, limit in zip((depth, wait, latency), limits, strict=True) if limit)
    return max(shares, default=0.0)


def is_shed(level: float, priority: int) -> bool:
    """Return whether a new job of this priority is shed at this level [F5]."""
    if level >= EMERGENCY:
        return priority > Priority.URGENT
    if level >= CRITICAL:
        return priority > Priority.HIGH
    return level >= WARNING and priority >= Priority.LOW


def hint(depth: int, max_depth: int | None) -> float | None:
    """How full a queue is, where that is worth a word to its producers."""
    fill = depth / max_depth if max_depth else 0.0
    return fill if fill >= SOFT else None


def refusal(
    queue: str, priority: int, depth: int, max_depth: int | None, now: Pressure, level: float
) -> Refused | None:
    """Why a queue does not take a new job of this priority; None where it does. Shedding is judged first.
    PostgreSQL says it in the same words: see windlass.check_load."""
    if is_shed(level, priority):
        return Shed(
            f"queue {queue} is overloaded, at {level:.0%} of its limit, and refuses jobs of priority "
            f"{Priority(priority).name.lower()}. Try again in {SHED_RETRY_AFTER:g} s, or enqueue with a "
            "higher priority what cannot wait",
            queue,
            SHED_RETRY_AFTER,
            level,
        )
    if is_full(depth, max_depth, now, priority):
        return QueueFull(
            f"queue {queue} is full: {plural(depth, 'job is', 'jobs are')} ready, and its max_depth is "
            f"{max_depth:,}. Try again in {FULL_RETRY_AFTER:g} s; it takes jobs again when it has fallen to "
            f"{CLEAR:.0%}",
            queue,
            FULL_RETRY_AFTER,
        )
    return None
