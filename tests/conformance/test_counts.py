"""Counts of ended jobs: as many as have ended, whatever happened to those who ran them [M7]."""

from collections import Counter

from tests.conformance.kit import Rig, failure, job
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.records import Outcome

NO_SECOND_CHANCE = DeathPolicy(poison=1)


async def ended(rig: Rig, queue: str = "default") -> dict[str, dict[str, int]]:
    """What has ended in a queue, by task. It is the same however much is counted by now."""
    before = {each.task: each.counts for each in await rig.store.ended() if each.queue == queue}
    while (await rig.store.count_ends()).more:
        pass
    after = {each.task: each.counts for each in await rig.store.ended() if each.queue == queue}
    assert after == before
    return after


async def test_ends_are_counted_by_queue_task_and_kind(rig: Rig) -> None:
    """[M7] Without any report, and whether or not one looks before they are counted."""
    worker = await rig.worker()
    await rig.add("a", "b", "a", "c", "b", "a")
    await rig.add("a", queue="other")
    jobs = await rig.claim(worker)
    kinds = [Kind.SUCCEEDED, Kind.DEAD, Kind.SUCCEEDED, Kind.CANCELLED, Kind.SUCCEEDED]
    await rig.flush(worker, [Outcome(job=each, kind=kind) for each, kind in zip(jobs, kinds, strict=False)])
    await rig.finish(worker, await rig.claim(worker, "other"))
    assert await ended(rig) == {
        "a": {"succeeded": 2},
        "b": {"dead": 1, "succeeded": 1},
        "c": {"cancelled": 1},
    }
    await rig.finish(worker, jobs[5])
    assert (await ended(rig))["a"] == {"succeeded": 3}
    assert await ended(rig, "other") == {"a": {"succeeded": 1}}
    assert await rig.store.totals() == []


async def test_what_does_not_end_a_job_is_not_counted(rig: Rig) -> None:
    """[M7] Retries, hand-backs and snoozes go on; an end is counted once, though the flush is sent twice."""
    worker = await rig.worker()
    await rig.add("a", "b", "c")
    jobs = await rig.claim(worker)
    await rig.finish(worker, jobs[0], Kind.RETRY, delay=0, error=failure())
    await rig.finish(worker, jobs[1], Kind.RELEASED)
    await rig.finish(worker, jobs[2], Kind.SNOOZE, delay=0)
    assert await ended(rig) == {}
    again = await rig.claim(worker)
    outcomes = [Outcome(job=each, kind=Kind.SUCCEEDED) for each in again]
    flush = rig.next_flush(worker)
    await rig.store.finish(worker, flush, outcomes)
    await rig.store.finish(worker, flush, outcomes)
    assert await ended(rig) == {task: {"succeeded": 1} for task in "abc"}


async def test_the_last_attempt_is_an_end(rig: Rig) -> None:
    """[M7] [O4] A retry that there is no attempt left for is a death."""
    worker = await rig.worker()
    await rig.one("a", max_attempts=1)
    await rig.finish(worker, await rig.claim(worker), Kind.RETRY, error=failure())
    assert await ended(rig) == {"a": {"dead": 1}}


async def test_a_rescue_counts_the_dead_and_nobody_else(rig: Rig) -> None:
    """[M7] [C8] What a worker had flushed counts, though it died before it said so; what it held does not,
    but for poison and what was to be cancelled."""
    worker, heir = await rig.worker(), await rig.worker()
    await rig.add("done", "held", "stopped")
    jobs = await rig.claim(worker)
    await rig.finish(worker, jobs[0])
    await rig.store.cancel([jobs[2].id])
    await rig.die(worker)
    assert await ended(rig) == {"done": {"succeeded": 1}, "stopped": {"cancelled": 1}}
    (taken,) = await rig.claim(heir)
    assert taken.task == "held"
    await rig.die(heir, NO_SECOND_CHANCE)
    assert (await ended(rig))["held"] == {"dead": 1}


async def test_an_operator_ends_jobs_wherever_they_wait(rig: Rig) -> None:
    """[M7] [O5] In the lane, scheduled, retrying, held: cancelled, one by one and together."""
    worker = await rig.worker()
    ids = [await rig.bring(state, worker, "t") for state in (State.RETRYING, State.SCHEDULED)]
    ids += await rig.add("a", "b", "a")
    ids += await rig.add("held", fair_key="k")
    await rig.store.cancel(ids[:1])
    await rig.store.cancel(ids)
    assert await ended(rig) == {
        "t": {"cancelled": 2}, "a": {"cancelled": 2}, "b": {"cancelled": 1}, "held": {"cancelled": 1},
    }  # fmt: skip


