"""Jobs that come after others: they wait for them to succeed, and what happens if they do not [P12]."""

import pytest

from tests.conformance.kit import Rig
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.errors import JobNotFound
from windlass.store.records import JobChange

ENDS = {"dead": State.DEAD, "cancel": State.CANCELLED, "run": State.READY}


async def test_its_own_time_is_shown_while_it_waits(rig: Rig) -> None:
    """[P12] [E8]"""
    (first,) = await rig.add("first")
    receipt = await rig.one("second", after=(first,), run_at=7_000_000_000.0)
    assert (await rig.look(receipt.id)).run_at == 7_000_000_000.0
    await rig.store.change(receipt.id, JobChange(run_at=7_100_000_000.0))
    assert (await rig.look(receipt.id)).run_at == 7_100_000_000.0


async def test_it_waits_until_the_other_has_succeeded(rig: Rig) -> None:
    """[P12] Scheduled, without a time, and it says what for; the next promotion offers it."""
    worker = await rig.worker()
    (first,) = await rig.add("first")
    receipt = await rig.one("second", after=(first,))
    assert receipt.status == "scheduled"
    record = await rig.look(receipt.id)
    assert (record.state, record.run_at) == (State.SCHEDULED, None)
    assert str(first) in (record.reason or "")
    await rig.store.promote()
    job = await rig.run(worker, first)
    await rig.store.promote()
    assert await rig.claim(worker) == []
    assert (await rig.depth()).scheduled == 1
    await rig.finish(worker, job)
    await rig.store.promote()
    record = await rig.look(receipt.id)
    assert (record.state, record.reason) == (State.READY, None)
    assert (await rig.run(worker, receipt.id)).task == "second"


async def test_the_end_of_a_job_is_all_it_takes(rig: Rig) -> None:
    """[W4] [P12] Nobody promotes: who comes after a job is ready when its end is written, in order."""
    worker = await rig.worker()
    first, second = await rig.add("first", "second")
    after = [
        (await rig.add("a", after=(first,)))[0],
        (await rig.add("b", after=(first, second)))[0],
        (await rig.add("c", after=(second,)))[0],
    ]
    await rig.finish(worker, await rig.claim(worker))
    assert {await rig.state(id) for id in after} == {State.READY}
    assert [job.id for job in await rig.claim(worker)] == after


async def test_who_comes_after_an_end_that_is_past_does_not_wait(rig: Rig) -> None:
    """[W4] [P12] Also among others in one call."""
    worker = await rig.worker()
    done = await rig.bring(State.SUCCEEDED, worker)
    (open_,) = await rig.add("open")
    late, waits, plain = await rig.add("late", "waits", "plain", after=(done,))
    (waits,) = await rig.add("waits", after=(done, open_))
    assert [await rig.state(id) for id in (late, waits, plain)] == [
        State.READY, State.SCHEDULED, State.READY,
    ]  # fmt: skip


async def test_all_of_them(rig: Rig) -> None:
    """[P12] In whatever order they end; one that is tried again has not."""
    worker = await rig.worker()
    firsts = await rig.add("a", "b", "c")
    (last,) = await rig.add("last", after=tuple(firsts))
    a, b, c = await rig.claim(worker)
    await rig.finish(worker, [c, a])
    await rig.finish(worker, b, Kind.RETRY)
    await rig.store.promote()
    assert await rig.state(last) is State.SCHEDULED
    await rig.finish(worker, await rig.run(worker, b.id))
    await rig.store.promote()
    assert await rig.state(last) is State.READY


async def test_it_says_how_many_are_left(rig: Rig) -> None:
    """[P12] One of them by its id: there may be thousands."""
    worker = await rig.worker()
    left = await rig.add("a", "b", "c")
    (last,) = await rig.add("last", after=tuple(left))
    for rest in (" and 2 others", " and 1 other", ""):
        await rig.store.promote()
        message = f"waits for job {min(left)}{rest}"
        assert (await rig.look(last)).reason == message
        assert [found.reason for found in await rig.listing(task="last")] == [message]
        await rig.finish(worker, await rig.run(worker, left.pop(0)))
    await rig.store.promote()
    assert (await rig.look(last)).reason is None


