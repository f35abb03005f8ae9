"""Listing: pages of jobs, newest first. A page costs a bounded amount of work, whatever it asks for.

Rare states have an index, running jobs are found through the open claims, and everything else by walking the
births backwards, merged with the jobs that have moved since. A page that has looked at enough rows ends
early, perhaps empty, with a cursor to go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Final

import apsw

from windlass.core.states import State
from windlass.store.records import JobFilter, JobRecord, Page
from windlass.store.sqlite.lookup import Found, Seen, record
from windlass.store.sqlite.rows import CANCELLED, DEAD, HELD, RETRYING, SCHEDULED, WAITING, readable_options
from windlass.store.sqlite.statements import Statements

_SQL = Statements("listing")
MOST_ROWS: Final = 5_000
_NEWEST: Final = (1 << 63) - 1
_ASIDE: Final = {
    State.DEAD: DEAD,
    State.CANCELLED: CANCELLED,
    State.SCHEDULED: SCHEDULED,
    State.RETRYING: RETRYING,
    State.WAITING: WAITING,
}


def jobs(connection: apsw.Connection, where: JobFilter, limit: int, cursor: str | None) -> Page:
    """A page of jobs. The cursor is the number of the last job looked at."""
    before = _NEWEST if cursor is None else _number(cursor)
    page: list[JobRecord] = []
    last: Seen | None = None
    looked = 0
    for found in _newest_first(connection, where.state, before):
        seen = Seen(found)
        fits = _matches(seen, where)
        if last is not None and (looked >= MOST_ROWS or (fits and len(page) >= limit)):
            return Page(page, str(last.number), looked, last.enqueued_at)
        if fits:
            page.append(record(connection, seen))
        looked, last = looked + 1, seen
    return Page(page, None, looked, last.enqueued_at if last else None)


def _number(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 20 and 0 < int(cursor) < _NEWEST):
        raise ValueError(f"{cursor[:80]!r} is not a cursor of this store; take it from a page")
    return int(cursor)


def _matches(seen: Seen, where: JobFilter) -> bool:
    return (
        where.queue in (None, seen.queue)
        and where.task in (None, seen.task)
        and where.state in (None, seen.state)
        and (where.tag is None or where.tag in readable_options(seen.options).tags)
        and (where.text is None or where.text in seen.payload)
    )


def _newest_first(connection: apsw.Connection, state: State | None, before: int) -> Iterator[Found]:
    """Rows that may match, lazily, by number from the highest down."""
    if state in _ASIDE:
        return connection.execute(_SQL["aside"], (_ASIDE[state], before))
    if state in (State.RUNNING, State.SPLITTING):
        return connection.execute(_SQL["running"], (before,))
    if state is State.READY and connection.execute(_SQL["count_ready"]).get <= MOST_ROWS:
        return _merged(connection, (_SQL["ready"], (before,)), (_SQL["aside"], (HELD, before)))
    return _merged(connection, (_SQL["born_here"], (before, before)), (_SQL["moved"], (before,)))


def _merged(connection: apsw.Connection, *sources: tuple[str, tuple[int, ...]]) -> Iterator[Found]:
    """Several sources, each newest first, as one. The first column is the number."""
    cursors = (connection.execute(sql, bindings) for sql, bindings in sources)
    return merge(*cursors, key=lambda found: found[0], reverse=True)