async def test_what_is_taken_back_without_a_trail_has_not_ended(rig: Rig) -> None:
    """[M7] [E6] Deleted or replaced while it waits. Deleting what has ended takes nothing away."""
    worker = await rig.worker()
    waiting = await rig.add("a", "b")
    later = await rig.bring(State.SCHEDULED, worker, "c")
    await rig.one("key", unique_key="k", delay=60)
    await rig.one("key", unique_key="k", delay=60, on_conflict="replace")
    await rig.store.delete([*waiting, later])
    assert await ended(rig) == {}
    kept = await rig.add("x", "y", "x")
    await rig.finish(worker, await rig.claim(worker))
    await rig.store.delete(kept)
    assert [await rig.state(id) for id in kept] == [None] * 3
    assert await ended(rig) == {"x": {"succeeded": 2}, "y": {"succeeded": 1}}


async def test_ends_are_counted_not_jobs(rig: Rig) -> None:
    """[M7] [O6] A dead job that an operator retries ends once more."""
    worker = await rig.worker()
    id = await rig.bring(State.DEAD, worker, "a")
    await rig.store.retry([id])
    await rig.finish(worker, await rig.run(worker, id))
    assert await ended(rig) == {"a": {"dead": 1, "succeeded": 1}}


async def test_parents_and_parts_are_jobs(rig: Rig) -> None:
    """[M7] [P9] A parent ends once, after its parts; a redrive makes it end again."""
    worker = await rig.worker()
    parent = await rig.parent(worker, parts=2, parallel=2)
    await rig.store.promote()
    one, other = await rig.claim(worker)
    await rig.finish(worker, one)
    await rig.finish(worker, other, Kind.DEAD)
    assert (await rig.parent_record(parent)).state is State.DEAD
    assert await ended(rig) == {"t": {"dead": 2, "succeeded": 1}}
    await rig.store.redrive(parent)
    await rig.store.promote()
    await rig.finish(worker, await rig.claim(worker))
    assert (await rig.parent_record(parent)).state is State.SUCCEEDED
    assert await ended(rig) == {"t": {"dead": 2, "succeeded": 3}}


async def test_a_job_whose_other_failed_has_ended(rig: Rig) -> None:
    """[M7] [P12] Dead or cancelled while it waited for one that did not succeed."""
    worker = await rig.worker()
    first = (await rig.one("first")).id
    await rig.one("dies", after=(first,))
    await rig.one("stops", after=(first,), otherwise="cancel")
    await rig.finish(worker, await rig.run(worker, first), Kind.DEAD)
    await rig.store.promote()
    assert await ended(rig) == {"first": {"dead": 1}, "dies": {"dead": 1}, "stops": {"cancelled": 1}}


async def test_counts_outlive_the_jobs(rig: Rig) -> None:
    """[M7] [K6] Through turns of the logs: before they are counted, after, and with a claim half finished."""
    worker = await rig.worker()
    await rig.add("a", "b", "c", "d")
    jobs = await rig.claim(worker)
    await rig.finish(worker, jobs[:2])
    await rig.turn()
    await rig.finish(worker, jobs[2], Kind.DEAD)
    await rig.add("e", "f")
    await rig.finish(worker, await rig.claim(worker))
    await rig.turn()
    counted = {"a": {"succeeded": 1}, "b": {"succeeded": 1}, "c": {"dead": 1}}
    counted |= {"e": {"succeeded": 1}, "f": {"succeeded": 1}}
    assert await ended(rig) == counted
    await rig.finish(worker, jobs[3])
    await rig.turn()
    assert await ended(rig) == {**counted, "d": {"succeeded": 1}}
    assert await rig.store.recount() == []


async def test_counting_in_small_steps_counts_each_end_once(rig: Rig) -> None:
    """[M7] Over several lanes, with claims that are open; the sum is right after every step."""
    worker = await rig.worker()
    tasks = Counter({"a": 9, "b": 7})
    for queue in ("one", "two"):
        for priority in (0, 2):
            await rig.store.enqueue([job(task, queue=queue, priority=priority) for task in tasks.elements()])
    held = []
    for _ in range(16):
        got = await rig.claim(worker, "one", "two", limit=4)
        held.append(got.pop())
        await rig.finish(worker, got)
    for left in (held, []):
        steps = 0
        more = True
        while more:
            more = (await rig.store.count_ends(2)).more
            done = sum(sum(each.counts.values()) for each in await rig.store.ended())
            assert done == 64 - len(left), f"after step {steps}"
            steps += 1
            assert steps < 100
        await rig.finish(worker, left)
    assert (
        await ended(rig, "one")
        == await ended(rig, "two")
        == {task: {"succeeded": 2 * n} for task, n in tasks.items()}
    )
    assert await rig.store.recount() == []
