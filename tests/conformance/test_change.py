"""A waiting job is changed in place [E8]: another queue, priority, time, other arguments; the id stays."""

import asyncio
import json

import pytest

from tests.conformance.kit import Rig, failure
from windlass.core.states import Kind, Priority, State
from windlass.store.records import JobChange

AT_ONCE = 8


async def test_a_ready_job_goes_to_its_new_queue(rig: Rig) -> None:
    """[E8] With everything that it has."""
    worker = await rig.worker()
    first, second = await rig.add("t", "t", tags=("x",), max_attempts=3)
    before = await rig.look(first)
    assert await rig.store.change(first, JobChange(queue="other")) == "changed"
    await rig.store.promote()  # which declares a queue that nobody has heard of
    record = await rig.look(first)
    assert (record.id, record.queue, record.state) == (first, "other", State.READY)
    assert (record.options, record.attempt) == (before.options, 1)
    assert record.enqueued_at == pytest.approx(before.enqueued_at, abs=1e-3)
    assert [job.id for job in await rig.claim(worker)] == [second]
    assert [job.id for job in await rig.claim(worker, "other")] == [first]
    assert ((await rig.depth()).ready, (await rig.depth("other")).ready) == (0, 0)


async def test_a_higher_priority_overtakes(rig: Rig) -> None:
    """[E8] [C2]"""
    worker = await rig.worker()
    ids = await rig.add("t", "t", "t")
    assert await rig.store.change(ids[2], JobChange(priority=Priority.URGENT)) == "changed"
    assert (await rig.look(ids[2])).priority == Priority.URGENT
    assert [job.id for job in await rig.claim(worker)] == [ids[2], ids[0], ids[1]]


async def test_other_arguments_and_options(rig: Rig) -> None:
    """[E8] It runs with those, behind the others of its lane."""
    worker = await rig.worker()
    first, second = await rig.add("t", "t", max_attempts=3, tags=("x",))
    change = JobChange(payload='{"n": 2}', options={"max_attempts": 7, "tags": None, "timeout": 5.0})
    assert await rig.store.change(first, change) == "changed"
    jobs = await rig.claim(worker)
    assert [job.id for job in jobs] == [second, first]
    assert json.loads(jobs[1].payload) == {"n": 2}
    options = jobs[1].options
    assert (options.max_attempts, options.tags, options.timeout) == (7, (), 5.0)


