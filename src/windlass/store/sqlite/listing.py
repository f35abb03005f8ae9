"""Looking: a job by its id, the counts of queues, and pages of jobs, newest first. Nothing here writes, and
nothing here waits for a writer.

A page costs a bounded amount of work, whatever it asks for. Rare states have an index, running jobs are found
through the open claims, and everything else by walking the inserts backwards, merged with the jobs that have
moved since. A page that has looked at enough rows ends early, perhaps empty, with a cursor to go on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from typing import Any, Final, NamedTuple, TypeVar

import apsw
import msgspec

from windlass.core.flow import gates
from windlass.core.ids import SEQ_BITS
from windlass.core.json_text import contains
from windlass.core.states import FINISHED, State
from windlass.errors import JobNotFound
from windlass.store.records import (
    Checkpoint,
    Depth,
    JobFilter,
    JobRecord,
    KeptResult,
    Matches,
    Page,
    Progress,
)
from windlass.store.sqlite import rows
from windlass.store.sqlite.durable import waiting
from windlass.store.sqlite.rows import encode, failures, fetch, last_error, readable_options, record_of
from windlass.store.sqlite.schema import Statements

_SQL = Statements("listing")
OLDEST_AMONG: Final = 1_000
"""Jobs at the head of a lane that are looked at for the oldest."""

MAX_GATED: Final = 1_000
"""Jobs at gates that are counted one by one."""
_NO_PARTS: Final = (0, 0, None)
_CLAIM: Final = ("claim", "worker", "claimed_at")

Found = tuple[Any, ...]


class Seen(NamedTuple):
    """A job row as readers see it, with what its lane says about it."""

    number: int
    pos: int
    own_id: int | None
    state_number: int
    touched_at: float
    enqueued_at: float
    attempt: int
    deaths: int
    task: str
    payload: str
    options: str | None
    run_at: float | None
    cancel: int | None
    reason: str | None
    errors: str | None
    result: str | None
    queue: str
    priority: int
    hi: int
    gate: str | None
    progress: str | None

    @property
    def id(self) -> int:
        """Its place, unless it was given an id before it had one."""
        return self.pos if self.own_id is None else self.own_id

    @property
    def state(self) -> State:
        """The public state; the cursor of its lane tells ready from running."""
        if self.state_number not in rows.OFFERED:
            return rows.STATES[self.state_number]
        if self.pos > self.hi:
            return State.READY
        return State.SPLITTING if readable_options(self.options).chunked else State.RUNNING


def job(connection: apsw.Connection, job: int) -> JobRecord | None:
    """The job with this id in whatever state, or None."""
    seen = seen_job(connection, job)
    return _record(connection, seen) if seen is not None else None


def seen_job(connection: apsw.Connection, id: int) -> Seen | None:
    """The row of the job with this id."""
    if not 0 < id < 1 << 63:
        return None
    found = connection.execute(_SQL["job"], (id, id)).fetchone()
    return Seen(*found) if found else None


def finished_job(connection: apsw.Connection, id: int) -> JobRecord | None:
    """The job if it has ended, None if it has not. Raises JobNotFound."""
    found = job(connection, id)
    if found is None:
        raise JobNotFound(f"there is no job {id}: it never existed, was deleted, or its retention has passed")
    return found if found.state in FINISHED else None


def _record(connection: apsw.Connection, seen: Seen) -> JobRecord:
    """A job with everything the store knows about it."""
    id, ended, state = seen.id, seen.state_number in rows.ENDED, seen.state
    row, claim = seen._asdict(), None
    if (ended and seen.pos >> SEQ_BITS) or state in (State.RUNNING, State.SPLITTING):
        claim = connection.execute(_SQL["claim_of"], (seen.pos,)).fetchone()
    row.update(dict.fromkeys(_CLAIM) if claim is None else zip(_CLAIM, claim, strict=True))
    reason = seen.reason
    if seen.state_number == rows.SCHEDULED and seen.run_at is None:
        reason, row["run_at"] = _awaits(connection, id)
    elif seen.state_number == rows.SCHEDULED:
        reason = reason or waiting.reason(connection, id)
    elif seen.state_number == rows.HELD:
        reason = gates.reason(seen.gate or gates.FAIR)
    checkpoint = None if ended else checkpoints(connection, [id]).get(id)
    computed: dict[str, Any] = {} if seen.progress is not None else {"progress": Progress.of(checkpoint)}
    return record_of(
        JobRecord,
        row,
        id=id,
        state=state,
        finished_at=seen.touched_at if ended else None,
        cancel_requested=seen.cancel is not None,
        reason=reason,
        checkpoint=checkpoint,
        **computed,
    )


def _awaits(connection: apsw.Connection, job: int) -> tuple[str | None, float | None]:
    """Say in words what a scheduled job without a run_at waits for, and when it may run after that."""
    ((first, count, run_at),) = fetch(connection, _SQL["awaited_by"], (job,))
    if not count:
        return None, None
    if connection.execute(_SQL["is_open"], (job,)).fetchone():
        return "its group is open for more jobs", run_at
    others = "" if count == 1 else f" and {count - 1} other{'s' if count > 2 else ''}"
    return f"waits for job {first}{others}", run_at


def checkpoints(connection: apsw.Connection, jobs: Sequence[int]) -> dict[int, Checkpoint]:
    """The checkpoints of these jobs, for those that have one."""
    wanted = encode([job for job in jobs if 0 < job < 1 << 63]).decode()
    found = connection.execute(_SQL["checkpoints"], (wanted,))
    return {job: Checkpoint(data, done, total, at) for job, data, done, total, at in found}


def results(connection: apsw.Connection, jobs: Sequence[int]) -> dict[int, KeptResult]:
    """How these jobs stand and what they returned, for those that are there [W4]."""
    found = ((job, seen_job(connection, job)) for job in jobs)
    return {job: KeptResult(seen.task, seen.state, seen.result) for job, seen in found if seen is not None}


def depth(connection: apsw.Connection, now: float, queues: Sequence[str] | None = None) -> dict[str, Depth]:
    """The counts of queues, summed up over their lanes."""
    known: dict[str, Depth] = {}
    parts = {lane: counts for lane, *counts in fetch(connection, _SQL["pending_parts"])}
    gated = _Gated(connection)
    for queue, lane, needs, *counts in fetch(connection, _SQL["depth"]):
        if queues is None or queue in queues:
            mine = _lane_depth(connection, lane, counts, parts.get(lane, _NO_PARTS), gated, now)
            if needs and counts[0]:
                mine = msgspec.structs.replace(mine, needs={needs: counts[0]})
            known[queue] = _sum(known[queue], mine) if queue in known else mine
    return known if queues is None else {name: known.get(name, Depth()) for name in queues}


def waited(connection: apsw.Connection, now: float, queue: str) -> float:
    """How long the oldest ready job of a queue has waited; parts that are not offered yet do not count."""
    lanes = [lane for (lane,) in fetch(connection, _SQL["busy_lanes"], (queue,))]
    return max(
        (now - connection.execute(_SQL["oldest"], (lane, OLDEST_AMONG)).get for lane in lanes), default=0.0
    )


class _Gated:
    """How many of the jobs that are held stand at gates, by lane. Where those are many, the others are
    counted instead, which wait for the turn of their fair key: seldom are there many of both."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._few: Counter[int] | None = None

    def of(self, lane: int, held: int) -> int:
        if self._few is None:
            self._few = Counter(lane for (lane,) in fetch(self._connection, _SQL["gated"], (MAX_GATED + 1,)))
        if self._few.total() <= MAX_GATED:
            return self._few[lane]
        return held - int(self._connection.execute(_SQL["in_ring"], (lane,)).get)


