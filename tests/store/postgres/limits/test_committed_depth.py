"""[S2] [F4] [F5] Only what has committed counts where a queue refuses, sheds, or has room: a bulk that
somebody may yet roll back is nobody else's business."""

import pytest

from tests.store.postgres.kit import Base, Session
from windlass.errors import QueueFull, Shed
from windlass.store.records import NewJob

BULK = "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', array_fill('{}'::text, ARRAY[$2::int]))"


def job(base: Base) -> NewJob:
    """A job of the test's queue."""
    return NewJob(task="t", payload="{}", queue=base.queue)


async def bulk(base: Base, n: int) -> Session:
    """An open transaction that has enqueued so many."""
    producer = await base.session()
    await producer.begin()
    await producer.run(BULK, base.queue, n)
    return producer


@pytest.mark.parametrize("n", [20, 5000])
async def test_an_open_bulk_fills_no_queue(base: Base, n: int) -> None:
    """[F4] QueueFull was raised for jobs that somebody else had not committed; when they have, it is."""
    store = await base.store()
    await base.lane()
    producer = await bulk(base, n)
    await store.set_queue(base.queue, {"max_depth": n})
    assert len(await store.enqueue([job(base)] * 2)) == 2
    await store.promote()
    (queue,) = [each for each in await store.queues() if each.name == base.queue]
    assert (queue.pressure, queue.refused) == ("none", 0)
    await producer.commit()
    with pytest.raises(QueueFull, match=f"{n + 2:,} jobs are ready"):
        await store.enqueue([job(base)] * 2)


@pytest.mark.parametrize("n", [20, 5000])
async def test_an_open_bulk_sheds_nothing(base: Base, n: int) -> None:
    """[F5] The same for load."""
    store = await base.store()
    await base.lane()
    producer = await bulk(base, n)
    await store.set_queue(base.queue, {"shed_depth": n})
    assert len(await store.enqueue([job(base)] * 2)) == 2
    await producer.commit()
    with pytest.raises(Shed):
        await store.enqueue([job(base)] * 2)


async def test_a_full_queue_stays_full_beside_an_open_bulk(base: Base) -> None:
    """[F4] What has committed is counted, not guessed, where a limit is small."""
    store = await base.store()
    await store.enqueue([job(base)] * 10)
    await bulk(base, 5000)
    await store.set_queue(base.queue, {"max_depth": 10})
    with pytest.raises(QueueFull):
        await store.enqueue([job(base)] * 2)


async def test_a_producer_counts_its_own_jobs(base: Base) -> None:
    """[F4] They are visible to it, and a loop in one transaction must come to an end, too."""
    store = await base.store()
    await base.lane()
    await store.set_queue(base.queue, {"max_depth": 10})
    producer = await bulk(base, 10)
    with pytest.raises(QueueFull):
        await store.enqueue([job(base)], connection=producer.connection)


async def test_rolled_back_jobs_do_not_fill_a_paused_queue(base: Base) -> None:
    """[F4] Nobody claims from it, so nobody passes the numbers that they burnt."""
    store = await base.store()
    await base.lane()
    await store.set_queue(base.queue, {"max_depth": 10, "paused": True})
    await (await bulk(base, 10)).rollback()
    assert len(await store.enqueue([job(base)] * 2)) == 2


async def test_an_open_bulk_keeps_no_fair_job_aside(base: Base) -> None:
    """[C3] The window of a lane counted numbers that nobody could claim."""
    lane, worker = await base.lane(), await base.worker()
    await bulk(base, 1500)
    ids = [await base.look.enqueue(fair_key=key) for key in "abc"]
    assert await base.look.value("SELECT windlass.admit_ring($1, 2::smallint, 100)", base.queue) == 3
    assert (await base.claim(lane, worker)).ids == ids


async def test_a_queue_stays_full_when_an_epoch_begins(alone: Base) -> None:
    """[F4] [S3] Half a billion numbers lie between its jobs and the next one then. All places that were
    looked at lay among them, so that a queue with any max_depth above 1,000 took whatever came."""
    store = await alone.store()
    await store.enqueue([job(alone)] * 3000)
    await store.set_queue(alone.queue, {"max_depth": 2000})
    for _ in range(2):
        await alone.look.run("SELECT windlass.adopt()")
        await alone.look.run(BULK[:-1] + ", p_judge => false)", alone.queue, 100)
    with pytest.raises(QueueFull) as refused:
        await store.enqueue([job(alone)] * 2)
    assert "3,200 jobs are ready" in str(refused.value)
