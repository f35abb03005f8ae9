"""What is told of parents and parts: progress, pages, and for how long [P10] [K6]."""

from itertools import pairwise

import pytest

from tests.conformance.conftest import SETTINGS
from tests.conformance.kit import Rig, failure
from windlass.core.states import Kind, State
from windlass.store.records import Checkpoint, JobFilter


async def test_progress_is_what_parts_have_saved(rig: Rig) -> None:
    """[P10] `done` of their checkpoints, `n` of their data as records; a part that has succeeded is done as a
    whole, one that failed keeps what it had."""
    worker = await rig.worker()
    id = await rig.parent(worker, 4, parallel=3)
    one, two, three = await rig.claim(worker)
    await rig.store.checkpoint(worker, one, Checkpoint('{"n":70,"at":1}', done=7, total=10))
    await rig.store.checkpoint(worker, two, Checkpoint('{"n":20}', done=2, total=10))
    await rig.store.checkpoint(worker, two, Checkpoint('{"n":50}', done=5, total=10))
    await rig.store.checkpoint(worker, three, Checkpoint('"no object"', done=1, total=10))
    parent = await rig.parent_record(id)
    assert (parent.size, parent.done, parent.records) == (40, 13, 120)
    await rig.finish(worker, one)
    await rig.finish(worker, two, Kind.DEAD, error=failure())
    await rig.finish(worker, three, Kind.RETRY, delay=60)
    parent = await rig.parent_record(id)
    assert (parent.size, parent.done, parent.records) == (40, 16, 120)
    assert [(part.done, part.records) for part in await rig.strip(id)] == [(10, 70), (5, 50), (1, 0), (0, 0)]


async def test_data_without_a_whole_number(rig: Rig) -> None:
    """[P10] Counts no records, and is no error."""
    worker = await rig.worker()
    saved = ["[1]", "7", "null", '{"m":3}', '{"n":"3"}', '{"n":1.5}', '{"n":null}', '{"n":true}']
    id = await rig.parent(worker, len(saved))
    jobs = await rig.claim(worker)
    for job, data in zip(jobs, saved, strict=True):
        await rig.store.checkpoint(worker, job, Checkpoint(data))
    parent = await rig.parent_record(id)
    assert (parent.done, parent.records) == (0, 0)
    assert {part.records for part in await rig.strip(id)} == {0}
    await rig.finish(worker, jobs)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.done, parent.records) == (State.SUCCEEDED, 80, 0)


async def test_a_part_tells_how_its_job_stands(rig: Rig) -> None:
    """[P4] [P10] State, job, attempt, and the failure it died of."""
    worker = await rig.worker()
    id = await rig.parent(worker, 5, parallel=4)
    jobs = await rig.claim(worker, limit=3)
    await rig.finish(worker, jobs[0], Kind.DEAD, error=failure("broken line"))
    await rig.finish(worker, jobs[1], Kind.RETRY, delay=60, error=failure("once more"))
    parts = await rig.strip(id)
    assert [part.state for part in parts] == [
        State.DEAD,
        State.RETRYING,
        State.RUNNING,
        State.READY,
        State.WAITING,
    ]
    assert [part.attempt for part in parts] == [1, 2, 1, 1, 0]
    assert [part.job for part in parts][:3] == [job.id for job in jobs]
    assert [part.error for part in parts] == ["ValueError: broken line", None, None, None, None]


async def test_pages_of_parts(rig: Rig) -> None:
    """[P10] By index, from `start` on."""
    worker = await rig.worker()
    id = await rig.parent(worker, 7, parallel=2)
    for start, limit, indexes in ((0, 3, [0, 1, 2]), (3, 3, [3, 4, 5]), (6, 3, [6]), (7, 3, [])):
        page = await rig.store.parts(id, start=start, limit=limit)
        assert [(part.index, part.span) for part in page] == [(index, [index]) for index in indexes]


async def test_the_one_split_last_comes_first(rig: Rig) -> None:
    """[P10] With `active`, only those that have not ended."""
    worker = await rig.worker()
    ids = []
    for parts in (1, 0, 1):
        ids.append(await rig.parent(worker, parts))
        await rig.claim(worker)
        await rig.clock.advance(1)
    await rig.store.promote()
    assert [parent.id for parent in await rig.store.parents()] == ids[::-1]
    assert [parent.id for parent in await rig.store.parents(limit=2)] == [ids[2], ids[1]]
    active = await rig.store.parents(active=True)
    assert [parent.id for parent in active] == [ids[2], ids[0]]
    assert [parent.id for parent in await rig.store.parents(active=True, limit=1)] == [ids[2]]
    assert active[0] == await rig.store.parent(ids[2])
    created = [parent.created_at for parent in await rig.store.parents()]
    assert all(newer > older for newer, older in pairwise(created))