async def test_a_chain(rig: Rig) -> None:
    """[P12] One after the other, however many promotions there are."""
    worker = await rig.worker()
    ids = await rig.add("a")
    for task in ("b", "c"):
        ids += await rig.add(task, after=(ids[-1],))
    for id in ids:
        await rig.store.promote()
        await rig.store.promote()
        await rig.finish(worker, await rig.run(worker, id))
    assert {await rig.state(id) for id in ids} == {State.SUCCEEDED}


async def test_after_one_that_has_succeeded_before(rig: Rig) -> None:
    """[P12]"""
    worker = await rig.worker()
    done = await rig.bring(State.SUCCEEDED, worker)
    (id,) = await rig.add("t", after=(done,))
    await rig.store.promote()
    await rig.run(worker, id)


@pytest.mark.parametrize("way", ["dead", "cancelled", "deleted", "poison", "dead before", "cancelled before"])
async def test_where_the_other_ends_in_another_way(rig: Rig, way: str) -> None:
    """[P12] As each job itself says: dead, cancelled, or ready all the same."""
    worker, observer = await rig.worker(), await rig.worker()
    if way.endswith("before"):
        first = await rig.bring(State.DEAD if way == "dead before" else State.CANCELLED, worker)
    else:
        (first,) = await rig.add("first")
    ids = {policy: (await rig.one(policy, after=(first,), otherwise=policy)).id for policy in ENDS}
    if way == "deleted":
        await rig.store.delete([first])
    elif not way.endswith("before"):
        job = await rig.run(worker, first)
        if way == "poison":
            await rig.die(worker, DeathPolicy(poison=1))
        else:
            await rig.finish(worker, job, Kind(way))
    await rig.store.promote()
    assert {policy: await rig.state(id) for policy, id in ids.items()} == ENDS
    assert str(first) in ((await rig.look(ids["dead"])).reason or "")
    assert [job.id for job in await rig.claim(observer)] == [ids["run"]]


@pytest.mark.parametrize("state", [State.READY, State.SCHEDULED, State.RETRYING])
async def test_one_that_was_replaced_has_not_succeeded(rig: Rig, state: State) -> None:
    """[P12] [E6] It never ran: those after it end by their policy. On PostgreSQL a twin that waited for its
    time was gone without a note, which counts as a success."""
    worker = await rig.worker()
    twin = await rig.bring(state, worker, unique_key="k")
    ids = {policy: (await rig.add("t", after=(twin,), otherwise=policy))[0] for policy in ENDS}
    assert (await rig.one(unique_key="k", on_conflict="replace", delay=60)).status == "replaced"
    await rig.store.promote()
    assert {policy: await rig.state(id) for policy, id in ids.items()} == ENDS


async def test_one_held_aside_that_was_replaced_has_not_succeeded(rig: Rig) -> None:
    """[P12] [E6] The same for one that waits in the line of its key."""
    await rig.add("t", concurrency_key="c")
    (twin,) = await rig.add("t", concurrency_key="c", unique_key="k")
    (id,) = await rig.add("t", after=(twin,))
    assert (await rig.one(unique_key="k", on_conflict="replace", delay=60)).status == "replaced"
    await rig.store.promote()
    assert await rig.state(id) is State.DEAD


async def test_ready_all_the_same_when_all_have_ended(rig: Rig) -> None:
    """[P12] One that runs in any case still comes after the others."""
    worker = await rig.worker()
    good, bad = await rig.add("good", "bad")
    (id,) = await rig.add("t", after=(good, bad), otherwise="run")
    job = await rig.run(worker, good)
    await rig.store.cancel([bad])
    await rig.store.promote()
    assert await rig.state(id) is State.SCHEDULED
    await rig.finish(worker, job)
    await rig.store.promote()
    assert await rig.state(id) is State.READY


async def test_its_own_time_counts_too(rig: Rig) -> None:
    """[P12] A job with a delay waits for both, whichever comes last."""
    worker = await rig.worker()
    (first,) = await rig.add("first")
    soon, late = (
        await rig.add("soon", after=(first,), delay=60),
        await rig.add("late", after=(first,), delay=600),
    )
    await rig.clock.advance(61)
    await rig.store.promote()
    job = await rig.run(worker, first)
    await rig.finish(worker, job)
    await rig.store.promote()
    assert (await rig.state(soon[0]), await rig.state(late[0])) == (State.READY, State.SCHEDULED)
    await rig.clock.advance(600)
    await rig.store.promote()
    assert await rig.state(late[0]) is State.READY