@pytest.mark.parametrize("by", ["delay", "run_at"])
async def test_a_ready_job_is_put_off(rig: Rig, by: str) -> None:
    """[E8]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    now = await rig.store.now()
    change = JobChange(delay=3600.0) if by == "delay" else JobChange(run_at=now + 3600)
    assert await rig.store.change(id, change) == "changed"
    record = await rig.look(id)
    assert record.state is State.SCHEDULED
    assert record.run_at == pytest.approx(now + 3600, abs=2)
    assert await rig.claim(worker) == []
    await rig.clock.advance(3601)
    await rig.store.promote()
    await rig.run(worker, id)


@pytest.mark.parametrize("state", [State.SCHEDULED, State.RETRYING])
async def test_a_job_that_was_put_off_is_changed_where_it_waits(rig: Rig, state: State) -> None:
    """[E8]"""
    worker = await rig.worker()
    id = await rig.bring(state, worker)
    before = await rig.look(id)
    change = JobChange(queue="other", priority=Priority.HIGH, payload='{"n": 1}')
    assert await rig.store.change(id, change) == "changed"
    record = await rig.look(id)
    assert (record.state, record.run_at, record.attempt) == (state, before.run_at, before.attempt)
    assert (record.queue, record.priority, record.payload) == ("other", Priority.HIGH, '{"n": 1}')
    assert record.errors == before.errors
    counted = await rig.depth("other")
    assert counted.scheduled + counted.retrying == 1
    assert (await rig.depth()).scheduled + (await rig.depth()).retrying == 0


@pytest.mark.parametrize("state", [State.SCHEDULED, State.RETRYING])
async def test_its_time_has_come_now(rig: Rig, state: State) -> None:
    """[E8] Unlike a retry by an operator it keeps its attempt."""
    worker = await rig.worker()
    id = await rig.bring(state, worker)
    attempt = (await rig.look(id)).attempt
    assert await rig.store.change(id, JobChange(delay=0.0)) == "changed"
    assert (await rig.run(worker, id)).attempt == attempt


async def test_its_time_is_moved(rig: Rig) -> None:
    """[E8] Sooner or later, more than once, past what promotion has seen."""
    worker = await rig.worker()
    (id,) = await rig.add("t", delay=3600)
    await rig.store.promote()
    assert await rig.store.change(id, JobChange(delay=7200.0)) == "changed"
    await rig.clock.advance(3601)
    await rig.store.promote()
    assert await rig.state(id) is State.SCHEDULED
    assert await rig.store.change(id, JobChange(delay=10.0)) == "changed"
    await rig.clock.advance(11)
    await rig.store.promote()
    await rig.run(worker, id)


async def test_a_held_job_keeps_its_place_at_its_gate(rig: Rig) -> None:
    """[E8] [F3] Whatever else is changed."""
    worker = await rig.worker()
    (running, *held) = await rig.add(*"tttt", concurrency_key="k")
    await rig.store.promote()
    first = await rig.claim(worker)
    assert [job.id for job in first] == [running]
    assert await rig.store.change(held[0], JobChange(priority=Priority.LOW, payload="[5]")) == "changed"
    await rig.finish(worker, first)
    await rig.store.promote()
    (job,) = await rig.claim(worker)
    assert (job.id, job.payload, job.priority) == (held[0], "[5]", Priority.LOW)


async def test_a_held_job_with_another_key_goes_to_another_gate(rig: Rig) -> None:
    """[E8] [F3] And those behind it go on."""
    worker = await rig.worker()
    running, other, behind = await rig.add(*"ttt", concurrency_key="k")
    await rig.store.promote()
    assert [job.id for job in await rig.claim(worker)] == [running]
    change = JobChange(options={"concurrency_key": "free"})
    assert await rig.store.change(other, change) == "changed"
    await rig.store.promote()
    assert [job.id for job in await rig.claim(worker)] == [other]
    assert (await rig.look(behind)).reason == "waits for a slot of concurrency key 'k'"


async def test_a_job_in_its_lane_gives_its_pass_back(rig: Rig) -> None:
    """[E8] [F3] Where its key is another one now, the next of the old key comes."""
    worker = await rig.worker()
    first, second = await rig.add(*"tt", concurrency_key="k")
    await rig.store.promote()
    assert await rig.store.change(first, JobChange(options={"concurrency_key": None})) == "changed"
    await rig.store.promote()
    assert {job.id for job in await rig.claim(worker)} == {first, second}


async def test_of_an_ordering_key_it_goes_to_the_end_of_another_queue(rig: Rig) -> None:
    """[E8] [F6]"""
    worker = await rig.worker()
    first, second = await rig.add(*"tt", ordering_key="o")
    (there,) = await rig.add("t", ordering_key="o", queue="other")
    await rig.store.promote()
    assert await rig.store.change(first, JobChange(queue="other")) == "changed"
    await rig.store.promote()
    assert [job.id for job in await rig.claim(worker)] == [second]
    (running,) = await rig.claim(worker, "other")
    assert running.id == there
    await rig.finish(worker, running)
    await rig.store.promote()
    assert [job.id for job in await rig.claim(worker, "other")] == [first]


async def test_a_fair_job_takes_a_turn_in_its_new_queue(rig: Rig) -> None:
    """[E8] [C3]"""
    worker = await rig.worker()
    (id,) = await rig.add("t", fair_key="f")
    assert await rig.store.change(id, JobChange(queue="other")) == "changed"
    await rig.store.promote()
    assert [job.id for job in await rig.claim(worker, "other")] == [id]


async def test_one_that_waits_for_its_turn_keeps_its_place(rig: Rig) -> None:
    """[E8] [C3] In the same lane, with the same fair key: only its arguments are others."""
    worker = await rig.worker()
    await rig.store.set_queue("default", {"window": 1})
    ids = await rig.add(*"ttt", fair_key="f")
    assert await rig.store.change(ids[1], JobChange(payload="[7]")) == "changed"
    ran = []
    for _ in ids:
        await rig.store.promote()
        (job,) = await rig.claim(worker, limit=1)
        ran.append((job.id, job.payload))
    assert ran == [(ids[0], "{}"), (ids[1], "[7]"), (ids[2], "{}")]


async def test_one_whose_time_is_moved_to_now_is_ready_from_now_on(rig: Rig) -> None:
    """[E8] It has not waited for anybody before."""
    (id,) = await rig.add("t", delay=3600)
    await rig.clock.advance(500)
    assert await rig.store.change(id, JobChange(delay=0.0)) == "changed"
    (depth,) = (await rig.store.depth(["default"])).values()
    assert depth.ready == 1
    assert depth.oldest is not None
    assert depth.oldest < 100


async def test_one_that_comes_after_others_still_does(rig: Rig) -> None:
    """[E8] [P12]"""
    worker = await rig.worker()
    (first,) = await rig.add("t")
    (second,) = await rig.add("t", after=(first,))
    assert await rig.store.change(second, JobChange(queue="other", delay=3600.0)) == "changed"
    await rig.finish(worker, await rig.run(worker, first))
    await rig.store.promote()
    assert await rig.state(second) is State.SCHEDULED
    await rig.clock.advance(3601)
    await rig.store.promote()
    await rig.run(worker, second, "other")


async def test_its_unique_key_stays(rig: Rig) -> None:
    """[E8] [E6] [E7]"""
    worker = await rig.worker()
    receipt = await rig.one(unique_key="u", idempotency_key="i")
    assert await rig.store.change(receipt.id, JobChange(queue="other")) == "changed"
    assert (await rig.one(unique_key="u")).id == receipt.id
    assert (await rig.one(idempotency_key="i")).status == "repeated"
    await rig.store.promote()
    await rig.finish(worker, await rig.run(worker, receipt.id, "other"))
    assert (await rig.one(unique_key="u")).status == "enqueued"


async def test_what_does_not_wait_is_left_alone(rig: Rig) -> None:
    """[E8]"""
    worker = await rig.worker()
    (running,) = await rig.add("t", payload="[1]")
    claimed = await rig.run(worker, running)
    change = JobChange(queue="other", payload="[2]", delay=3600.0)
    assert await rig.store.change(running, change) == "running"
    assert (await rig.look(running)).payload == "[1]"
    await rig.finish(worker, claimed)
    assert await rig.store.change(running, change) == "ended"
    (dead,) = await rig.add("t", max_attempts=1)
    await rig.finish(worker, await rig.run(worker, dead), Kind.RETRY, error=failure())
    assert await rig.store.change(dead, change) == "ended"
    assert await rig.store.change(1 << 40, change) == "not_found"
    assert await rig.store.change(-1, change) == "not_found"
    parent = await rig.parent(worker)
    assert await rig.store.change(parent, change) == "running"
    (part,) = [record.id for record in await rig.listing() if record.options.part is not None]
    assert await rig.store.change(part, change) == "part"


async def test_its_deadline_counts_from_its_new_time(rig: Rig) -> None:
    """[E8]"""
    worker = await rig.worker()
    put_off, left = await rig.add("t", "t", expires=600)
    assert await rig.store.change(put_off, JobChange(delay=3600.0)) == "changed"
    assert await rig.store.change(left, JobChange(queue="other")) == "changed"
    await rig.clock.advance(601)
    await rig.store.promote()
    assert await rig.state(left) is State.CANCELLED
    await rig.clock.advance(3000)
    await rig.store.promote()
    await rig.run(worker, put_off)


async def test_it_waits_as_long_as_before(rig: Rig) -> None:
    """[E8] [C2] So it ages: what was changed is no younger."""
    (id,) = await rig.add("t")
    await rig.clock.advance(500)
    await rig.store.change(id, JobChange(priority=Priority.LOW))
    (depth,) = (await rig.store.depth(["default"])).values()
    assert depth.oldest is not None
    assert depth.oldest > 499


async def test_changed_while_others_claim_it_runs_once(rig: Rig) -> None:
    """[E8] [C1] Whoever comes first; the answer tells which."""
    workers = [await rig.worker() for _ in range(4)]
    ids = await rig.add(*["t"] * 40, payload="[1]")
    changes = [rig.store.change(id, JobChange(payload="[2]", priority=Priority.HIGH)) for id in ids]
    claims = [rig.claim(worker, limit=7) for worker in workers]
    answers, given = await asyncio.gather(asyncio.gather(*changes), asyncio.gather(*claims))
    jobs = [job for each in given for job in each]
    while more := await rig.claim(workers[0]):
        jobs += more
    await rig.store.promote()
    jobs += await rig.claim(workers[0])
    assert sorted(job.id for job in jobs) == sorted(ids), "every job is given out once"
    ran = {job.id: job.payload for job in jobs}
    for id, answer in zip(ids, answers, strict=True):
        assert (answer, ran[id]) in {("changed", "[2]"), ("running", "[1]")}


async def test_two_changes_at_once_are_one_after_the_other(rig: Rig) -> None:
    """[E8] Nothing is lost and nothing is doubled."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    answers = await asyncio.gather(
        *(rig.store.change(id, JobChange(options={"max_attempts": n + 1})) for n in range(AT_ONCE)),
        *(rig.store.change(id, JobChange(queue=f"q{n}")) for n in range(AT_ONCE)),
    )
    assert set(answers) == {"changed"}
    await rig.store.promote()
    queues = [f"q{n}" for n in range(AT_ONCE)]
    (job,) = await rig.claim(worker, "default", *queues)
    assert (job.id, job.queue in queues) == (id, True)
    assert 1 <= job.options.max_attempts <= AT_ONCE
    assert await rig.claim(worker, "default", *queues) == []


