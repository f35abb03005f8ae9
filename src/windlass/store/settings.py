"""Settings that every store understands; each has a safe default."""

from __future__ import annotations

import msgspec


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a store ages, keeps and forgets jobs. Times in seconds."""

    ageing_step: float = 60.0
    """A waiting job gains one priority step per this many seconds; 0 switches ageing off [C2]."""

    retention: float = 7 * 86400.0
    """How long succeeded and cancelled jobs are kept [K6]."""

    size_limit: int = 10 * 1024**3
    """Bytes of logs after which they turn before the retention has passed [K6]."""

    idempotency_retention: float = 86400.0
    """How long an idempotency key is remembered; it outlives its job [E2]."""

    park_after: int = 3
    """After so many dead runs of a unique key in a row its automatic enqueues are parked for a while [O7]."""

    idle_poll: float = 0.5
    """How long an idle worker waits at most before it looks for work, where no wake-up can reach it [K12]."""

    stream_limit: int = 10_000
    """How many events of a job's stream are kept at least; the oldest go first [W3]."""
