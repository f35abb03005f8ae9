"""Ordered jobs: one of a key at a time, in order, and how far a key has come [F6]."""

import itertools

import pytest

from tests.conformance.gate_kit import settle, take
from tests.conformance.kit import Rig, failure, job
from windlass.core.states import Kind, Priority, State
from windlass.store.records import ClaimedJob, Watermark


async def one(rig: Rig, worker: int) -> ClaimedJob:
    """Claim the one whose turn it is."""
    (claimed,) = await take(rig, worker)
    return claimed


async def rest(rig: Rig, worker: int) -> list[int]:
    """Run all that is left, one after the other, and tell the order."""
    order: list[int] = []
    while claimed := await take(rig, worker):
        assert len(claimed) == 1
        order.append(claimed[0].id)
        await rig.finish(worker, claimed)
    return order


async def mark(rig: Rig, key: str = "k", queue: str = "default") -> Watermark:
    """How far a key has come."""
    await rig.store.promote()
    (found,) = await rig.store.watermarks(queue, key=key)
    return found


async def position(rig: Rig) -> int:
    return (await mark(rig)).position


# -- one at a time, in order --------------------------------------------------------------------------------


async def test_one_at_a_time_in_the_order_of_their_enqueues(rig: Rig) -> None:
    """[F6] Whatever their calls and workers."""
    ids = await rig.add("a", "b", ordering_key="k") + await rig.add("c", "d", ordering_key="k")
    one_, other = await rig.worker(), await rig.worker()
    for id, worker in zip(ids, itertools.cycle([one_, other]), strict=False):
        claimed = await one(rig, worker)
        assert claimed.id == id
        assert await take(rig, other) == await take(rig, one_) == []
        await rig.finish(worker, claimed)
    assert await take(rig, one_) == []


async def test_keys_do_not_wait_for_each_other(rig: Rig) -> None:
    """[F6] Two interleaved; each keeps its own order."""
    await rig.store.enqueue([job(f"{key}{n}", ordering_key=key) for n in range(3) for key in "ab"])
    worker, order = await rig.worker(), list[str]()
    while claimed := await take(rig, worker):
        assert len({job.options.ordering_key for job in claimed}) == len(claimed)
        order += [job.task for job in claimed]
        await rig.finish(worker, claimed)
    assert [task for task in order if task[0] == "a"] == ["a0", "a1", "a2"]
    assert [task for task in order if task[0] == "b"] == ["b0", "b1", "b2"]


async def test_one_key_that_is_stuck_stops_no_other(rig: Rig) -> None:
    """[F6] Nor jobs without a key."""
    await rig.add(*(["t"] * 50), ordering_key="stuck")
    worker = await rig.worker()
    await one(rig, worker)
    await rig.store.enqueue([job("other", ordering_key="other"), job("plain")])
    assert sorted(claimed.task for claimed in await take(rig, worker)) == ["other", "plain"]


async def test_an_order_is_a_queues_own(rig: Rig) -> None:
    """[F6] The same key in two queues is two orders."""
    await rig.add("a", ordering_key="k", queue="one")
    await rig.add("b", ordering_key="k", queue="two")
    await settle(rig)
    assert len(await rig.claim(await rig.worker(), "one", "two")) == 2


async def test_priorities_do_not_change_an_order(rig: Rig) -> None:
    """[F6]"""
    first = await rig.add("a", ordering_key="k", priority=Priority.LOW)
    then = await rig.add("b", ordering_key="k", priority=Priority.URGENT)
    assert await rest(rig, await rig.worker()) == first + then


async def test_one_that_waits_says_for_what(rig: Rig) -> None:
    """[F6] [M4]"""
    first, second = await rig.add("a", "b", ordering_key="k")
    await settle(rig)
    waiting = await rig.look(second)
    assert waiting.state is State.READY
    assert waiting.reason == "waits for the jobs before it of ordering key 'k' in queue default"
    assert (await rig.look(first)).reason is None
    (gate,) = await rig.store.gates()
    assert (gate.name, gate.passes, gate.waiting) == ("order:default/k", 1, 1)


# -- a place is kept ----------------------------------------------------------------------------------------


async def test_a_job_put_off_keeps_its_place(rig: Rig) -> None:
    """[F6] Those behind it wait as long as it does."""
    worker = await rig.worker()
    for kind in (Kind.RETRY, Kind.SNOOZE, Kind.THROTTLED, Kind.UNKNOWN):
        first, second = await rig.add("a", "b", ordering_key="k")
        await rig.finish(worker, await one(rig, worker), kind, delay=60)
        assert await take(rig, worker) == []
        await rig.clock.advance(61)
        assert await rest(rig, worker) == [first, second]


