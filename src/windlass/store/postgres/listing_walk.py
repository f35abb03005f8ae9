"""Listing on PostgreSQL: a bounded walk through the jobs, newest first [M3]. Nothing here writes.

Jobs come from several sources: each lane, by its seqs from the highest down, and the tables of those that
are in no lane, by when they were enqueued. The walk merges them. It looks at rows cheaply (position, time,
and whether task, tag, text and error fit) and asks for the state, which costs more, only of those that fit;
where a state is asked for, it visits only the sources and places that can hold it, and likewise for an error.
A cursor says how far each source has come. Lanes that have come to their end are left out of it: jobs that
come later are not in the walk. The tables stay in it to the end, at the time that the walk has come to: a job
of a lane further back may go there before the next page is asked for [S5]. One that goes to the top of a lane
meanwhile is where a new walk begins.
"""

from __future__ import annotations

import base64
import heapq
from collections import deque
from collections.abc import Sequence, Set
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec

from windlass.core.json_text import search_of
from windlass.core.states import State
from windlass.store.postgres import schema as schemas
from windlass.store.records import JobFilter

MAX_ROWS: Final = 1_000
"""How many rows a call looks at, about."""
FIRST_ROWS: Final = 500
"""How many it asks for at first, where most of them may not fit."""
FEW_ROWS: Final = 8
"""How many it asks of each lane at least."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
END: Final = datetime.max.replace(tzinfo=UTC)
_HIGHEST: Final = (1 << 63) - 1

ASIDE: Final = {
    "scheduled": (State.SCHEDULED, "deferred"),
    "retrying": (State.RETRYING, "deferred"),
    "held": (State.READY, "held"),
    "dead": (State.DEAD, "dead"),
    "parent waiting": (State.WAITING, "parent"),
    "parent dead": (State.DEAD, "parent"),
    "parent succeeded": (State.SUCCEEDED, "parent"),
    "parent cancelled": (State.CANCELLED, "parent"),
}
"""The sources that are no lanes: the state of their jobs, and the table they are in."""
_IN_LANES: Final = frozenset({State.READY, State.RUNNING, State.SPLITTING, State.SUCCEEDED, State.CANCELLED})
_FAILED: Final = frozenset({State.DEAD, State.RETRYING})
"""The states in which a job is found by what it failed with."""
_SPARSE: Final = frozenset({State.SPLITTING, State.CANCELLED})
"""States that few of the rows are in that are looked at for them."""

Name: TypeAlias = int | str
"""A source: the number of a lane, or a key of ASIDE."""
Place: TypeAlias = tuple[int, int]
"""Where a row stands in its source: (seq, 0) in a lane, else (microseconds since the epoch, id)."""


class Looked(NamedTuple):
    """A row as it was looked at. Only those that fit, and the last of what was fetched, come here; `rows`
    says how many were looked at from the one before to this. `at` orders the sources among each other."""

    at: float
    place: Place
    fits: bool
    rows: int


class Source:
    """One source: the rows of it that were fetched and not yet passed, and how far the walk has come."""

    __slots__ = ("before", "last", "more", "name", "rows")

    def __init__(self, name: Name, before: Place | None = None) -> None:
        self.name: Final = name
        self.before = before
        self.rows: deque[Looked] = deque()
        self.more: bool = True
        self.last: Place | None = None

    @property
    def hungry(self) -> bool:
        """Return whether more must be fetched before the walk can go on."""
        return self.more and not self.rows

    @property
    def ended(self) -> bool:
        """Return whether the walk has passed all of it."""
        return not self.more and self.last in (None, self.before)

    def feed(self, rows: Sequence[Looked], more: bool) -> None:
        """Take what was fetched, newest first."""
        self.rows.extend(rows)
        self.more = more
        if rows:
            self.last = rows[-1].place
            if self.before is None:  # what comes from now on is newer, and not in this walk
                first, second = rows[0].place
                self.before = (first + 1, 0) if isinstance(self.name, int) else (first, second + 1)


_Lane = Annotated[int, msgspec.Meta(ge=1, lt=1 << 19)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=_HIGHEST)]
_Moment = Annotated[int, msgspec.Meta(ge=-(1 << 55), lt=1 << 57)]  # microseconds of the years 828 to 6535


class _Cursor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    lanes: dict[_Lane, _Number]
    aside: dict[str, tuple[_Moment, _Number]]


_cursor = msgspec.msgpack.Decoder(_Cursor).decode


def states_of(where: JobFilter) -> frozenset[State]:
    """The states of the jobs that a filter can find."""
    states = frozenset(State) if where.state is None else frozenset({where.state})
    return states if where.error is None else states & _FAILED


def all_aside(states: Set[State]) -> list[Source]:
    """The sources that are no lanes and hold jobs of these states, from the newest on."""
    return [Source(kind) for kind, (held, _) in ASIDE.items() if held in states]


def read_cursor(text: str, states: Set[State]) -> list[Source]:
    """The sources of a walk that goes on. Raises ValueError for what is no cursor."""
    try:
        cursor = _cursor(base64.b64decode(text, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise ValueError(
            f"{text[:80]!r} is not a cursor of this store; take it from a page of jobs"
        ) from None
    aside = [source.name for source in all_aside(states)]
    lanes = cursor.lanes.items() if states & _IN_LANES else ()
    return [
        *(Source(lane, (seq, 0)) for lane, seq in lanes),
        *(Source(kind, place) for kind, place in cursor.aside.items() if kind in aside),
    ]


def write_cursor(sources: Sequence[Source], back_to: float | None) -> str | None:
    """How far a walk has come, or None where it has come to the end."""
    if back_to is None or all(source.ended or source.before is None for source in sources):
        return None
    cursor = _Cursor({}, {})
    here = (int(back_to * 1e6) + 1, 0)
    for source in sources:
        if isinstance(source.name, str):
            cursor.aside[source.name] = min(source.before or here, here)
        elif source.before is not None and not source.ended:
            cursor.lanes[source.name] = source.before[0]
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(cursor)).decode()


class Walk:
    """One call: from a cursor, or the newest job, until the page is full or enough rows were looked at."""

    def __init__(self, schema: str, where: JobFilter, limit: int, cursor: str | None) -> None:
        self._schema = schema
        self._where = where
        self._text = (None, None) if where.text is None else search_of(where.text)
        self._limit = max(limit, 1)
        self._states = states_of(where)
        self._whole = cursor is None and bool(self._states & _IN_LANES)  # its lanes are not known yet
        self._sources = all_aside(self._states) if cursor is None else read_cursor(cursor, self._states)
        by_content = where.task or where.tag or where.text or where.error is not None
        self._picky = bool(by_content) or where.state in _SPARSE
        self._step = FIRST_ROWS if self._picky else min(2 * self._limit + FEW_ROWS, FIRST_ROWS)
        self.found: list[Any] = []
        self.looked: int = 0
        self.back_to: float | None = None

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        return write_cursor(self._sources, self.back_to)

    async def run(self, connection: Any) -> list[Any]:
        """The rows of the page, as the job view shows them."""
        ids: set[int] = set()
        while len(self.found) < self._limit and self.looked < MAX_ROWS:
            await self._fetch(connection)
            passed = self._stretch()
            if not passed:
                break
            shown = await self._judge(connection, passed)
            for source, row in passed:
                source.before = row.place
                self.looked += row.rows
                self.back_to = row.at
                job = shown.get((source.name, row.place))
                if job is not None and job["id"] not in ids:
                    ids.add(job["id"])
                    self.found.append(job)
                    if len(self.found) == self._limit:
                        break
        return self.found

    def _stretch(self) -> list[tuple[Source, Looked]]:
        """The next rows in order, as far as is known without fetching more, and as many as may be wanted."""
        room = MAX_ROWS if self._picky else self._limit - len(self.found) + FEW_ROWS
        heads = [(-source.rows[0].at, i, source) for i, source in enumerate(self._sources) if source.rows]
        heapq.heapify(heads)
        passed: list[tuple[Source, Looked]] = []
        left = MAX_ROWS - self.looked
        while heads and room > 0 and left > 0:
            _, i, source = heads[0]
            row = source.rows.popleft()
            passed.append((source, row))
            room -= row.fits
            left -= row.rows
            if source.rows:
                heapq.heapreplace(heads, (-source.rows[0].at, i, source))
            elif source.more:
                break
            else:
                heapq.heappop(heads)
        return passed

    # -- asking the database ----------------------------------------------------------------------------

    async def _fetch(self, connection: Any) -> None:
        """Fetch rows of every source that has none left; each time more, where they did not do."""
        self._step = min(self._step, MAX_ROWS - self.looked)
        hungry = [source for source in self._sources if source.hungry]
        aside = [source for source in hungry if isinstance(source.name, str)]
        lanes = [source for source in hungry if isinstance(source.name, int)]
        if aside:
            await self._fetch_aside(connection, aside)
        if lanes or self._whole:
            await self._fetch_lanes(connection, None if self._whole else lanes)
            self._whole = False
        if hungry:
            self._step *= 2

    async def _fetch_lanes(self, connection: Any, lanes: list[Source] | None) -> None:
        where = self._where
        rows = await connection.fetch(
            schemas.call("list_lanes", 10, self._schema),
            where.queue, where.state, where.task, where.tag, *self._text,
            None if lanes is None else [source.name for source in lanes],
            None if lanes is None else [source.before[0] for source in lanes if source.before],
            self._step, FEW_ROWS,
        )  # fmt: skip
        if lanes is None:
            lanes = [Source(row["lane"]) for row in rows]
            self._sources += lanes
        fetched = {row["lane"]: row for row in rows}
        for source in lanes:
            row = fetched.get(source.name)
            source.feed(_in_lane(row) if row else [], bool(row and row["more"]))

    async def _fetch_aside(self, connection: Any, sources: Sequence[Source]) -> None:
        where = self._where
        each = max(self._step // len(sources), 2 * FEW_ROWS)
        rows = await connection.fetch(
            schemas.call("list_aside", 10, self._schema),
            where.queue, where.task, where.tag, *self._text,
            [source.name for source in sources],
            [EPOCH + timedelta(microseconds=s.before[0]) if s.before else END for s in sources],
            [source.before[1] if source.before else _HIGHEST for source in sources],
            each, where.error,
        )  # fmt: skip
        fetched: dict[Name, list[Looked]] = {source.name: [] for source in sources}
        counts: dict[Name, int] = {}
        for kind, id, enqueued_at, fits, rank in rows:
            place = ((enqueued_at - EPOCH) // timedelta(microseconds=1), id)
            row = Looked(enqueued_at.timestamp(), place, fits, rank - counts.get(kind, 0))
            fetched[kind].append(row)
            counts[kind] = rank
        for source in sources:
            source.feed(fetched[source.name], counts.get(source.name, 0) == each)

    async def _judge(
        self, connection: Any, passed: Sequence[tuple[Source, Looked]]
    ) -> dict[tuple[Name, Place], Any]:
        """Return the jobs that the filter finds, as the job view shows them."""
        state = self._where.state
        lanes: list[int] = []
        seqs: list[int] = []
        aside: dict[str, dict[int, tuple[Name, Place]]] = {table: {} for _, table in ASIDE.values()}
        for source, row in passed:
            if not row.fits:
                continue
            if isinstance(source.name, int):
                lanes.append(source.name)
                seqs.append(row.place[0])
            else:
                aside[ASIDE[source.name][1]][row.place[1]] = (source.name, row.place)
        shown: dict[tuple[Name, Place], Any] = {}
        if seqs:
            judged = schemas.call("list_judged", 3, self._schema)
            for job in await connection.fetch(judged, lanes, seqs, state):
                shown[(job["lane"], (job["seq"], 0))] = job
        if any(aside.values()):
            found = schemas.call("list_found", 4, self._schema)
            where_from = {id: place for places in aside.values() for id, place in places.items()}
            for job in await connection.fetch(found, *(list(ids) for ids in aside.values())):
                shown[where_from[job["id"]]] = job
        # Those that run and those that split stand in the same places.
        return {place: job for place, job in shown.items() if job["state"] in self._states}


def _in_lane(row: Any) -> list[Looked]:
    """The rows of a lane. One that brought its wait along stands there with a time older than that of those
    behind it; it counts as being as new as these, so that it does not hold them up."""
    times = list(accumulate(reversed(row["times"]), max))[::-1]
    ranks = row["ranks"]
    found = [
        Looked(at, (seq, 0), True, rank - before)
        for at, seq, rank, before in zip(times, row["seqs"], ranks, [0, *ranks[:-1]], strict=True)
    ]
    found[-1] = found[-1]._replace(fits=row["fits"])
    return found
