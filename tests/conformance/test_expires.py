"""Jobs that have waited too long [E8]: they end visibly, as cancelled, and never run."""

from collections.abc import Awaitable, Callable

import pytest

from tests.conformance.kit import Rig, failure
from windlass.core.expiry import expired_reason
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.records import Outcome

WHY = "expired after 10 m: it waited longer than that"
Place = Callable[[Rig, int], Awaitable[int]]


async def in_its_lane(rig: Rig, worker: int) -> int:
    return (await rig.one(expires=600)).id


async def with_a_unique_key(rig: Rig, worker: int) -> int:
    return (await rig.one(expires=600, unique_key="u")).id


async def behind_a_key(rig: Rig, worker: int) -> int:
    await rig.add("t", concurrency_key="k")
    await rig.claim(worker)
    return (await rig.one(expires=600, concurrency_key="k")).id


async def behind_its_order(rig: Rig, worker: int) -> int:
    await rig.add("t", ordering_key="k")
    await rig.claim(worker)
    return (await rig.one(expires=600, ordering_key="k")).id


async def in_a_new_queue(rig: Rig, worker: int) -> int:
    return (await rig.one(expires=600, queue="nobody-has-heard-of-it")).id


async def after_another(rig: Rig, worker: int) -> int:
    (other,) = await rig.add("t", delay=1e6)
    return (await rig.one(expires=600, after=(other,))).id


PLACES = (in_its_lane, with_a_unique_key, behind_a_key, behind_its_order, in_a_new_queue, after_another)


async def must_have_expired(rig: Rig, id: int) -> None:
    record = await rig.look(id)
    assert (record.state, record.reason) == (State.CANCELLED, WHY)
    assert record.finished_at is not None
    assert [(seen.id, seen.reason) for seen in await rig.listing(state=State.CANCELLED)] == [(id, WHY)]


@pytest.mark.parametrize("place", PLACES)
async def test_it_ends_wherever_it_waits(rig: Rig, place: Place) -> None:
    """[E8] By the coordinator, where nobody claims."""
    worker = await rig.worker()
    id = await place(rig, worker)
    await rig.clock.advance(540)
    await rig.store.promote()
    assert await rig.state(id) in (State.READY, State.SCHEDULED)
    await rig.clock.advance(61)
    await rig.store.promote()
    await must_have_expired(rig, id)
    assert (await rig.depth()).ready == 0


async def test_a_claim_does_not_give_it_out(rig: Rig) -> None:
    """[E8] Also where no coordinator has come by; the ones behind it are given out."""
    worker = await rig.worker()
    (late,) = await rig.add("t", expires=600)
    await rig.clock.advance(601)
    fresh = await rig.add("t", "t", expires=600)
    assert [job.id for job in [*await rig.claim(worker, limit=2), *await rig.claim(worker)]] == fresh
    await must_have_expired(rig, late)


async def test_when_all_have_waited_too_long_nobody_gets_anything(rig: Rig) -> None:
    """[E8]"""
    worker = await rig.worker()
    ids = await rig.add("t", "u", "t", expires=600)
    await rig.clock.advance(601)
    assert await rig.claim(worker) == []
    assert {(await rig.look(id)).reason for id in ids} == {WHY}
    assert (await rig.depth()).ready == 0


async def test_those_that_ran_in_time_keep_nobody_from_ending(rig: Rig) -> None:
    """[E8] Their deadlines are looked at, too, a bounded number at a time: those behind them come at once."""
    worker = await rig.worker()
    await rig.add(*"ttttt", expires=600)
    for job in await rig.claim(worker):
        await rig.finish(worker, job)
    await rig.clock.advance(1)
    late = (await rig.one(expires=600)).id
    await rig.clock.advance(601)
    for _ in range(4):
        if (await rig.store.promote(limit=2)).next_in != 0.0:
            break
    await must_have_expired(rig, late)


async def test_it_waits_from_its_run_at_on(rig: Rig) -> None:
    """[E8] Time before it may run is not waiting."""
    worker = await rig.worker()
    (id,) = await rig.add("t", delay=3600, expires=600)
    await rig.clock.advance(3601)
    await rig.store.promote()
    assert [job.id for job in await rig.claim(worker)] == [id]


async def test_it_may_expire_before_it_is_promoted(rig: Rig) -> None:
    """[E8] As where no coordinator lived for a while."""
    (id,) = await rig.add("t", delay=3600, expires=600)
    await rig.clock.advance(4201)
    await rig.store.promote()
    await must_have_expired(rig, id)


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.THROTTLED])
async def test_what_has_begun_does_not_expire(rig: Rig, kind: Kind) -> None:
    """[E8] However long it waits for its next attempt."""
    worker = await rig.worker()
    (id,) = await rig.add("t", expires=600)
    error = failure() if kind is Kind.RETRY else None
    await rig.finish(worker, await rig.run(worker, id), kind, delay=3600, error=error)
    await rig.clock.advance(3601)
    await rig.store.promote()
    assert [job.id for job in await rig.claim(worker)] == [id]


async def test_nor_does_what_a_dead_worker_had(rig: Rig) -> None:
    """[E8] [C8]"""
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t", expires=600)
    await rig.run(worker, id)
    await rig.clock.advance(601)
    await rig.die(worker, DeathPolicy())
    await rig.store.promote()
    assert [job.id for job in await rig.claim(other)] == [id]