async def test_the_same_one_twice(rig: Rig) -> None:
    """[P12] Counts once."""
    worker = await rig.worker()
    (first,) = await rig.add("first")
    (id,) = await rig.add("t", after=(first, first))
    await rig.finish(worker, await rig.run(worker, first))
    await rig.store.promote()
    assert await rig.state(id) is State.READY


async def test_one_that_fails_is_enough(rig: Rig) -> None:
    """[P12] The others need not be waited for; the unique key is free again."""
    worker = await rig.worker()
    good, bad = await rig.add("good", "bad")
    (id,) = await rig.add("t", after=(good, bad), unique_key="k")
    await rig.claim(worker, limit=1)
    await rig.store.cancel([bad])
    await rig.store.promote()
    assert await rig.state(id) is State.DEAD
    assert (await rig.one(unique_key="k")).status == "enqueued"


async def test_a_failure_goes_down_the_chain(rig: Rig) -> None:
    """[P12] One link a promotion at the least."""
    worker = await rig.worker()
    ids = await rig.add("a")
    for task in ("b", "c", "d"):
        ids += await rig.add(task, after=(ids[-1],))
    await rig.finish(worker, await rig.claim(worker), Kind.DEAD)
    for _ in range(3):
        await rig.store.promote()
    assert [await rig.state(id) for id in ids] == [State.DEAD] * 4


async def test_the_operators_retry_waits_no_longer(rig: Rig) -> None:
    """[P12] [O6] It is offered at once, and never taken back."""
    worker = await rig.worker()
    (first,) = await rig.add("first", delay=60)
    (id,) = await rig.add("second", after=(first,))
    assert await rig.store.retry([id]) == {id: "retried"}
    await rig.store.cancel([first])
    await rig.store.promote()
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, delay=30)
    await rig.store.promote()
    assert await rig.state(id) is State.RETRYING
    await rig.clock.advance(31)
    await rig.store.promote()
    await rig.finish(worker, await rig.run(worker, id))
    assert await rig.state(id) is State.SUCCEEDED


async def test_a_dead_one_is_brought_back_without_waiting(rig: Rig) -> None:
    """[P12] [O6]"""
    worker = await rig.worker()
    dead = await rig.bring(State.DEAD, worker)
    (id,) = await rig.add("t", after=(dead,))
    await rig.store.promote()
    assert await rig.state(id) is State.DEAD
    assert await rig.store.retry([id]) == {id: "retried"}
    await rig.store.promote()
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY)
    await rig.store.promote()
    assert (await rig.run(worker, id)).attempt == 2


async def test_cancel_and_delete_of_one_that_waits(rig: Rig) -> None:
    """[O5] [P12] As of any other waiting job."""
    worker = await rig.worker()
    (first,) = await rig.add("first")
    one, two = await rig.add("one", "two", after=(first,))
    assert await rig.store.cancel([one]) == {one: "cancelled"}
    assert await rig.store.delete([two]) == {two: "deleted"}
    await rig.finish(worker, await rig.run(worker, first))
    await rig.store.promote()
    assert await rig.claim(worker) == []


@pytest.mark.parametrize(("kind", "state"), [(Kind.SUCCEEDED, State.READY), (Kind.DEAD, State.DEAD)])
async def test_after_a_parent(rig: Rig, kind: Kind, state: State) -> None:
    """[P12] [P9] When all its parts have ended, not when it was split."""
    worker = await rig.worker()
    (first,) = await rig.add("big", chunked=True)
    (id,) = await rig.add("t", after=(first,))
    await rig.split(worker, await rig.run(worker, first), 2, parallel=1)
    await rig.store.promote()
    await rig.finish(worker, await rig.claim(worker))
    await rig.store.promote()
    assert await rig.state(id) is State.SCHEDULED
    await rig.finish(worker, await rig.claim(worker), kind)
    await rig.store.promote()
    await rig.store.promote()
    assert await rig.state(id) is state


async def test_an_id_that_is_no_jobs(rig: Rig) -> None:
    """[P12] [E1] Refused, with everything else of the call."""
    (known,) = await rig.add("known")
    with pytest.raises(JobNotFound):
        await rig.add("a", "b", after=(known, 987654321))
    assert [record.id for record in await rig.listing()] == [known]


