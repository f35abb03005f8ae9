"""Fires of schedules: compare-and-swap with their jobs, overlaps, and jitter [K4]."""

import asyncio
from datetime import UTC, datetime

import pytest

from tests.conformance.kit import Rig
from tests.conformance.schedule_kit import MINUTE, fire, look, ready, schedule, seed
from windlass.core.states import Kind, Priority, State
from windlass.errors import TermLost
from windlass.store.records import Options

# -- firing -------------------------------------------------------------------------------------------------


async def test_a_fire_makes_a_job_and_moves_the_schedule(rig: Rig) -> None:
    """[K4] In one step."""
    options = Options(tags=("nightly",), headers={"own": "1"}, max_attempts=2)
    at = await seed(rig, task="report", payload='{"n":1}', priority=Priority.HIGH, options=options)
    receipts = await fire(rig, at)
    assert receipts is not None
    (receipt,) = receipts
    assert receipt.status == "enqueued"
    made = await rig.look(receipt.id)
    assert (made.task, made.payload, made.priority, made.state) == ("report", '{"n":1}', 1, State.READY)
    assert (made.options.tags, made.options.max_attempts) == (("nightly",), 2)
    given = made.options.headers
    assert (given["own"], given["windlass-schedule"]) == ("1", "s")
    when = datetime.fromisoformat(given["windlass-scheduled-for"])
    assert (when, when.utcoffset()) == (datetime.fromtimestamp(at, UTC), UTC.utcoffset(None))
    moved = await look(rig)
    assert (moved.next_at, moved.last_at, moved.last_job) == (at + MINUTE, at, receipt.id)
    assert (moved.skipped, moved.error) == (0, None)


async def test_of_two_who_fire_one_does(rig: Rig) -> None:
    """[K4] Compare and swap: the second finds that it has moved."""
    at = await seed(rig)
    answers = await asyncio.gather(fire(rig, at), fire(rig, at))
    assert sorted(answer is None for answer in answers) == [False, True]
    assert await fire(rig, at) is None
    assert (await ready(rig), (await look(rig)).next_at) == (1, at + MINUTE)


async def test_a_time_with_a_fraction_is_still_the_same(rig: Rig) -> None:
    """[K4] What was read is what is compared."""
    await rig.store.seed_schedule(schedule(), await rig.store.now() - 1 / 3)
    (due,) = (await rig.store.due()).schedules
    assert due.next_at is not None
    assert await fire(rig, due.next_at) is not None


async def test_an_unknown_schedule_does_not_fire(rig: Rig) -> None:
    """[K4]"""
    assert await fire(rig, 1000.0) is None
    assert await rig.store.fire(None, "s", None, [1000.0], next_at=None) is None


async def test_a_coordinator_whose_term_is_over_fires_nothing(rig: Rig) -> None:
    """[K4] [K3]"""
    at = await seed(rig)
    old = await rig.lead(1)
    await rig.clock.advance(31)
    term = await rig.lead(2)
    with pytest.raises(TermLost):
        await rig.store.fire(old, "s", at, [at], next_at=at + MINUTE)
    assert (await ready(rig), (await look(rig)).next_at) == (0, at)
    assert await rig.store.fire(term, "s", at, [at], next_at=at + MINUTE) is not None
    assert await ready(rig) == 1


async def test_a_fire_may_have_no_time(rig: Rig) -> None:
    """[K4] All of them were missed: they are counted, and it is due again later."""
    at = await seed(rig)
    assert await fire(rig, at, times=[], skipped=4, error="nobody was there") == []
    record = await look(rig)
    assert (record.next_at, record.last_at, record.last_job) == (at + MINUTE, None, None)
    assert (record.skipped, record.error) == (4, "nobody was there")


async def test_a_fire_that_went_well_forgets_the_error(rig: Rig) -> None:
    """[K4]"""
    at = await seed(rig)
    await fire(rig, at, times=[], error="wrong")
    await fire(rig, at + MINUTE)
    assert (await look(rig)).error is None


