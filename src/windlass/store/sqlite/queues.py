"""Queues: their settings and how they stand [K1], and their cool-downs [O3]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import apsw

from windlass.core.admission import pressure
from windlass.core.clock import left
from windlass.core.cooldown import CALM, cool_delay
from windlass.store.queues import changed
from windlass.store.records import QueueRecord
from windlass.store.sqlite.governor import known
from windlass.store.sqlite.lanes import declare_queue
from windlass.store.sqlite.rows import fetch
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("queues")
_SETTINGS: Final = (
    "paused", "max_workers", "retention", "dead_retention", "window", "safety_bound", "backoff",
    "backoff_base", "backoff_cap", "cool_base", "cool_cap", "concurrency", "governor", "rate_min", "rate_max",
    "max_depth", "shed_depth", "shed_wait", "shed_latency",
)  # fmt: skip
"""The columns that `set_queue` writes, in the order of the statement."""


def queues(connection: apsw.Connection, now: float) -> list[QueueRecord]:
    """Every declared queue, by name."""
    return [_queue(found, now) for found in fetch(connection, _SQL["all"])]


def set_queue(tx: Transaction, name: str, changes: Mapping[str, Any]) -> QueueRecord:
    """Declare a queue, or change its settings."""
    new = changed(_declared(tx, name), changes)
    bounded = new.max_depth is not None
    tx.run(_SQL["change"], (*(getattr(new, setting) for setting in _SETTINGS), bounded, name))
    tx.news = True  # it may just have been resumed
    return _declared(tx, name)


def throttle(tx: Transaction, name: str, hint: float | None) -> float:
    """Cool a queue, unless it cools already; the answer is how long."""
    queue = _declared(tx, name)
    if queue.cooling > 0:
        return queue.cooling
    delay = cool_delay(
        queue.throttles, base=queue.cool_base, cap=queue.cool_cap, backoff=queue.backoff, hint=hint
    )
    tx.run(_SQL["cool"], (tx.now + delay, name))
    return delay


def warm(tx: Transaction, name: str, *, force: bool) -> bool:
    """The queue goes well again, or an operator says so."""
    warmed = tx.run(_SQL["warm"], (name, force, tx.now - CALM)) > 0
    tx.news |= warmed
    return warmed


def _declared(tx: Transaction, name: str) -> QueueRecord:
    """The queue as it stands; asking declares it."""
    declare_queue(tx.connection, name)
    found = tx.one(_SQL["named"], (name,))
    assert found is not None, "a queue that was just declared is not there"
    return _queue(found, tx.now)


def _queue(found: tuple[Any, ...], now: float) -> QueueRecord:
    name, paused, *rest = found
    max_workers, retention, dead_retention, window, safety_bound, backoff, *rest = rest
    backoff_base, backoff_cap, cool_base, cool_cap, concurrency, governor, rate_min, rate_max, *rest = rest
    max_depth, shed_depth, shed_wait, shed_latency, throttles, cool_until, *rest = rest
    before, refused, shed, decided, depth = rest
    known_governor = known(decided, rate_min, rate_max) if governor else None
    return QueueRecord(
        name=name,
        paused=bool(paused),
        max_workers=max_workers,
        retention=retention,
        dead_retention=dead_retention,
        window=window,
        safety_bound=safety_bound,
        backoff=bool(backoff),
        backoff_base=backoff_base,
        backoff_cap=backoff_cap,
        cool_base=cool_base,
        cool_cap=cool_cap,
        concurrency=concurrency,
        governor=bool(governor),
        rate_min=rate_min,
        rate_max=rate_max,
        max_depth=max_depth,
        shed_depth=shed_depth,
        shed_wait=shed_wait,
        shed_latency=shed_latency,
        throttles=throttles,
        cooling=left(cool_until, cool_cap, now),
        pressure=pressure(int(depth), max_depth, before),
        refused=refused,
        shed=shed,
        rate=known_governor.rate if known_governor is not None else None,
        why=known_governor.why if known_governor is not None and decided is not None else None,
    )
