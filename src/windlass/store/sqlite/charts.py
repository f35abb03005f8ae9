"""Looking at what was measured: the rows of charts [M1], timelines [M2], and what jobs died of [O4]. Nothing
here writes."""

from __future__ import annotations

from typing import Final

import apsw

from windlass.core.rollup import Sample
from windlass.store.causes import Death, by_cause
from windlass.store.measures import Causes, EventRecord
from windlass.store.sqlite.rows import failures, fetch
from windlass.store.sqlite.statements import Statements
from windlass.store.telling import unpack

_SQL = Statements("charts")
_LAST: Final = (1 << 63) - 1


def measured(
    connection: apsw.Connection, span: int, since: float, until: float, queue: str, task: str
) -> list[Sample]:
    """The rows of a span that begin between two times."""
    found = fetch(connection, _SQL["measured"], (span, queue, task, since, until))
    return [unpack(*row) for row in found]


def totals(connection: apsw.Connection) -> list[Sample]:
    """The rows of all time."""
    return [unpack(*row) for row in fetch(connection, _SQL["totals"])]


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


def causes(connection: apsw.Connection, queue: str | None, task: str | None, limit: int) -> Causes:
    """The newest dead jobs by what they died of. Failures are read only of the latest of each group."""
    name, bindings = ("dead", (limit + 1,)) if queue is None else ("dead_of_queue", (queue, limit + 1))
    deaths: list[Death] = []
    looked, more = 0, False
    for pos, mine, at, error in connection.execute(_SQL[name], bindings):
        if looked == limit:
            more = True
            break
        looked += 1
        if task in (None, mine):
            deaths.append(Death(mine, error or "", at, pos))
    return Causes(by_cause(deaths, lambda pos: _last_words(connection, pos)), looked, more)


def _last_words(connection: apsw.Connection, pos: int) -> str:
    """What the last failure of a job said, or the reason it died of."""
    ((errors, reason),) = fetch(connection, _SQL["last_words"], (pos,))
    kept = failures(errors)
    return kept[-1].message if kept else reason or ""
