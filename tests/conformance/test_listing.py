"""Lookup, listing and waiting for an end [O8] [M3]."""

import asyncio

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.errors import JobNotFound, ResultTimeout
from windlass.store.records import JobFilter

ALONE = [state for state in State if state is not State.WAITING]
"""A parent that waits is never alone: its parts are listed with it (see test_split)."""


async def test_an_unknown_job_is_none(rig: Rig) -> None:
    """[M3]"""
    assert await rig.store.job(987654321) is None
    assert await rig.store.job(2**62 + 5) is None


@pytest.mark.parametrize("state", ALONE)
async def test_every_state_is_found_and_listed(rig: Rig, state: State) -> None:
    """[M3] Lookup and listing tell the same story."""
    id = await rig.bring(state, await rig.worker())
    record = await rig.look(id)
    assert record.state is state
    assert await rig.listing() == [record]
    assert await rig.listing(state=state) == [record]
    for other in set(State) - {state}:
        assert await rig.listing(state=other) == []


async def test_newest_first_page_by_page(rig: Rig) -> None:
    """[M3] Every job once, in order, also where the last page is full."""
    ids = await rig.add(*(["t"] * 12))
    seen: list[int] = []
    cursor: str | None = None
    for _ in range(10):
        page = await rig.store.jobs(JobFilter(), 4, cursor)
        seen += [record.id for record in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == ids[::-1]


async def test_newest_first_over_queues_and_states(rig: Rig) -> None:
    """[M3] By the time of enqueue, wherever a job stands."""
    worker = await rig.worker()
    expected: list[int] = []
    for state in [state for state in ALONE if state is not State.READY]:
        expected.append(await rig.bring(state, worker))
        await rig.clock.advance(1)
    expected += await rig.add("t", queue="other")
    await rig.clock.advance(1)
    expected.append((await rig.one(fair_key="f")).id)
    assert [record.id for record in await rig.listing()] == expected[::-1]


async def test_pages_cross_states(rig: Rig) -> None:
    """[M3] A page break between jobs of different states loses none."""
    worker = await rig.worker()
    ids: list[int] = []
    for _ in range(3):
        for state in (State.DEAD, State.SUCCEEDED, State.SCHEDULED):
            ids.append(await rig.bring(state, worker))
            await rig.clock.advance(1)
    for size in (1, 2, 4):
        seen: list[int] = []
        cursor: str | None = None
        while True:
            page = await rig.store.jobs(JobFilter(), size, cursor)
            seen += [record.id for record in page.jobs]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == ids[::-1]


async def test_a_listing_goes_on_while_jobs_come(rig: Rig) -> None:
    """[M3] New jobs are newer than the first page; they do not shift the others."""
    ids = await rig.add("a", "b", "c", "d")
    page = await rig.store.jobs(JobFilter(), 2)
    await rig.clock.advance(1)
    await rig.add("new")
    rest = await rig.store.jobs(JobFilter(), 10, page.cursor)
    assert [record.id for record in [*page.jobs, *rest.jobs]] == ids[::-1]


async def test_filters(rig: Rig) -> None:
    """[M3] Queue, task, state and tag, alone and together."""
    await rig.add("a", queue="one", tags=("red", "big"))
    await rig.add("b", queue="one", tags=("blue",))
    await rig.add("a", queue="two", tags=("red",))
    await rig.one("a", queue="two", delay=60)

    async def count(**filters: object) -> int:
        return len(await rig.listing(**filters))

    assert await count(queue="one") == 2
    assert await count(task="a") == 3
    assert await count(tag="red") == 2
    assert await count(tag="big", queue="one", task="a", state=State.READY) == 1
    assert await count(queue="two", state=State.SCHEDULED) == 1
    assert await count(tag="re") == 0
    assert await count(queue="three") == 0


async def test_an_empty_store_has_one_empty_page(rig: Rig) -> None:
    """[M3]"""
    page = await rig.store.jobs(JobFilter())
    assert (page.jobs, page.cursor) == ([], None)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.DEAD, State.CANCELLED])
async def test_waiting_for_one_that_has_ended_returns_at_once(rig: Rig, state: State) -> None:
    """[O8]"""
    id = await rig.bring(state, await rig.worker())
    assert (await rig.store.wait_finished(id, 0)).state is state


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED])
async def test_waiting_for_the_end(rig: Rig, kind: Kind) -> None:
    """[O8] The waiter hears of it, with the result."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    waiter = asyncio.create_task(rig.store.wait_finished(id, 30))
    await asyncio.sleep(0)
    await rig.finish(worker, job, kind, result='"r"' if kind is Kind.SUCCEEDED else None)
    record = await waiter
    assert record.id == id
    assert record.state is State(kind.value)
    assert record.result == ('"r"' if kind is Kind.SUCCEEDED else None)


async def test_a_failed_attempt_is_not_the_end(rig: Rig) -> None:
    """[O8] The waiter sleeps on through a retry, and through the cancel of another job."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    waiter = asyncio.create_task(rig.store.wait_finished(id, 30))
    await asyncio.sleep(0)
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY)
    await rig.store.cancel([(await rig.one(queue="other")).id])
    assert not waiter.done()
    await rig.store.cancel([id])
    assert (await waiter).state is State.CANCELLED


async def test_waiting_in_vain(rig: Rig) -> None:
    """[O8]"""
    (id,) = await rig.add("t")
    with pytest.raises(ResultTimeout):
        await rig.store.wait_finished(id, 0.01)


async def test_waiting_for_nobody(rig: Rig) -> None:
    """[O8]"""
    with pytest.raises(JobNotFound):
        await rig.store.wait_finished(987654321, 5)


async def test_waiting_for_one_that_is_deleted(rig: Rig) -> None:
    """[O8] There is nothing left to wait for, and the waiter is told."""
    (id,) = await rig.add("t")
    waiter = asyncio.create_task(rig.store.wait_finished(id, 30))
    await asyncio.sleep(0)
    await rig.store.delete([id])
    with pytest.raises(JobNotFound):
        await waiter
