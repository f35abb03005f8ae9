"""Firing a schedule is one transaction: of two who try, one does, and nothing is left half-done [K4] [K3]."""

import asyncio
from typing import Any

import pytest

from tests.store.postgres.kit import Base, Session
from windlass.errors import StoreUnavailable, TermLost
from windlass.store.records import NewJob, NewSchedule, Options

FIRE = "SELECT * FROM windlass.fire_schedule($1, $2, $3, $4, $5, 0, NULL)"


async def a_schedule(base: Base, **fields: Any) -> float:
    """A schedule named like the test's queue, and when it is due: now."""
    store = await base.store()
    now = await store.now()
    await store.seed_schedule(
        NewSchedule(name=base.queue, cron="* * * * *", task="t", queue=base.queue, **fields), now
    )
    return now


async def fire(session: Session, base: Base, expected: float | None, term: int | None = None) -> Any:
    """Fire it for the time it is due at."""
    return await session.row(FIRE, term, base.queue, expected, [expected or 0.0], (expected or 0.0) + 60)


async def test_of_two_that_fire_at_once_one_does(base: Base) -> None:
    """[K4] [S2] [fault 15] The second passes it over meanwhile, and then finds the time taken."""
    due = await a_schedule(base)
    one, two = await base.sessions(2)
    await one.begin()
    assert (await fire(one, base, due))["fired"]
    assert not (await fire(two, base, due))["fired"]
    await one.commit()
    assert not (await fire(two, base, due))["fired"]


async def test_a_fire_that_rolls_back_never_was(base: Base) -> None:
    """[K4] Neither its job nor its state."""
    due = await a_schedule(base)
    one = await base.session()
    await one.begin()
    (job,) = (await fire(one, base, due))["jobs"]
    await one.rollback()
    assert await base.state(job) is None
    store = await base.store()
    record = next(found for found in await store.schedules() if found.name == base.queue)
    assert (record.next_at, record.last_at, record.last_job) == (due, None, None)


async def test_no_term_begins_while_a_fire_is_under_way(alone: Base) -> None:
    """[K3] [fault 15] And the fire of a term that is over is refused, with nothing done."""
    due, clock = await a_schedule(alone), await alone.clock()
    term = await alone.look.value("SELECT windlass.lead(1, 30)")
    one, two = await alone.sessions(2)
    await one.begin()
    assert (await fire(one, alone, due, term))["fired"]
    await clock.advance(31)
    successor = asyncio.create_task(two.value("SELECT windlass.lead(2, 30)"))
    await alone.blocked(two)
    await one.commit()
    assert await successor == term + 1
    store = await alone.store()
    with pytest.raises(TermLost):
        await store.fire(term, alone.queue, due + 60, [due + 60], next_at=due + 120)
    assert await store.fire(term + 1, alone.queue, due + 60, [due + 60], next_at=due + 120) == []


async def test_who_holds_the_key_for_long_holds_up_one_fire_and_no_lane(base: Base) -> None:
    """[K4] [E6] A producer's transaction has the key of the schedule's jobs: the fire gives up after a
    moment, with nothing done, and succeeds when it is free."""
    due = await a_schedule(base, options=Options(unique_key=base.queue), overlap="cancel")
    store = await base.store()
    producer = await base.session()
    await producer.begin()
    held = await producer.enqueue(unique_key=base.queue)
    with pytest.raises(StoreUnavailable):
        await store.fire(None, base.queue, due, [due], next_at=due + 60)
    await producer.commit()
    (receipt,) = await store.fire(None, base.queue, due, [due], next_at=due + 60) or []
    assert (receipt.id, receipt.status) == (held, "skipped")


async def test_an_overlap_is_cancelled_while_its_lane_is_claimed_from(base: Base) -> None:
    """[K4] The fire waits for the lane as any cancel does, and a claim for the fire; neither for the
    schedule."""
    due = await a_schedule(base, overlap="cancel")
    store = await base.store()
    (first,) = await store.fire(None, base.queue, due, [due], next_at=due + 60) or []
    lane, worker = await base.lane(), await base.worker()
    one, two = await base.sessions(2)
    await one.begin()
    (second,) = (await fire(one, base, due + 60))["jobs"]
    await two.run("SET lock_timeout = 0")
    claim = asyncio.create_task(base.claim(lane, worker, by=two))
    await base.blocked(two)
    await one.commit()
    assert (await claim).ids in ([second], [])
    assert await base.state(first.id) == "cancelled"


async def test_a_full_queue_takes_the_jobs_of_schedules(base: Base) -> None:
    """[F4] [F5] [K4] Nobody could be told to try again later."""
    due = await a_schedule(base)
    store = await base.store()
    await store.enqueue([NewJob(task="t", payload="{}", queue=base.queue)] * 3)
    await store.set_queue(base.queue, {"max_depth": 1, "shed_depth": 1})
    (receipt,) = await store.fire(None, base.queue, due, [due], next_at=due + 60) or []
    assert receipt.status == "enqueued"
    headers = (await store.job(receipt.id)).options.headers  # type: ignore[union-attr]
    assert set(headers) == {"windlass-schedule", "windlass-scheduled-for"}
