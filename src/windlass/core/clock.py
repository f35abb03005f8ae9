"""A clock that is set back, as those who wrote down a time before see it [fault 31].

Times are the store's, and its clock may be set, a little or by an hour. Whoever keeps a time that something
lasts until knows how long that may be at most: what seems to last longer was written before the clock went
back, and is over. So nothing stands still for as long as the clock was set back. The SQL functions of the
PostgreSQL store say the same.
"""

from __future__ import annotations

from typing import Final

SLIP: Final = 1.0
"""Seconds that a clock may go back without being said to have been set."""

MAX_TERM: Final = 300.0
"""Seconds that a coordinator's term lasts at most."""


def left(until: float, longest: float, now: float) -> float:
    """Seconds until then, of what lasts `longest` at most; 0 where it is over."""
    seconds = until - now
    return seconds if 0.0 < seconds <= longest + SLIP else 0.0
