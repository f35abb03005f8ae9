"""Listing: pages of jobs, newest first. A page costs a bounded amount of work, whatever it asks for.

Rare states have an index, running jobs are found through the open claims, and everything else by walking the
births backwards, merged with the jobs that have moved since. A page that has looked at enough rows ends
early, perhaps empty, with a cursor to go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from typing import Final

import apsw

from windlass.core.states import State
from windlass.store.records import JobFilter, JobRecord, Matches, Page
from windlass.store.sqlite.lookup import Found, Seen, record
from windlass.store.sqlite.rows import (
    CANCELLED,
    DEAD,
    HELD,
    RETRYING,
    SCHEDULED,
    WAITING,
    last_error,
    readable_options,
)
from windlass.store.sqlite.statements import Statements

_SQL = Statements("listing")
MOST_ROWS: Final = 5_000
MOST_BIRTHS: Final = 5_000
"""How many births a page goes through: of some, none of the jobs stands where it was born."""
LONGEST: Final = 1.0
"""Seconds that looking for all that matches may take: other reads of this process wait for it."""
_NEWEST: Final = (1 << 63) - 1
_ASIDE: Final = {
    State.DEAD: DEAD,
    State.CANCELLED: CANCELLED,
    State.SCHEDULED: SCHEDULED,
    State.RETRYING: RETRYING,
    State.WAITING: WAITING,
}


def jobs(connection: apsw.Connection, where: JobFilter, limit: int, cursor: str | None) -> Page:
    """A page of jobs."""
    page: list[JobRecord] = []
    return Page(
        page, *_walk(connection, where, limit, cursor, lambda seen: page.append(record(connection, seen)))
    )


def matches(
    connection: apsw.Connection, where: JobFilter, most: int, cursor: str | None, within: float | None
) -> Matches:
    """The ids of the jobs that match. Here a job keeps its number, so that none is passed over where the walk
    goes on in another snapshot; one may only have changed its state by then."""
    ids: list[int] = []
    until = time.monotonic() + min(LONGEST if within is None else within, LONGEST)
    while True:
        cursor, *_ = _walk(connection, where, most - len(ids), cursor, lambda seen: ids.append(seen.id))
        if cursor is None or len(ids) >= most or time.monotonic() >= until:
            return Matches(ids, cursor)


def _walk(
    connection: apsw.Connection,
    where: JobFilter,
    limit: int,
    cursor: str | None,
    take: Callable[[Seen], None],
) -> tuple[str | None, int, float | None]:
    """Takes up to so many jobs. Gives the cursor, which is the number of the last job looked at, how many
    were, and when that one was enqueued."""
    before = _NEWEST if cursor is None else _number(cursor)
    last: Seen | None = None
    looked = taken = 0
    for found in _newest_first(connection, where, before):
        if len(found) == 2:  # a floor: no job from this number on is missing
            return str(found[0]), looked, found[1]
        seen = Seen(found)
        fits = _matches(seen, where)
        if last is not None and (looked >= MOST_ROWS or (fits and taken >= limit)):
            return str(last.number), looked, last.enqueued_at
        if fits:
            take(seen)
            taken += 1
        looked, last = looked + 1, seen
    return None, looked, last.enqueued_at if last else None


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
        and (where.error is None or where.error == last_error(seen.errors))
    )


def _newest_first(connection: apsw.Connection, where: JobFilter, before: int) -> Iterator[Found]:
    """Rows that may match, lazily, by number from the highest down."""
    state = where.state
    if where.error is not None:
        failed = [_ASIDE[each] for each in (State.DEAD, State.RETRYING) if state in (None, each)]
        return _merged(connection, *((_SQL["aside"], (each, before)) for each in failed))
    if state in _ASIDE:
        return connection.execute(_SQL["aside"], (_ASIDE[state], before))
    if state in (State.RUNNING, State.SPLITTING):
        return connection.execute(_SQL["running"], (before,))
    if state is State.READY and connection.execute(_SQL["count_ready"]).get <= MOST_ROWS:
        return _merged(connection, (_SQL["ready"], (before,)), (_SQL["aside"], (HELD, before)))
    return _merge(connection.execute(_SQL["moved"], (before,)), _born_here(connection, before))


def _born_here(connection: apsw.Connection, before: int) -> Iterator[Found]:
    """Jobs that stand where they were born. Where there are more births than may be looked at, the last one
    that was comes at the end, as number and time: a floor."""
    floor = connection.execute(_SQL["floor"], (before, MOST_BIRTHS)).fetchone()
    yield from connection.execute(_SQL["born_here"], (before, floor[0] if floor else 0, before))
    if floor:
        yield floor


def _merged(connection: apsw.Connection, *sources: tuple[str, tuple[int, ...]]) -> Iterator[Found]:
    """Several statements, each newest first, as one."""
    return _merge(*(connection.execute(sql, bindings) for sql, bindings in sources))


def _merge(*sources: Iterable[Found]) -> Iterator[Found]:
    """Several sources as one, by their first column, the number; of those with the same, the first first."""
    return merge(*sources, key=lambda found: found[0], reverse=True)
