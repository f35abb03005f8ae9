"""The walk of a listing on PostgreSQL: what it shows is what the job view shows, read by index, a little at a
time [M3] [rule 8]."""

import base64
import re
from collections.abc import Sequence

import msgspec
import pytest

from tests.conformance.kit import Rig, failure
from tests.stock import BOTH
from tests.store.postgres.kit import Base, Session
from tests.store.postgres.plans import explained, plans
from windlass.core.states import Kind, State
from windlass.store.postgres.listing_walk import FIRST_ROWS, MAX_ROWS, Walk
from windlass.store.postgres.rows import record_of
from windlass.store.records import JobFilter, JobRecord

pytestmark = BOTH

VIEW = """
SELECT * FROM windlass.job
 WHERE ($1::text IS NULL OR queue = $1) AND ($2::text IS NULL OR state = $2)
   AND ($3::text IS NULL OR task = $3)
"""
TABLES = re.compile(r"((ready|claim|outcome)_\d|deferred|held|dead|parent)")
FILTERS = [
    JobFilter(),
    *(JobFilter(state=state) for state in State),
    JobFilter(queue="default"),
    JobFilter(queue="default", state=State.DEAD),
    JobFilter(task="nobody"),
    JobFilter(text="nothing"),
]


async def world(base: Base) -> Rig:
    """A store with jobs in every state, on every road that leads there, over several segments."""
    rig = Rig(await base.store(), await base.clock(), "postgres")
    worker, doomed = await rig.worker(), await rig.worker()
    for state in State:
        if state not in (State.READY, State.WAITING):
            await rig.bring(state, worker, task=f"{state}")
    for kind in (Kind.RETRY, Kind.RELEASED, Kind.SNOOZE):  # offered again: two rows in the lane
        (id,) = await rig.add(f"again {kind}".replace(" ", "."))
        await rig.finish(worker, await rig.run(worker, id), kind, error=failure())
        await rig.finish(worker, await rig.claim(worker))
    await rig.store.rotate(force=True)

    # Parents: one that waits, and one of each end.
    for end in (None, Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED):
        await rig.parent(worker, parts=2)
        parts = await rig.claim(worker)
        if end is not None:
            await rig.finish(worker, parts, end)
            await rig.store.promote()
    await rig.clock.advance(5)
    await rig.store.rotate(force=True)

    # Waiting jobs that end where they stand, ahead of the cursor or put off; and dead ones offered again.
    ids = await rig.add(*["waits"] * 8, queue="other")
    later = [(await rig.one("later", delay=3600)).id for _ in range(3)]
    await rig.store.cancel([ids[1], ids[2], ids[5], later[0]])
    await rig.store.delete([ids[3], later[1]])
    (corpse,) = await rig.add("corpse")
    await rig.finish(worker, await rig.run(worker, corpse), Kind.DEAD, error=failure())
    await rig.store.retry([corpse])
    await rig.one("held", fair_key="k", queue="fair")
    for _ in range(2):
        await rig.one("ordered", ordering_key="o", queue="other")
    await rig.add("doomed", "doomed", queue="grave")
    await rig.claim(doomed, "grave")
    await rig.die(doomed)
    await rig.add("taken", "taken", "taken", queue="other", priority=0)
    await rig.finish(worker, (await rig.claim(worker, "other", limit=2))[:1])

    # Succeeded jobs that are no longer shown.
    await rig.add("short", "short", queue="short")
    await rig.finish(worker, await rig.claim(worker, "short", limit=1))
    await rig.store.set_queue("short", {"retention": 1.0})
    await rig.clock.advance(2)
    return rig


async def holes(base: Base, rig: Rig) -> None:
    """A claim passes numbers of two producers; one of them commits since, the other one does not."""
    worker, lane = await rig.worker(), await base.lane()
    early, late = await base.sessions(2)
    await early.begin()
    await late.begin()
    await early.enqueue("early")
    await late.enqueue("late")
    await base.look.enqueue("passes")
    assert len((await base.claim(lane, worker)).jobs) == 1
    await early.commit()


async def walked(rig: Rig, where: JobFilter, size: int) -> list[JobRecord]:
    """Every job of a walk, in pages of this size."""
    found: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = await rig.store.jobs(where, size, cursor)
        assert len(page.jobs) <= size
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found