async def test_changed_and_cancelled_at_once(rig: Rig) -> None:
    """[E8] [O5] It never runs, whichever was first."""
    worker = await rig.worker()
    ids = await rig.add(*["t"] * AT_ONCE)
    await asyncio.gather(
        *(rig.store.change(id, JobChange(priority=Priority.HIGH)) for id in ids), rig.store.cancel(ids)
    )
    for id in ids:  # one that was between two places when it was cancelled
        await rig.store.cancel([id])
    assert {await rig.state(id) for id in ids} == {State.CANCELLED}
    assert await rig.claim(worker) == []
    assert (await rig.depth()).ready == 0


async def test_changed_while_the_logs_turn(rig: Rig) -> None:
    """[E8] Rotation carries it on like any other."""
    worker = await rig.worker()
    ids = await rig.add(*["t"] * AT_ONCE)
    await asyncio.gather(
        rig.turn(), *(rig.store.change(id, JobChange(queue="other", payload="[3]")) for id in ids)
    )
    await rig.turn()
    await rig.store.promote()
    jobs = await rig.claim(worker, "other")
    assert sorted(job.id for job in jobs) == sorted(ids)
    assert {job.payload for job in jobs} == {"[3]"}


async def test_changed_while_it_is_promoted(rig: Rig) -> None:
    """[E8]"""
    worker = await rig.worker()
    ids = await rig.add(*["t"] * AT_ONCE, delay=10)
    await rig.clock.advance(11)
    await asyncio.gather(rig.store.promote(), *(rig.store.change(id, JobChange(payload="[4]")) for id in ids))
    await rig.store.promote()
    jobs = await rig.claim(worker)
    assert sorted(job.id for job in jobs) == sorted(ids)
    assert {job.payload for job in jobs} == {"[4]"}