def _lane_depth(
    connection: apsw.Connection, lane: int, counts: list[int], parts: Sequence[Any], gated: _Gated, now: float
) -> Depth:
    """The counters of a lane, and the age of its oldest ready job among the first of the lane. A job that a
    gate let in late may stand behind younger ones. Who is put into a lane draws a place."""
    ready, held, running, scheduled, retrying, dead, drawn = counts
    pending, free_parts, split_at = parts
    times = [] if split_at is None else [split_at]
    if ready + held:
        times.append(connection.execute(_SQL["oldest"], (lane, OLDEST_AMONG)).get)
    return Depth(
        ready=ready + held + pending,
        running=running,
        scheduled=scheduled,
        retrying=retrying,
        dead=dead,
        oldest=now - min(times) if times else None,
        offered=drawn,
        pending_parts=pending,
        free=ready + (held - gated.of(lane, held) if held else 0) + free_parts,
    )


def _sum(one: Depth, other: Depth) -> Depth:
    ages = [depth.oldest for depth in (one, other) if depth.oldest is not None]
    counted = [name for name in Depth.__struct_fields__ if name not in ("oldest", "estimate", "needs")]
    counts = {name: getattr(one, name) + getattr(other, name) for name in counted}
    needs = dict(Counter(one.needs) + Counter(other.needs))
    return Depth(**counts, oldest=max(ages, default=None), needs=needs)


