"""What processes tell, and the rollup of it into the rows of charts [M1] [M2].

To tell is a row of samples, a row per event and the teller's own: a few inserts every two seconds. All that
takes thought is left to the rollup, which one process does for everybody.
"""

from __future__ import annotations

import logging

import msgspec

from windlass.core.rollup import Place, Sample, roll
from windlass.store.measures import Event, News, Rolled
from windlass.store.sqlite.rows import Bindings, encode
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction
from windlass.store.telling import (
    EVENTS_KEPT,
    MOST_EVENTS,
    STEP,
    TELLERS_KEPT,
    cutoffs,
    kept,
    pack,
    read_news,
    unpack,
)

_SQL = Statements("news")
logger = logging.getLogger("windlass.store")


def tell(tx: Transaction, source: int, number: int, news: News) -> float:
    """Take in what one process has to tell, unless it was told before."""
    last = tx.one(_SQL["last"], (source,))
    if last is not None and number <= last[0]:
        return tx.now
    vitals = encode(news.vitals).decode() if news.vitals is not None else None
    tx.run(_SQL["teller"], (source, number, tx.now, vitals, tx.now if vitals is not None else None))
    if news.samples:
        tx.run(_SQL["news"], (encode(news.samples).decode(),))
    tx.many(_SQL["event"], (_columns(kept(event, tx.now)) for event in news.events))
    return tx.now


def _columns(event: Event) -> Bindings:
    return (
        event.at, event.kind, event.told, event.job, event.queue, event.task, event.worker, event.attempt,
        event.ms,
    )  # fmt: skip


def rollup(tx: Transaction, limit: int) -> Rolled:
    """Fold the oldest news into the rows, forget them, and remove what has outlived its time. One
    transaction: who asks again finds nothing left to fold."""
    folded, rows = _fold(tx, min(limit, STEP))
    removed = _tidy(tx, limit)
    more = bool(tx.connection.execute(_SQL["any"]).get) or removed >= limit
    return Rolled(folded, rows, removed, more)


def _fold(tx: Transaction, limit: int) -> tuple[int, int]:
    batches = tx.all(_SQL["oldest"], (limit,))
    if not batches:
        return 0, 0
    rows = roll(sample for _, text in batches for sample in read_news(text))
    for place, sample in rows.items():
        _add(tx, place, sample)
    tx.run(_SQL["forget"], (batches[-1][0],))
    return len(batches), len(rows)


def _add(tx: Transaction, place: Place, sample: Sample) -> None:
    key = (place.span, place.queue, place.task, place.at)
    found = tx.one(_SQL["row"], key)
    if found is not None:
        try:
            sample.add(unpack(found[0], place.at, place.queue, place.task))
        except msgspec.MsgspecError as error:
            logger.warning("the measures of %s cannot be read and begin anew: %s", place, error)
    tx.run(_SQL["write"], (*key, pack(sample)))


def _tidy(tx: Transaction, limit: int) -> int:
    """Remove rows, events and tellers, so many of each at most; how many rows and events that were."""
    removed = sum(tx.run(_SQL["remove_rows"], (span, end, limit)) for span, end in cutoffs(tx.now).items())
    removed += tx.run(_SQL["remove_events"], (tx.now - EVENTS_KEPT, MOST_EVENTS, limit))
    tx.run(_SQL["remove_tellers"], (tx.now - TELLERS_KEPT, limit))
    return removed