async def test_a_job_that_is_replaced_while_it_waits_to_be_tried_again_gives_up_its_place(rig: Rig) -> None:
    """[F6] [E6] Nobody would run it any more; the one that replaces it need not be of that order."""
    await rig.add("a", ordering_key="k", unique_key="u")
    then = await rig.add("b", ordering_key="k")
    worker = await rig.worker()
    await rig.finish(worker, await one(rig, worker), Kind.RETRY, delay=60)
    (edit,) = await rig.store.enqueue([job("c", unique_key="u", on_conflict="replace")])
    assert edit.status == "replaced"
    assert sorted(claimed.id for claimed in await take(rig, worker)) == sorted([*then, edit.id])


async def test_a_job_offered_again_keeps_its_place(rig: Rig) -> None:
    """[F6]"""
    first, second = await rig.add("a", "b", ordering_key="k")
    worker = await rig.worker()
    for kind in (Kind.RETRY, Kind.RELEASED):
        claimed = await one(rig, worker)
        assert claimed.id == first
        await rig.finish(worker, claimed, kind)
    assert await rest(rig, worker) == [first, second]


async def test_a_rescued_job_keeps_its_place(rig: Rig) -> None:
    """[F6] [C8] At once and, after a second death, with a delay."""
    first, second = await rig.add("a", "b", ordering_key="k")
    for _ in range(2):
        gone = await rig.worker()
        assert (await one(rig, gone)).id == first
        await rig.die(gone)
    worker = await rig.worker()
    assert await take(rig, worker) == []
    await rig.clock.advance(3600)
    assert await rest(rig, worker) == [first, second]


async def test_the_next_comes_when_one_has_ended(rig: Rig) -> None:
    """[F6] However it ended: a dead job does not stop its key for ever."""
    ids = await rig.add("a", "b", "c", "d", ordering_key="k")
    worker = await rig.worker()
    for id, kind in zip(ids, (Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED), strict=False):
        claimed = await one(rig, worker)
        assert claimed.id == id
        await rig.finish(worker, claimed, kind)
    assert await rest(rig, worker) == ids[3:]


@pytest.mark.parametrize("stop", ["cancel", "delete"])
async def test_a_job_taken_back_leaves_no_gap(rig: Rig, stop: str) -> None:
    """[F6] [O5] Whether it was its turn, or not, or it was put off."""
    worker = await rig.worker()
    for which in (0, 1):
        ids = await rig.add("a", "b", "c", ordering_key="k")
        await settle(rig)
        await getattr(rig.store, stop)([ids.pop(which)])
        assert await rest(rig, worker) == ids
    first, second = await rig.add("a", "b", ordering_key="k")
    await rig.finish(worker, await one(rig, worker), Kind.RETRY, delay=3600, error=failure())
    await getattr(rig.store, stop)([first])
    assert (await one(rig, worker)).id == second


async def test_an_operators_retry_of_a_dead_job_goes_to_the_end(rig: Rig) -> None:
    """[F6] [O6] Its place is gone with its end."""
    dead, second, third = await rig.add("a", "b", "c", ordering_key="k")
    worker = await rig.worker()
    await rig.finish(worker, await one(rig, worker), Kind.DEAD)
    await rig.store.promote()
    assert await rig.store.retry([dead]) == {dead: "retried"}
    assert await rest(rig, worker) == [second, third, dead]


async def test_a_scheduled_job_takes_its_place_when_it_is_due(rig: Rig) -> None:
    """[F6] [E2]"""
    later = (await rig.one("later", ordering_key="k", delay=60)).id
    now = (await rig.one("now", ordering_key="k")).id
    worker = await rig.worker()
    claimed = await one(rig, worker)
    await rig.clock.advance(61)
    assert (claimed.id, await take(rig, worker)) == (now, [])
    await rig.finish(worker, claimed)
    assert await rest(rig, worker) == [later]


async def test_order_comes_before_the_other_gates(rig: Rig) -> None:
    """[F6] [F3] Its first has a slot of the key, and nobody of the order is in the key's line behind it."""
    await rig.add("a0", "a1", ordering_key="a", concurrency_key="k", key_limit=2)
    await rig.add("b0", "b1", ordering_key="b", concurrency_key="k", key_limit=2)
    worker = await rig.worker()
    assert sorted(claimed.task for claimed in await take(rig, worker)) == ["a0", "b0"]