# -- pages ---------------------------------------------------------------------------------------------------

T = TypeVar("T")
MAX_ROWS: Final = 5_000
MAX_INSERTS: Final = 5_000
"""How many inserts a page goes through: of some, all jobs have moved."""
LONGEST: Final = 1.0
"""Seconds that looking for all that matches may take: other reads of this process wait for it."""
_NEWEST: Final = (1 << 63) - 1
_ASIDE: Final = {
    State.DEAD: rows.DEAD,
    State.CANCELLED: rows.CANCELLED,
    State.SCHEDULED: rows.SCHEDULED,
    State.RETRYING: rows.RETRYING,
    State.WAITING: rows.WAITING,
}


def jobs(
    connection: apsw.Connection,
    where: JobFilter,
    limit: int = 50,
    cursor: str | None = None,
    within: float = 0.0,
) -> Page:
    """A page of jobs."""
    return Page(*_walked(connection, where, limit, cursor, within, lambda seen: _record(connection, seen)))


def matches(
    connection: apsw.Connection,
    where: JobFilter,
    most: int,
    cursor: str | None = None,
    within: float | None = None,
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
        some, cursor, count, at = _step(connection, where, most - len(found), cursor, made)
        found += some
        looked += count
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
        seen = Seen(*found)
        fits = _matches(seen, where)
        if last is not None and (looked >= MAX_ROWS or (fits and len(page) >= limit)):
            return page, str(last.number), looked, last.enqueued_at
        if fits:
            page.append(made(seen))
        looked, last = looked + 1, seen
    return page, None, looked, last.enqueued_at if last else None


def _number(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 20 and 0 < int(cursor) < _NEWEST):
        raise ValueError(f"{cursor[:80]!r} is not a cursor of this store; take it from a page of jobs")
    return int(cursor)


def _matches(seen: Seen, where: JobFilter) -> bool:
    return (
        where.queue in (None, seen.queue)
        and where.task in (None, seen.task)
        and where.state in (None, seen.state)
        and (where.tag is None or where.tag in readable_options(seen.options).tags)
        and (where.text is None or contains(seen.payload, where.text) or _failed_with(seen, where.text))
        and (where.error is None or where.error == last_error(seen.errors))
    )


def _failed_with(seen: Seen, text: str) -> bool:
    kept = failures(seen.errors) if seen.state in (State.DEAD, State.RETRYING) else ()
    return bool(kept) and contains(f"{kept[-1].type}: {kept[-1].message}", text)


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
    if state is State.READY and connection.execute(_SQL["count_ready"]).get <= MAX_ROWS:
        return _merged(connection, (_SQL["ready"], (before,)), (_SQL["aside"], (rows.HELD, before)))
    return _merge(connection.execute(_SQL["moved"], (before,)), _not_moved(connection, before))


def _not_moved(connection: apsw.Connection, before: int) -> Iterator[Found]:
    """Jobs that stand where they were inserted. Where there are more inserts than may be looked at, the last
    that was comes at the end, as number and time: a floor."""
    floor = connection.execute(_SQL["floor"], (before, MAX_INSERTS)).fetchone()
    yield from connection.execute(_SQL["not_moved"], (before, floor[0] if floor else 0, before))
    if floor:
        yield floor


def _merged(connection: apsw.Connection, *sources: tuple[str, tuple[int, ...]]) -> Iterator[Found]:
    """Several statements, each newest first, as one."""
    return _merge(*(connection.execute(sql, bindings) for sql, bindings in sources))


def _merge(*sources: Iterable[Found]) -> Iterator[Found]:
    """Several sources as one, by their first column, the number; of those with the same, the first first."""
    return merge(*sources, key=lambda found: found[0], reverse=True)
