"""Whether there is work: what wakes a worker that waits for it. Nothing here writes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import apsw

from windlass.store.sqlite.governor import bounds, governors_bucket
from windlass.store.sqlite.rows import encode, fetch
from windlass.store.sqlite.statements import Statements

_SQL = Statements("work")


def has_work(connection: apsw.Connection, queues: Sequence[str], now: float) -> bool | None:
    """True if one of these queues may be claimed from, None if not."""
    return True if work_in(connection, queues, now) == 0 else None


def work_in(connection: apsw.Connection, queues: Sequence[str], now: float) -> float:
    """In how many seconds one of these queues may be claimed from, if nobody does anything: that is when its
    governor lets another job start [F2]; 0: now, inf: there is nothing to be had."""
    found = dict(fetch(connection, _SQL["waiting"], (encode(list(queues)).decode(), now)))
    bounded = [queue for queue, is_bounded in found.items() if is_bounded]
    if len(bounded) < len(found):
        return 0.0
    soonest = math.inf
    for _, concurrency, running, *governor in bounds(connection, bounded):
        if concurrency is None or running < concurrency:
            bucket = governors_bucket(governor, now)
            ready = bucket is None or bucket.available(now) >= 1
            soonest = min(soonest, 0.0 if bucket is None or ready else bucket.wait(1, now))
    return soonest