def plain(jobs: Sequence[JobRecord]) -> dict[int, JobRecord]:
    """By id, without what hangs on jobs; none of them twice."""
    by_id = {
        job.id: msgspec.structs.replace(job, errors=(), result=None, checkpoint=None, cancel_requested=False)
        for job in jobs
    }
    assert len(by_id) == len(jobs), "a job is shown twice"
    return by_id


async def test_a_whole_walk_shows_what_the_view_shows(alone: Base) -> None:
    """[M3] Each job once, whatever its state and whichever road led there, by any filter."""
    rig = await world(alone)
    await holes(alone, rig)
    seen: set[State] = set()
    for queue in (None, "default", "other", alone.queue):
        for state in (None, *State):
            rows = await alone.look.rows(VIEW, queue, state, None)
            expected = plain([record_of(JobRecord, row) for row in rows])
            size = 1 if queue == "other" else 7 if state is None else 50
            assert plain(await walked(rig, JobFilter(queue=queue, state=state), size)) == expected, (
                queue,
                state,
            )
            seen |= {job.state for job in expected.values()}
    assert seen == set(State)
    for task in ("waits", "doomed", "short", "nobody"):
        rows = await alone.look.rows(VIEW, None, None, task)
        assert plain(await walked(rig, JobFilter(task=task), 50)) == plain(
            [record_of(JobRecord, row) for row in rows]
        )


async def test_a_cursor_outlives_lanes_and_kinds_it_does_not_know(alone: Base) -> None:
    """[M3] A cursor of another filter, or of another version, is no error."""
    store = await alone.store()
    lane = await alone.lane()
    job = await alone.look.enqueue()
    seen = base64.urlsafe_b64encode(msgspec.msgpack.encode([{lane: 5, 77: 3}, {"later": [1, 2]}])).decode()
    assert [found.id for found in (await store.jobs(JobFilter(), 5, seen)).jobs] == [job]
    page = await store.jobs(JobFilter(state=State.DEAD), 5, seen)
    assert (page.jobs, page.cursor) == ([], None)


async def fill(base: Base, n: int) -> None:
    """Jobs in one lane, half of them ended, and some dead and put off."""
    lane, worker = await base.lane("default"), await base.worker()
    await base.look.run(
        "SELECT windlass.enqueue_many('default', 2::smallint, '{t}', array_fill('{}'::text, ARRAY[$1::int]))",
        n,
    )
    held = (await base.claim(lane, worker, n // 2)).jobs
    await base.finish(worker, held[10:-200])
    await base.finish(worker, held[-200:-100], Kind.DEAD)
    await base.finish(worker, held[-100:], Kind.RETRY, delay=3600.0)


async def check(session: Session) -> None:
    """A page by each filter: index scans only, and no more rows than a call may look at."""
    for where in FILTERS:
        picky = where.task or where.text or where.state in (State.CANCELLED, State.SPLITTING)
        most = 2 * MAX_ROWS if picky else FIRST_ROWS
        async with plans(session) as found:
            await Walk("windlass", where, 10, None).run(session.connection)
        scans = found.scans(TABLES)
        assert scans, where
        assert {scan.kind for scan in scans} <= {"Index Scan", "Index Only Scan"}, (where, scans)
        for scan in scans:
            assert scan.touched <= most, (where, scan)


async def test_a_page_is_read_by_index_however_much_there_is(alone: Base) -> None:
    """[rule 8] One session from the empty tables on, and one that is new at each size."""
    cached = await alone.session()
    await explained(cached)
    await alone.lane("default")
    for n in (0, 1_000, 5 * FIRST_ROWS):
        if n:
            await fill(alone, n)
        new = await alone.session()
        await explained(new)
        await check(cached)
        await check(new)


@pytest.mark.parametrize(
    "wrong", [[{}, {}, 1], [{"x": 1}, {}], [{1: -1}, {}], [{}, {"dead": [1 << 60, 1]}], 7]
)
async def test_a_cursor_with_wrong_numbers_is_refused(base: Base, wrong: object) -> None:
    """[M3]"""
    store = await base.store()
    with pytest.raises(ValueError, match="not a cursor"):
        await store.jobs(JobFilter(), 5, base64.urlsafe_b64encode(msgspec.msgpack.encode(wrong)).decode())