async def test_an_operator_fires_now(rig: Rig) -> None:
    """[K4] Whatever its pause, its clock and its last job say; its time stays."""
    at = await seed(rig, due_in=1000)
    await rig.store.set_schedule("s", paused=True)
    for now in (at - 500, at - 400):
        receipts = await rig.store.fire(None, "s", None, [now], next_at=None)
        assert receipts is not None
        assert len(receipts) == 1
    record = await look(rig)
    assert (record.next_at, record.paused, record.last_at) == (at, True, at - 400)
    assert (await ready(rig), record.skipped) == (2, 0)


async def test_an_operator_fires_for_many_times(rig: Rig) -> None:
    """[K4] Backfill: each makes a job."""
    at = await seed(rig, due_in=1000)
    receipts = await rig.store.fire(None, "s", None, [at - 300, at - 200, at - 100], next_at=None)
    assert receipts is not None
    given = [(await rig.look(receipt.id)).options.headers["windlass-scheduled-for"] for receipt in receipts]
    assert [datetime.fromisoformat(time).timestamp() for time in given] == [at - 300, at - 200, at - 100]


# -- overlaps -----------------------------------------------------------------------------------------------


async def test_skip_makes_no_job_beside_one_that_has_not_ended(rig: Rig) -> None:
    """[K4] Waiting, running or put off; and the next fire after its end makes one again."""
    at = await seed(rig, overlap="skip")
    worker = await rig.worker()
    (first,) = await fire(rig, at) or []
    assert await fire(rig, at + MINUTE) == []
    claimed = await rig.run(worker, first.id)
    assert await fire(rig, at + 2 * MINUTE) == []
    await rig.finish(worker, claimed, Kind.RETRY, delay=3600)
    assert await fire(rig, at + 3 * MINUTE) == []
    record = await look(rig)
    assert (record.skipped, record.last_job, record.next_at) == (3, first.id, at + 4 * MINUTE)
    await rig.store.cancel([first.id])
    (second,) = await fire(rig, at + 4 * MINUTE) or []
    assert ((await look(rig)).last_job, (await look(rig)).last_at) == (second.id, at + 4 * MINUTE)


async def test_a_job_that_has_ended_or_is_gone_is_no_overlap(rig: Rig) -> None:
    """[K4]"""
    at = await seed(rig, overlap="skip")
    worker = await rig.worker()
    for n, way in enumerate(("succeeded", "dead", "deleted")):
        (made,) = await fire(rig, at + n * MINUTE) or []
        if way == "deleted":
            await rig.store.delete([made.id])
        else:
            await rig.finish(worker, await rig.run(worker, made.id), Kind(way))
    assert len(await fire(rig, at + 3 * MINUTE) or []) == 1
    assert (await look(rig)).skipped == 0


async def test_skip_makes_one_job_for_several_times(rig: Rig) -> None:
    """[K4] For the last of them: the others would overlap with it."""
    at = await seed(rig, overlap="skip")
    (made,) = await fire(rig, at, times=[at - 120, at - 60, at]) or []
    when = (await rig.look(made.id)).options.headers["windlass-scheduled-for"]
    assert datetime.fromisoformat(when).timestamp() == at
    assert (await look(rig)).last_at == at


async def test_queue_does_not_mind(rig: Rig) -> None:
    """[K4]"""
    at = await seed(rig, overlap="queue")
    made = await fire(rig, at, times=[at - 60, at])
    assert made is not None
    made += await fire(rig, at + MINUTE) or []
    assert (len(made), await ready(rig)) == (3, 3)
    assert ((await look(rig)).skipped, (await look(rig)).last_job) == (0, made[-1].id)


async def test_cancel_ends_a_waiting_job_first(rig: Rig) -> None:
    """[K4]"""
    at = await seed(rig, overlap="cancel")
    (first,) = await fire(rig, at) or []
    (second,) = await fire(rig, at + MINUTE) or []
    assert [await rig.state(receipt.id) for receipt in (first, second)] == [State.CANCELLED, State.READY]
    assert (await look(rig)).last_job == second.id


async def test_cancel_asks_a_running_job_to_end(rig: Rig) -> None:
    """[K4] [O5] The new one comes after it, however it ends: the two never run side by side."""
    at = await seed(rig, overlap="cancel")
    (first,) = await fire(rig, at) or []
    worker = await rig.worker()
    running = await rig.run(worker, first.id)
    (second,) = await fire(rig, at + MINUTE) or []
    assert (await rig.look(first.id)).cancel_requested
    assert (await rig.store.heartbeat(worker)).cancel == {first.id}
    await rig.store.promote()
    assert (await rig.look(second.id)).state is State.SCHEDULED
    await rig.finish(worker, running, Kind.CANCELLED)
    await rig.store.promote()
    assert (await rig.look(second.id)).state is State.READY