async def test_parts_are_listed_as_jobs(rig: Rig) -> None:
    """[P4] With their parent's id in their options."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2)
    await rig.claim(worker)
    page = await rig.store.jobs(JobFilter(state=State.RUNNING))
    found = {(job.options.part.parent, job.options.part.index) for job in page.jobs if job.options.part}
    assert found == {(id, 0), (id, 1)}


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.CANCELLED, Kind.DEAD])
async def test_a_parent_is_kept_for_its_retention(rig: Rig, kind: Kind) -> None:
    """[K6] The dead for the queue's dead_retention; their parts go with them."""
    worker = await rig.worker()
    await rig.store.set_queue("default", {"dead_retention": 2 * SETTINGS.retention})
    id = await rig.parent(worker, 1, finalizer=True)
    await rig.finish(worker, await rig.claim(worker))
    await rig.store.promote()
    await rig.finish(worker, await rig.claim(worker), kind)
    ended = await rig.parent_record(id)
    assert ended.state == kind.value
    kept = SETTINGS.retention * (2 if kind is Kind.DEAD else 1)
    await rig.clock.advance(kept - 60)
    assert (await rig.store.expire()).parents == 0
    assert await rig.store.parent(id) == ended
    await rig.clock.advance(120)
    assert (await rig.store.expire()).parents == 1
    assert (await rig.store.parent(id), await rig.store.parts(id)) == (None, [])
    assert await rig.state(id) is None
    assert (await rig.store.expire()).parents == 0


async def test_logs_that_turn_take_no_parent_with_them(rig: Rig) -> None:
    """[K6] [P10] Nor its parts, whose jobs may be gone."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2)
    await rig.finish(worker, await rig.claim(worker))
    ended = await rig.parent_record(id)
    await rig.turn()
    assert await rig.store.parent(id) == ended
    assert await rig.states(id) == [State.SUCCEEDED] * 2
    await rig.clock.advance(SETTINGS.retention + 60)
    assert (await rig.store.expire()).parents == 1
    assert (await rig.store.parents(), await rig.listing()) == ([], [])


async def test_a_queue_may_forget_its_parents_sooner(rig: Rig) -> None:
    """[K6]"""
    worker = await rig.worker()
    await rig.store.set_queue("default", {"retention": 600.0})
    id = await rig.parent(worker, 0)
    await rig.parent_record(id)
    await rig.clock.advance(500)
    assert (await rig.store.expire()).parents == 0
    await rig.clock.advance(200)
    assert (await rig.store.expire()).parents == 1
    assert await rig.state(id) is None


async def test_parents_expire_in_bounded_steps(rig: Rig) -> None:
    """[K6] Those that have ended; one that waits stays, however old."""
    worker = await rig.worker()
    for _ in range(3):
        await rig.parent(worker, 0)
    waiting = await rig.parent(worker, 1)
    await rig.store.promote()
    await rig.clock.advance(SETTINGS.retention + 60)
    assert [(await rig.store.expire(limit=2)).parents for _ in range(3)] == [2, 1, 0]
    assert [parent.id for parent in await rig.store.parents()] == [waiting]
    worker = await rig.worker()
    await rig.finish(worker, await rig.claim(worker))
    assert (await rig.parent_record(waiting)).state is State.SUCCEEDED


async def test_rotation_at_every_point_loses_nothing(rig: Rig) -> None:
    """[K6] [P9] While a part waits, runs, has ended, is driven again: counts, spans, key and result."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3, parallel=1, finalizer=True, unique_key="k", payload='["x"]')
    for point, kind in enumerate((Kind.SUCCEEDED, Kind.DEAD, Kind.SUCCEEDED)):
        await rig.turn(10 if point == 0 else 0)
        (job,) = await rig.claim(worker)
        await rig.turn(10 if point == 1 else 0)
        await rig.store.checkpoint(worker, job, Checkpoint('{"n":1}', done=4))
        await rig.finish(worker, job, kind)
        await rig.turn(10 if point == 2 else 0)
        await rig.store.promote()
    await rig.turn()
    parent = await rig.parent_record(id)
    assert (parent.state, parent.succeeded, parent.dead) == (State.DEAD, 2, 1)
    assert (parent.done, parent.records) == (24, 3)
    assert await rig.store.redrive(id) == 1
    await rig.turn()
    (job,) = await rig.claim(worker)
    assert (job.payload, job.options.part and job.options.part.span) == ('["x"]', "[1]")
    assert (await rig.store.checkpoints([job.id]))[job.id].data == '{"n":1}'
    await rig.finish(worker, job)
    await rig.store.promote()
    await rig.turn()
    assert (await rig.one(unique_key="k")).id == id
    (last,) = await rig.claim(worker)
    await rig.finish(worker, last, result="9")
    await rig.store.promote()
    record = await rig.look(id)
    assert (record.state, record.result, record.payload) == (State.SUCCEEDED, "9", '["x"]')
    assert [part.span for part in await rig.strip(id)] == [[0], [1], [2]]


async def test_outcomes_that_turn_before_they_are_folded(rig: Rig) -> None:
    """[K6] [P9] A part may end, and its segment go, before anybody promotes."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3)
    one, two, three = await rig.claim(worker)
    await rig.store.checkpoint(worker, one, Checkpoint('{"n":5}', done=5))
    await rig.finish(worker, one)
    await rig.finish(worker, two, Kind.CANCELLED)
    await rig.finish(worker, three, Kind.DEAD)
    await rig.turn()
    assert await rig.states(id) == [State.SUCCEEDED, State.CANCELLED, State.DEAD]
    parent = await rig.parent_record(id)
    assert (parent.state, parent.done, parent.records) == (State.DEAD, 10, 5)
