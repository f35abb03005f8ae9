"""Streams of jobs on SQLite: a row for all that one write brought of a job [W3] [C5]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from windlass.core.states import FINISHED
from windlass.store.records import Emits, Emitted, StreamPage
from windlass.store.sqlite import listing
from windlass.store.sqlite.claims import must_live, running, spans
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import named, record_of
from windlass.store.sqlite.schema import Statements

_SQL = Statements("streams")
AT_ONCE: Final = 64
"""Batches that one look gives at most."""


def emit(tx: Transaction, worker: int, emits: Sequence[Emits]) -> list[int | None]:
    """Append events to the streams of jobs that the worker runs; see Store.emit."""
    must_live(tx, worker)
    held = spans(tx, worker, {each.job.claim for each in emits})
    written = [
        None if running(tx, held.get(each.job.claim), each.job) is None else _append(tx, each)
        for each in emits
    ]
    tx.notify = True
    return written


def _append(tx: Transaction, emits: Emits) -> int:
    job = emits.job
    last, claim, run = tx.one(_SQL["last"], (job.id,)) or (0, None, 0)
    if claim == job.claim if emits.after is None else last > emits.after:
        return int(last)  # it was sent before
    last = max(last, emits.after or 0)  # what a file has lost since, readers have seen
    end: int = last + emits.n
    run += claim != job.claim
    tx.run(_SQL["append"], (job.id, end, job.claim, tx.now, emits.n, run, job.attempt, emits.events))
    keep = tx.settings.stream_limit
    piece = max(keep // 4, 1)
    if end > keep and end // piece > last // piece:
        tx.run(_SQL["trim"], (job.id, end - keep))
    return end


def read(connection: apsw.Connection, job: int, after: int) -> StreamPage:
    """Return what a job emitted after this position, and its state. Reads only."""
    seen = listing.seen_job(connection, job)
    if seen is None:
        return StreamPage([], None)
    found = named(connection, _SQL["read"], (job, after, AT_ONCE))
    batches = [record_of(Emitted, row) for row in found]
    return StreamPage(batches, seen.state, len(batches) == AT_ONCE)


def news(connection: apsw.Connection, job: int, after: int) -> StreamPage | None:
    """Return what a job emitted after this position, where that is news: None while the job goes on and has
    emitted nothing."""
    page = read(connection, job, after)
    return page if page.batches or page.state is None or page.state in FINISHED else None


def expire(tx: Transaction, limit: int) -> int:
    """Remove the streams of jobs that are gone, so many rows at most: look at so many jobs, and go on there
    the next time."""
    found = tx.one(_SQL["looked"])
    job, gone = int(found[0]) if found is not None else 0, 0
    for _ in range(limit):
        following = tx.one(_SQL["next"], (job,))
        if following is None:
            job = 0
            break
        there = following[1]
        if not there:
            gone += tx.run(_SQL["forget"], (following[0], limit - gone))
            if gone >= limit:
                break  # there may be more of it
        job = int(following[0])
    tx.run(_SQL["look"], (job,))
    return gone