async def test_what_is_handed_back_unbegun_expires(rig: Rig) -> None:
    """[E8] Nobody has begun it; where somebody had, its outcome says so."""
    worker = await rig.worker()
    unbegun, begun = await rig.add("t", "t", expires=600)
    jobs = {job.id: job for job in await rig.claim(worker)}
    await rig.store.promote()
    await rig.flush(
        worker,
        [
            Outcome(job=jobs[unbegun], kind=Kind.RELEASED),
            Outcome(job=jobs[begun], kind=Kind.RELEASED, began=True),
        ],
    )
    await rig.clock.advance(601)
    assert [job.id for job in await rig.claim(worker)] == [begun]
    await must_have_expired(rig, unbegun)


async def test_one_that_runs_is_left_alone(rig: Rig) -> None:
    """[E8]"""
    worker = await rig.worker()
    (id,) = await rig.add("t", expires=600)
    claimed = await rig.run(worker, id)
    await rig.clock.advance(601)
    await rig.store.promote()
    assert await rig.state(id) is State.RUNNING
    await rig.finish(worker, claimed)
    assert await rig.state(id) is State.SUCCEEDED


async def test_its_key_its_place_and_those_after_it_go_on(rig: Rig) -> None:
    """[E8] [E6] [P12] As with a cancel."""
    worker = await rig.worker()
    (first,) = await rig.add("t", expires=600, unique_key="u", concurrency_key="k")
    (dead,) = await rig.add("t", after=(first,))
    (cancelled,) = await rig.add("t", after=(first,), otherwise="cancel")
    (runs,) = await rig.add("t", after=(first,), otherwise="run")
    await rig.clock.advance(601)
    for _ in range(3):
        await rig.store.promote()
    assert await rig.state(first) is State.CANCELLED
    assert await rig.state(dead) is State.DEAD
    assert await rig.state(cancelled) is State.CANCELLED
    again = await rig.one(unique_key="u", concurrency_key="k")
    assert again.status in ("enqueued", "held")
    await rig.store.promote()
    assert {job.id for job in await rig.claim(worker)} == {runs, again.id}


async def test_an_operator_brings_a_dead_one_back_without_a_deadline(rig: Rig) -> None:
    """[E8] [O6]"""
    worker = await rig.worker()
    (id,) = await rig.add("t", expires=600, max_attempts=1)
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, error=failure())
    await rig.clock.advance(601)
    assert await rig.store.retry([id]) == {id: "retried"}
    await rig.store.promote()
    assert [job.id for job in await rig.claim(worker)] == [id]


async def test_a_producer_does_not_say_when(rig: Rig) -> None:
    """[E8] The deadline is the store's to write."""
    (id,) = await rig.add("t", expires=600, expires_at=1.0)
    (none,) = await rig.add("t", expires_at=1.0)
    await rig.store.promote()
    assert await rig.state(id) is State.READY
    assert await rig.state(none) is State.READY


async def test_they_are_counted(rig: Rig) -> None:
    """[E8] [M7] By an outcome of their own."""
    await rig.worker()
    await rig.add("t", "t", expires=600)
    (other,) = await rig.add("t")
    await rig.store.cancel([other])
    await rig.clock.advance(601)
    await rig.store.promote()
    (sample,) = await rig.store.ended()
    assert sample.counts == {"expired": 2, "cancelled": 1}
    await rig.store.count_ends()
    assert await rig.store.recount() == []


async def test_a_job_that_expires_is_handed_to_nobody(rig: Rig) -> None:
    """[E8] [F3] Whoever ends the one before it does not get it with the answer, if that has expired."""
    worker = await rig.worker()
    await rig.add("t", concurrency_key="k")
    claimed = (await rig.claim(worker))[0]
    (id,) = await rig.add("t", concurrency_key="k", expires=600)
    await rig.clock.advance(601)
    await rig.finish(worker, claimed)
    assert await rig.claim(worker) == []
    await must_have_expired(rig, id)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(600.0, "10 m"), (86400.0, "1 d"), (5400.0, "90 m"), (0.5, "0.5 s"), (7200.0, "2 h")],
)
async def test_the_reason_is_the_same_everywhere(rig: Rig, seconds: float, text: str) -> None:
    """[E8]"""
    assert expired_reason(seconds) == f"expired after {text}: it waited longer than that"
    (id,) = await rig.add("t", expires=seconds)
    await rig.clock.advance(seconds + 1)
    await rig.store.promote()
    assert (await rig.look(id)).reason == expired_reason(seconds)


async def test_a_parent_whose_parts_wait_has_begun(rig: Rig) -> None:
    """[E8] [P9] It ends through its parts, also those that nobody has begun in time, and is counted once."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, expires=600)
    behind = (await rig.one("behind", queue="other", after=(id,))).id
    (first,) = await rig.claim(worker, limit=1)
    await rig.clock.advance(601)
    assert (await rig.parent_record(id)).state is State.WAITING
    assert (await rig.state(id), await rig.state(behind)) == (State.WAITING, State.SCHEDULED)
    await rig.finish(worker, first)
    (second,) = await rig.claim(worker)
    await rig.finish(worker, second)
    assert (await rig.parent_record(id)).state is State.SUCCEEDED
    assert (await rig.state(id), await rig.state(behind)) == (State.SUCCEEDED, State.READY)
    assert {outcome for each in await rig.store.ended() for outcome in each.counts} == {"succeeded"}