async def test_it_takes_turns_when_it_is_ready(rig: Rig) -> None:
    """[C3] [P12] A fair key counts from then on."""
    worker = await rig.worker()
    done = await rig.bring(State.SUCCEEDED, worker)
    (id,) = await rig.add("t", after=(done,), fair_key="f")
    await rig.store.promote()
    await rig.store.promote()
    await rig.run(worker, id)


async def test_many_after_one(rig: Rig) -> None:
    """[P12] All of them are offered, in bounded steps."""
    worker = await rig.worker()
    (first,) = await rig.add("first")
    ids = await rig.add(*(["t"] * 25), after=(first,))
    await rig.finish(worker, await rig.run(worker, first))
    for _ in range(4):
        await rig.store.promote(limit=10)
    assert {job.id for job in await rig.claim(worker)} == set(ids)


async def test_it_survives_rotation(rig: Rig) -> None:
    """[K6] [P12] One that waits, and what it knows of those that have succeeded and gone."""
    worker = await rig.worker()
    a, b = await rig.add("a", "b")
    (id,) = await rig.add("t", after=(a, b), payload="[1]")
    await rig.finish(worker, await rig.run(worker, a))
    await rig.store.promote()
    job = await rig.run(worker, b)
    await rig.turn()
    assert await rig.state(id) is State.SCHEDULED
    await rig.finish(worker, job)
    await rig.store.promote()
    assert (await rig.run(worker, id)).payload == "[1]"


@pytest.mark.parametrize("way", ["deleted", "rotated"])
async def test_success_outlives_the_job(rig: Rig, way: str) -> None:
    """[P12] [K6] One that has succeeded has, also where it is gone before anybody has looked."""
    worker = await rig.worker()
    (first,) = await rig.add("first")
    (id,) = await rig.add("second", after=(first,))
    await rig.finish(worker, await rig.run(worker, first))
    if way == "deleted":
        assert await rig.store.delete([first]) == {first: "deleted"}
    else:
        await rig.turn()
    assert await rig.state(first) is None
    await rig.store.promote()
    await rig.run(worker, id)


async def test_a_failure_goes_down_a_chain_at_once(rig: Rig) -> None:
    """[P12] Whoever waits for the end of a chain need not wait once for each of its links."""
    worker = await rig.worker()
    (first,) = await rig.add("t")
    chain = [first]
    for _ in range(3):
        chain += await rig.add("t", after=(chain[-1],))
    await rig.finish(worker, await rig.run(worker, first), Kind.DEAD)
    await rig.store.promote()
    assert [await rig.state(id) for id in chain] == [State.DEAD] * 4


@pytest.mark.parametrize("others", [0, 1])
async def test_after_one_that_was_dead_and_brought_back(rig: Rig, others: int) -> None:
    """[P12] [O6] It has succeeded, also where the logs have forgotten it by the time that anybody looks: the
    note of how it ended before must go, also where several are brought back at once."""
    worker = await rig.worker()
    dead = [await rig.bring(State.DEAD, worker) for _ in range(1 + others)]
    assert set((await rig.store.retry(dead)).values()) == {"retried"}
    (id,) = await rig.add("t", after=(dead[0],))
    await rig.finish(worker, await rig.claim(worker))
    await rig.turn()
    await rig.store.promote()
    assert await rig.state(id) is State.READY


@pytest.mark.parametrize("way", ["dead", "cancelled"])
async def test_after_a_parent_that_was_brought_back(rig: Rig, way: str) -> None:
    """[P12] [P9] As for any other job, also once its retention has passed."""
    worker = await rig.worker()
    (first,) = await rig.add("big", chunked=True)
    await rig.split(worker, await rig.run(worker, first), 2, parallel=2)
    await rig.store.promote()
    parts = await rig.claim(worker)
    if way == "cancelled":
        await rig.store.cancel([first])
    await rig.finish(worker, parts, Kind(way))
    await rig.store.promote()
    assert await rig.state(first) is State(way)
    assert await rig.store.redrive(first) == 2
    (id,) = await rig.add("t", after=(first,))
    await rig.store.promote()
    await rig.finish(worker, await rig.claim(worker))
    await rig.store.promote()
    assert await rig.state(first) is State.SUCCEEDED
    await rig.clock.advance(9 * 3600.0)
    await rig.turn()
    await rig.store.expire()
    assert await rig.store.parent(first) is None
    await rig.store.promote()
    assert await rig.state(id) is State.READY
