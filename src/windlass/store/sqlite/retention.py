"""Retention: finished jobs go when their time is over, in bounded steps; nothing unfinished ever does [K6]. A
whole rotation is a walk of many small write transactions: between two of them others have a turn.

Claims are the index of this: a job cannot have finished before it was claimed, so the walk over a lane's
claims ends at the first one that is younger than what may go, and a claim whose jobs are gone goes too.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

import apsw

from windlass.core.retry import FORGET_AFTER
from windlass.store.records import Expired, Rotation
from windlass.store.settings import StoreSettings
from windlass.store.sqlite import parents
from windlass.store.sqlite.connections.database import Database
from windlass.store.sqlite.durable import groups, signals, steps, streams
from windlass.store.sqlite.flow import limits
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import CANCELLED, DEAD, SUCCEEDED, fetch
from windlass.store.sqlite.schema import Statements

_SQL = Statements("retention")

STEP_JOBS: Final = 5000
STEP_ROWS: Final = 1000
STEP_PARTS: Final = 10_000
FULL_BUCKETS_KEPT: Final = 3600.0
SPENT_KEPT: Final = 3600.0
"""Seconds for which it is known what an attempt has said that it used [F1]."""


def _retentions(connection: apsw.Connection, settings: StoreSettings) -> list[tuple[int, float]]:
    """Each lane with the seconds its succeeded and cancelled jobs are kept."""
    return [
        (lane, settings.retention if own is None else min(own, settings.retention))
        for lane, own, _ in fetch(connection, _SQL["lanes"])
    ]


def _used_bytes(connection: apsw.Connection) -> int:
    """How much of the file is in use: pages freed by deletion are used again before the file grows."""
    pages, free, size = (
        int(connection.pragma(name)) for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _sweep_claims(tx: Transaction, lane: int, after: int, keep: float) -> tuple[int, int | None]:
    """Remove the jobs of some claims that finished `keep` seconds ago or earlier. Returns how many, and where
    to go on."""
    cutoff = tx.now - keep
    first = last = total = 0
    for lo, hi, at in tx.connection.execute(_SQL["claims"], (lane, after)):
        if at > cutoff or total >= STEP_JOBS:
            break
        first, last, total = first or lo, hi, total + hi - lo + 1
    if not total:
        return 0, None
    removed = tx.run(_SQL["remove_finished"], (lane << 44 | first, lane << 44 | last, cutoff))
    tx.run(_SQL["remove_claims"], (lane, first, last))
    return removed, last


def _sweep_cancelled(tx: Transaction, lane: int, keep: float) -> tuple[int, bool]:
    """Remove cancelled jobs of a lane, wherever they stand. Returns how many, and whether to go on."""
    removed = tx.run(_SQL["remove_cancelled"], (lane, tx.now - keep, STEP_ROWS))
    return removed, removed == STEP_ROWS


def _sweep_inserts(tx: Transaction, after: int, keep: float) -> int | None:
    """Remove the rows of inserts whose jobs are all gone. Returns where to go on."""
    found = tx.one(_SQL["last_insert"], (after, tx.now - keep, STEP_ROWS))
    if found is None or found[0] is None:
        return None
    tx.run(_SQL["remove_inserts"], (after, found[0]))
    return int(found[0])


def expire(tx: Transaction, limit: int = 1000) -> Expired:
    """One bounded step of retention for dead jobs, idempotency keys, parents that have ended, and workers
    long gone."""
    dead = 0
    for lane, keep in tx.all(_SQL["dead_retentions"]):
        removed = tx.run(_SQL["remove_dead"], (lane, tx.now - keep, limit - dead))
        tx.lanes.numbered(lane).dead -= removed
        dead += removed
    keys = tx.run(_SQL["remove_keys"], (tx.now - tx.settings.idempotency_retention, limit))
    workers = tx.run(_SQL["remove_workers"], (tx.now - tx.settings.retention, limit))
    forgotten = (
        tx.run(_SQL["forget_deaths"], (tx.now - FORGET_AFTER, limit)),
        limits.forget_ordering_keys(tx.connection, tx.now, limit),
        tx.budgets.forget(limit, tx.now - FULL_BUCKETS_KEPT),
        tx.budgets.forget_spent(limit, tx.now - SPENT_KEPT),
        steps.expire(tx, limit),
        streams.expire(tx, limit),
        signals.expire(tx, limit),
        signals.forget_used(tx, limit),
        groups.expire(tx, limit),
    )
    families, left = _expire_parents(tx, limit)
    more = left or max(dead, keys, workers, families, *forgotten) >= limit
    return Expired(dead=dead, keys=keys, workers=workers, parents=families, more=more)


def _expire_parents(tx: Transaction, limit: int) -> tuple[int, bool]:
    """Remove parents with their parts, as long as the step is not too large for that. How many, and whether
    some had to be left."""
    removed = rows = 0
    for lane, own, dead in tx.all(_SQL["lanes"]):
        kept = tx.settings.retention if own is None else min(own, tx.settings.retention)
        for state, keep in ((SUCCEEDED, kept), (CANCELLED, kept), (DEAD, dead)):
            for (id,) in tx.all(_SQL["past_parents"], (lane, state, tx.now - keep, limit - removed)):
                parent = parents.load(tx, id)
                assert parent is not None
                if rows and rows + parent.total > STEP_PARTS:
                    return removed, True
                parents.remove(tx, parent)
                removed, rows = removed + 1, rows + parent.total
    return removed, False


async def rotate(database: Database, settings: StoreSettings, *, force: bool) -> Rotation:
    """Remove what is past its retention (`force`: all that succeeded or was cancelled).

    While the file is over its size limit the retention is halved again and again, so the oldest go first.
    """
    removed = await _sweep(database, settings, 0.0 if force else 1.0, force=force)
    share = 0.5
    while not force and await database.read(_used_bytes) > settings.size_limit and share > 0:
        removed += await _sweep(database, settings, share, force=False)
        share = share / 2 if share > 0.001 else 0.0
    return Rotation(reclaimed=removed > 0, removed=removed)


async def _sweep(database: Database, settings: StoreSettings, share: float, *, force: bool) -> int:
    """One pass over all lanes, with every retention cut down to this share of itself."""
    removed = 0
    for lane, full in await database.read(lambda connection: _retentions(connection, settings)):
        removed += await _sweep_lane(database, lane, -math.inf if force else full * share)
    keep = -math.inf if force else settings.retention * share
    after: int | None = 0
    while after is not None:
        after = await database.write(partial(_sweep_inserts, after=after, keep=keep))
    return removed


async def _sweep_lane(database: Database, lane: int, keep: float) -> int:
    removed = 0
    after: int | None = 0
    while after is not None:
        count, after = await database.write(partial(_sweep_claims, lane=lane, after=after, keep=keep))
        removed += count
    more = True
    while more:
        count, more = await database.write(partial(_sweep_cancelled, lane=lane, keep=keep))
        removed += count
    return removed
