"""How long a queue stands still after a throttle, and when its count of throttles starts anew [O3]."""

from __future__ import annotations

from typing import Final

from windlass.core.retry import MAX_EXPONENT

CALM: Final = 120.0
"""Seconds after the end of a cool-down from which on a success means that the queue goes well again."""


def cool_delay(throttles: int, *, base: float, cap: float, backoff: bool, hint: float | None = None) -> float:
    """Seconds to cool down after a throttle that `throttles` others came before.

    Flat, or twice as long each time where back-off is on. The handler's hint is a floor, and the cap bounds
    all of it, so that no server out there can close a queue for good.
    """
    bare = base * 2.0 ** min(throttles, MAX_EXPONENT) if backoff else base
    return min(max(bare, hint or 0.0), cap)
