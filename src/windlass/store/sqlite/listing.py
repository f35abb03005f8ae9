"""Listing: pages of jobs, newest first. A page costs a bounded amount of work, whatever it asks for.

Rare states have an index, running jobs are found through the open claims, and everything else by walking the
births backwards, merged with the jobs that have moved since. A page that has looked at enough rows ends
early, perhaps empty, with a cursor to go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from typing import Final, TypeVar

import apsw

from windlass.core.states import State
from windlass.store.records import JobFilter, Matches, Page
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

T = TypeVar("T")
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


def jobs(
    connection: apsw.Connection, where: JobFilter, limit: int, cursor: str | None, within: float
) -> Page:
    """A page of jobs."""
    return Page(*_walked(connection, where, limit, cursor, within, lambda seen: record(connection, seen)))


def matches(
    connection: apsw.Connection, where: JobFilter, most: int, cursor: str | None, within: float | None
) -> Matches:
    """The ids of the jobs that match. Here a job keeps its number, so that none is passed over where the walk
    goes on in another snapshot; one may only have changed its state by then."""
    within = LONGEST if within is None else within
    ids, more, *_ = _walked(connection, where, most, cursor, within, lambda seen: seen.id)
    return Matches(ids, more)


def _walked(
    connection: apsw.Connection,
    where: JobFilter,
    most: int,
    cursor: str | None,
    within: float,
    made: Callable[[Seen], T],
) -> tuple[list[T], str | None, int, float | None]:
    """Walk on, for so many seconds, until there are enough: what was made of each, and what a page tells."""
    found: list[T] = []
    looked, back_to = 0, None
    until = time.monotonic() + min(within, LONGEST)
    while True:
        some, cursor, rows, at = _step(connection, where, most - len(found), cursor, made)
        found += some
        looked += rows
        back_to = back_to if at is None else at
        if cursor is None or len(found) >= most or time.monotonic() >= until:
            return found, cursor, looked, back_to


def _step(
    connection: apsw.Connection, where: JobFilter, limit: int, cursor: str | None, made: Callable[[Seen], T]
) -> tuple[list[T], str | None, int, float | None]:
    """One bounded step. The cursor is the number of the last job looked at."""
    before = _NEWEST if cursor is None else _number(cursor)
    page: list[T] = []
    last: Seen | None = None
    looked = 0
    for found in _newest_first(connection, where, before):
        if len(found) == 2:  # a floor: no job from this number on is missing
            return page, str(found[0]), looked, found[1]
        seen = Seen(found)
        fits = _matches(seen, where)
        if last is not None and (looked >= MOST_ROWS or (fits and len(page) >= limit)):
            return page, str(last.number), looked, last.enqueued_at
        if fits:
            page.append(made(seen))
        looked, last = looked + 1, seen
    return page, None, looked, last.enqueued_at if last else None


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
