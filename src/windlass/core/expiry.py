"""When a job has waited too long [E8]. It waits from its enqueue, or from its run_at where that is later:
time before it may run at all is not waiting. Once a worker has begun it, it does not expire any more.

PostgreSQL says the same in `sql/durable/expiry.sql`.
"""

from __future__ import annotations

from typing import Final

from windlass.core.states import Kind

NOT_BEGUN: Final = frozenset({Kind.UNKNOWN, Kind.RELEASED})
"""Ends of claims after which a job may still expire: it has not begun, unless its outcome says so."""

_UNITS: Final = (("d", 86400.0), ("h", 3600.0), ("m", 60.0))


def deadline(now: float, run_at: float | None, expires: float) -> float:
    """Return when a new job expires that has not begun by then."""
    return max(now, now if run_at is None else run_at) + expires


def expired_reason(expires: float) -> str:
    """Return the reason that an expired job shows."""
    for unit, span in _UNITS:
        if expires >= span and expires % span == 0:
            return f"expired after {expires / span:g} {unit}: it waited longer than that"
    return f"expired after {expires:g} s: it waited longer than that"
