"""Looking at what was measured: the rows of charts [M1] and timelines [M2]. Nothing here writes."""

from __future__ import annotations

from typing import Final

import apsw

from windlass.core.rollup import Sample
from windlass.store.measures import EventRecord
from windlass.store.sqlite.news import decode_sample
from windlass.store.sqlite.rows import fetch
from windlass.store.sqlite.statements import Statements

_SQL = Statements("charts")
_LAST: Final = (1 << 63) - 1


def measured(
    connection: apsw.Connection, span: int, since: float, until: float, queue: str, task: str
) -> list[Sample]:
    """The rows of a span that begin between two times."""
    found = fetch(connection, _SQL["measured"], (span, queue, task, since, until))
    return [decode_sample(text) for (text,) in found]


def totals(connection: apsw.Connection) -> list[Sample]:
    """The rows of all time."""
    return [decode_sample(text) for (text,) in fetch(connection, _SQL["totals"])]


def events(
    connection: apsw.Connection, job: int | None, queue: str | None, limit: int, before: int | None
) -> list[EventRecord]:
    """Events, the latest first."""
    end = _LAST if before is None else min(before, _LAST)
    if job is not None:
        found = fetch(connection, _SQL["events_of_job"], (job, end, queue, limit))
    elif queue is not None:
        found = fetch(connection, _SQL["events_of_queue"], (queue, end, limit))
    else:
        found = fetch(connection, _SQL["events"], (end, limit))
    return [
        EventRecord(
            id=id,
            at=at,
            kind=kind,
            told=told,
            job=job,
            queue=queue,
            task=task,
            worker=worker,
            attempt=attempt,
            ms=ms,
        )
        for id, at, kind, told, job, queue, task, worker, attempt, ms in found
    ]
