"""Streams: what a job emits while it runs is kept in order, and read from any position [W3]."""

import asyncio
import json
from typing import Any

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.errors import WorkerLost
from windlass.store.records import ClaimedJob, Emits, StreamPage


async def emit(rig: Rig, worker: int, job: ClaimedJob, after: int | None, *values: Any) -> int | None:
    made = Emits(job=job, after=after, n=len(values), events=json.dumps(values))
    (position,) = await rig.store.emit(worker, [made])
    return position


def values(page: StreamPage) -> list[Any]:
    return [value for batch in page.batches for value in json.loads(batch.events)]


async def read(rig: Rig, job: int, after: int = 0) -> StreamPage:
    return await rig.store.wait_stream(job, after, 0.0)


async def test_w3_events_are_read_in_order_from_any_position(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    assert await emit(rig, worker, job, None, "a", {"b": [1, None]}) == 2
    assert await emit(rig, worker, job, 2, "c") == 3
    page = await read(rig, id)
    assert page.state is State.RUNNING
    assert not page.full
    assert values(page) == ["a", {"b": [1, None]}, "c"]
    assert [(batch.first, batch.position, batch.run) for batch in page.batches] == [(1, 2, 1), (3, 3, 1)]
    assert page.batches[0].at == pytest.approx(job.enqueued_at, abs=30)
    assert [batch.position for batch in (await read(rig, id, 1)).batches] == [2, 3]
    assert [batch.position for batch in (await read(rig, id, 2)).batches] == [3]
    assert (await read(rig, id, 3)).batches == []


async def test_w3_one_call_writes_for_many_jobs(rig: Rig) -> None:
    worker = await rig.worker()
    ids = await rig.add("t", "t", "t")
    jobs = [await rig.run(worker, id) for id in ids]
    await rig.finish(worker, jobs[1], Kind.SUCCEEDED)
    emits = [Emits(job=job, after=None, n=1, events=f"[{place}]") for place, job in enumerate(jobs)]
    assert await rig.store.emit(worker, emits) == [1, None, 1]
    assert [values(await read(rig, id)) for id in ids] == [[0], [], [2]]


async def test_w3_what_is_sent_again_is_written_once(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    assert await emit(rig, worker, job, None, "a", "b") == 2
    assert await emit(rig, worker, job, None, "a", "b") == 2
    assert await emit(rig, worker, job, 2, "c") == 3
    assert await emit(rig, worker, job, 2, "c") == 3
    assert values(await read(rig, id)) == ["a", "b", "c"]


async def test_w3_a_run_goes_on_behind_what_it_was_told(rig: Rig) -> None:
    """[S3] Where the server has lost that since. A reader who has seen it misses nothing that follows."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    assert await emit(rig, worker, job, None, "a", "b") == 2
    assert await emit(rig, worker, job, 4, "c") == 5
    assert await emit(rig, worker, job, 4, "c") == 5
    assert values(await read(rig, id, 4)) == ["c"]
    assert values(await read(rig, id)) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.RELEASED])
async def test_w3_the_next_attempt_goes_on_where_the_last_one_stopped(rig: Rig, kind: Kind) -> None:
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await emit(rig, worker, job, None, "a", "b")
    await rig.finish(worker, job, kind)
    again = await rig.run(other, id)
    assert await emit(rig, other, again, None, "c") == 3
    page = await read(rig, id)
    assert values(page) == ["a", "b", "c"]
    assert [batch.attempt for batch in page.batches] == [1, again.attempt]
    assert [batch.run for batch in page.batches] == [1, 2]


async def test_c5_w3_a_worker_that_no_longer_holds_the_job_emits_nothing(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.finish(worker, job, Kind.RELEASED)
    assert await emit(rig, worker, job, None, "late") is None
    again = await rig.run(worker, id)
    assert await emit(rig, worker, job, None, "late") is None
    await rig.store.retire(worker)
    with pytest.raises(WorkerLost):
        await emit(rig, worker, again, None, "late")
    assert values(await read(rig, id)) == []


async def test_w3_the_oldest_go_when_there_are_too_many(rig: Rig) -> None:
    """In pieces; the positions of the others stay."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    after = None
    for place in range(24):
        after = await emit(rig, worker, job, after, *[place] * 1000)
    found: list[tuple[int, Any]] = []
    while (page := await read(rig, id, found[-1][0] if found else 0)).batches:
        found += [(batch.position, json.loads(batch.events)[0]) for batch in page.batches]
    assert found[-1] == (24_000, 23)
    assert [position for position, _ in found] == list(range(found[0][0], 24_001, 1000))
    assert 10_000 <= 24_000 - found[0][0] + 1000 <= 12_500


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED])
async def test_w3_a_stream_stays_with_a_job_that_has_ended(rig: Rig, kind: Kind) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await emit(rig, worker, job, None, "a")
    await rig.finish(worker, job, kind)
    await rig.store.expire()
    page = await read(rig, id)
    assert (values(page), page.state) == (["a"], State(kind.value))


async def test_w3_a_stream_goes_with_its_job_in_bounded_steps(rig: Rig) -> None:
    worker = await rig.worker()
    ids = await rig.add("t", "t")
    jobs = [await rig.run(worker, id) for id in ids]
    for job in jobs:
        after = None
        for _ in range(5):
            after = await emit(rig, worker, job, after, "a")
    await rig.finish(worker, jobs[0], Kind.SUCCEEDED)
    await rig.store.delete([ids[0]])
    assert (await read(rig, ids[0])).state is None
    for _ in range(6):
        await rig.store.expire(limit=2)
    assert (await read(rig, ids[0])).batches == []
    assert len((await read(rig, ids[1])).batches) == 5


async def test_w3_there_is_no_stream_of_a_job_that_never_was(rig: Rig) -> None:
    page = await rig.store.wait_stream(4711, 0, 5.0)
    assert (page.batches, page.state) == ([], None)


async def test_w3_who_waits_is_woken_by_what_comes_and_by_the_end(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    waiting = asyncio.create_task(rig.store.wait_stream(id, 0, 20.0))
    await asyncio.sleep(0)
    await emit(rig, worker, job, None, "a")
    assert values(await waiting) == ["a"]
    waiting = asyncio.create_task(rig.store.wait_stream(id, 1, 20.0))
    await asyncio.sleep(0)
    await rig.finish(worker, job)
    page = await waiting
    assert (page.batches, page.state) == ([], State.SUCCEEDED)


async def test_w3_a_page_is_bounded_and_says_so(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    after = None
    for place in range(70):
        after = await emit(rig, worker, job, after, place)
    first = await read(rig, id)
    assert (len(first.batches), first.full) == (64, True)
    second = await read(rig, id, first.batches[-1].position)
    assert (values(second), second.full) == (list(range(64, 70)), False)
