"""How long the automatic enqueues of a unique key are parked after its jobs have died again and again [O7].
Whoever keeps the count of deaths is a store; the PostgreSQL store says the same in SQL."""

from __future__ import annotations

from typing import Final

from windlass.core.retry import MAX_EXPONENT

FIRST: Final = 30 * 60.0
LONGEST: Final = 6 * 3600.0
FORGET_AFTER: Final = 7 * 86400.0
"""Seconds after the last death of a key from which on its deaths no longer count."""


def parked_until(deaths: int, last: float, after: int = 3) -> float | None:
    """When automatic enqueues of a key pass again, of which the last `deaths` jobs have all died, the last of
    them at `last`; None where they have passed all the time. Each death beyond the threshold doubles the
    wait, up to 6 hours."""
    if deaths < after:
        return None
    return last + min(FIRST * 2.0 ** min(deaths - after, MAX_EXPONENT), LONGEST)