async def test_by_hand_it_leaves_what_is_wrong_and_what_comes_next(rig: Rig) -> None:
    """[K4] "Now" is no cure for a bad expression."""
    await rig.store.seed_schedule(schedule(cron="61 * * * *"), None, "no such minute")
    assert await rig.store.fire(None, "s", None, [await rig.store.now()], next_at=None)
    found = await look(rig)
    assert (found.next_at, found.error) == (None, "no such minute")


async def test_a_unique_key_holds_for_schedules_too(rig: Rig) -> None:
    """[K4] [E6]"""
    at = await seed(rig, overlap="queue", options=Options(unique_key="u"))
    (first,) = await fire(rig, at) or []
    (second,) = await fire(rig, at + MINUTE) or []
    assert (second.id, second.status) == (first.id, "skipped")
    assert await ready(rig) == 1


async def test_a_fire_of_what_dies_each_time_is_parked(rig: Rig) -> None:
    """[K4] [O7] It is automatic."""
    at = await seed(rig, overlap="queue", options=Options(unique_key="u"))
    worker = await rig.worker()
    dead: list[int] = []
    for n in range(3):
        (made,) = await fire(rig, at + n * MINUTE) or []
        await rig.finish(worker, await rig.run(worker, made.id), Kind.DEAD)
        dead.append(made.id)
    (parked,) = await fire(rig, at + 3 * MINUTE) or []
    assert (parked.id, parked.status) == (0, "parked")
    assert (await look(rig)).last_job == dead[-1]


async def test_a_fire_is_neither_refused_nor_shed(rig: Rig) -> None:
    """[K4] [F4] [F5]"""
    at = await seed(rig, overlap="queue", priority=Priority.LOW)
    await rig.add("t", "t")
    await rig.store.set_queue("default", {"max_depth": 1, "shed_depth": 1})
    assert len(await fire(rig, at) or []) == 1


# -- jitter -------------------------------------------------------------------------------------------------


async def test_jitter_puts_jobs_off_by_a_share_of_it(rig: Rig) -> None:
    """[K4] Each by its own, decided by name and time, and none by more."""
    at = await seed(rig, overlap="queue", jitter=1000.0)
    before = await rig.store.now()
    made = await fire(rig, at, times=[at - n * MINUTE for n in range(7, -1, -1)])
    assert made is not None
    records = [await rig.look(receipt.id) for receipt in made]
    puts = [(record.run_at or before) - before for record in records]
    assert all(0 <= put <= 1000 + 30 for put in puts)
    assert len({round(put) for put in puts}) > 3
    assert any(record.state is State.SCHEDULED for record in records)


async def test_a_job_that_is_put_off_has_not_ended(rig: Rig) -> None:
    """[K4] The next fire finds it, scheduled as it is."""
    at = await seed(rig, overlap="skip", jitter=100_000.0)
    assert len(await fire(rig, at) or []) == 1
    assert await fire(rig, at + MINUTE) == []


async def test_a_fire_by_hand_for_an_earlier_time_keeps_the_latest(rig: Rig) -> None:
    """[K4] A backfill is no news of when the schedule last fired."""
    at = await seed(rig)
    await fire(rig, at)
    receipts = await rig.store.fire(None, "s", None, [at - 3600], next_at=None)
    assert receipts is not None
    record = await look(rig)
    assert (record.last_at, record.last_job, record.next_at) == (at, receipts[0].id, at + MINUTE)


async def test_times_that_make_way_are_counted(rig: Rig) -> None:
    """[K4] Those before the latest, and the latest where its forerunner has not ended."""
    at = await seed(rig, overlap="skip")
    made = await fire(rig, at, times=[at - 2 * MINUTE, at - MINUTE, at], skipped=3)
    assert made is not None
    assert (len(made), (await look(rig)).skipped) == (1, 5)
    await rig.clock.advance(MINUTE)
    assert await fire(rig, at + MINUTE) == []
    record = await look(rig)
    assert (record.skipped, record.last_at, record.last_job) == (6, at, made[0].id)