async def test_a_retry_keeps_its_order_and_gives_up_its_slot(rig: Rig) -> None:
    """[F6] [F3] Another key's job runs meanwhile; when it is due it waits for the slot alone."""
    first, _ = await rig.add("a0", "a1", ordering_key="a", concurrency_key="k")
    other = (await rig.one("b0", ordering_key="b", concurrency_key="k")).id
    worker = await rig.worker()
    await rig.finish(worker, await one(rig, worker), Kind.RETRY, delay=60, error=failure())
    busy = await one(rig, worker)
    await rig.clock.advance(61)
    assert (busy.id, await take(rig, worker)) == (other, [])
    await rig.finish(worker, busy)
    assert (await one(rig, worker)).id == first


# -- parents ------------------------------------------------------------------------------------------------


async def test_an_ordered_parent_keeps_its_place_until_it_ends(rig: Rig) -> None:
    """[F6] [P9] Its parts run, all at once, and the next job of the key comes after the last of them."""
    parent = (await rig.one("t", ordering_key="k", chunked=True)).id
    after = (await rig.one("after", ordering_key="k")).id
    worker = await rig.worker()
    await rig.split(worker, await one(rig, worker), parts=3, finalizer=True)
    parts = await take(rig, worker)
    assert [job.options.ordering_key for job in parts] == [None] * 3
    assert (await rig.look(parent)).options.ordering_key == "k"
    await rig.finish(worker, parts)
    final = await one(rig, worker)
    assert (final.task, await position(rig)) == ("t", 0)
    await rig.finish(worker, final)
    await rig.parent_record(parent)
    assert (await one(rig, worker)).id == after
    assert await position(rig) == 1


# -- watermarks ---------------------------------------------------------------------------------------------


async def test_the_watermark_follows_the_ends(rig: Rig) -> None:
    """[F6] It moves with each job that ends, and no other."""
    await rig.add("a", "b", "c", ordering_key="k")
    worker, seen = await rig.worker(), [await position(rig)]
    for kind in (Kind.RETRY, Kind.SUCCEEDED, Kind.RELEASED, Kind.DEAD, Kind.CANCELLED):
        claimed = await one(rig, worker)
        seen.append(await position(rig))
        await rig.finish(worker, claimed, kind)
        seen.append(await position(rig))
    assert seen == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3]


async def test_a_watermark_never_falls(rig: Rig) -> None:
    """[F6] Not by a dead job that comes back, nor by jobs that never had their turn."""
    dead, _, deleted = await rig.add("a", "b", "c", ordering_key="k")
    worker = await rig.worker()
    await rig.finish(worker, await one(rig, worker), Kind.DEAD)
    await rig.store.retry([dead])
    await rig.store.delete([deleted])
    seen = [await position(rig)]
    while claimed := await take(rig, worker):
        await rig.finish(worker, claimed)
        seen.append(await position(rig))
    assert seen == [1, 2, 3]


async def test_a_watermark_tells_who_waits_and_since_when(rig: Rig) -> None:
    """[F6]"""
    await rig.add("a", "b", ordering_key="k")
    await rig.clock.advance(100)
    await rig.add("c", ordering_key="k")
    worker = await rig.worker()
    claimed = await one(rig, worker)
    before = await mark(rig)
    assert (before.queue, before.key, before.waiting) == ("default", "k", 3)
    assert before.age == pytest.approx(100, abs=20)
    await rig.finish(worker, claimed)
    between = await mark(rig)
    assert (between.waiting, between.position) == (2, 1)
    assert between.at > before.at
    await rest(rig, worker)
    done = await mark(rig)
    assert (done.waiting, done.age, done.position) == (0, 0, 3)


async def test_watermarks_are_listed_by_key(rig: Rig) -> None:
    """[F6] Of one queue, as many as were asked for."""
    await rig.store.enqueue([job(ordering_key=key) for key in "cab"])
    await rig.one(ordering_key="elsewhere", queue="other")
    await rig.store.promote()
    assert [mark.key for mark in await rig.store.watermarks("default")] == ["a", "b", "c"]
    assert [mark.key for mark in await rig.store.watermarks("default", limit=2)] == ["a", "b"]
    assert await rig.store.watermarks("default", key="z") == []
    assert await rig.store.watermarks("nowhere") == []


async def test_a_watermark_goes_when_its_key_is_long_done(rig: Rig) -> None:
    """[F6] [K6] After 30 days, and not while anybody waits."""
    await rig.store.enqueue([job(ordering_key=key) for key in ("done", "waits")])
    worker = await rig.worker()
    claimed = await take(rig, worker)
    await rig.finish(worker, [job for job in claimed if job.options.ordering_key == "done"])
    await rig.clock.advance(29 * 86400)
    await rig.store.expire()
    assert len(await rig.store.watermarks("default")) == 2
    await rig.clock.advance(2 * 86400)
    await rig.store.expire()
    assert [mark.key for mark in await rig.store.watermarks("default")] == ["waits"]
