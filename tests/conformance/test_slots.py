"""How the slot of a limit becomes free, and who has it next [F3]."""

import pytest

from tests.conformance.gate_kit import reason, settle, take, tasks
from tests.conformance.kit import Rig, failure
from windlass.core.states import Kind, State
from windlass.store.records import ClaimedJob


async def end(rig: Rig, worker: int, claimed: ClaimedJob, kind: Kind) -> None:
    await rig.finish(worker, claimed, kind, error=failure() if kind is Kind.DEAD else None)


async def succeed(rig: Rig, worker: int, claimed: ClaimedJob) -> None:
    await end(rig, worker, claimed, Kind.SUCCEEDED)


async def die(rig: Rig, worker: int, claimed: ClaimedJob) -> None:
    await end(rig, worker, claimed, Kind.DEAD)


async def be_cancelled(rig: Rig, worker: int, claimed: ClaimedJob) -> None:
    assert await rig.store.cancel([claimed.id]) == {claimed.id: "requested"}
    await end(rig, worker, claimed, Kind.CANCELLED)


async def be_deleted(rig: Rig, worker: int, claimed: ClaimedJob) -> None:
    assert await rig.store.delete([claimed.id]) == {claimed.id: "requested"}
    await end(rig, worker, claimed, Kind.RELEASED)


async def retry_later(rig: Rig, worker: int, claimed: ClaimedJob) -> None:
    await rig.finish(worker, claimed, Kind.RETRY, delay=3600, error=failure())


async def snooze(rig: Rig, worker: int, claimed: ClaimedJob) -> None:
    await rig.finish(worker, claimed, Kind.SNOOZE, delay=3600)


async def split(rig: Rig, worker: int, claimed: ClaimedJob) -> None:
    await rig.split(worker, claimed, parts=0)


ENDS = [succeed, die, be_cancelled, be_deleted, retry_later, snooze, split]


@pytest.mark.parametrize("limit", ["key", "task"])
async def test_the_slot_is_free_again(rig: Rig, limit: str) -> None:
    """[F3] However the run ended, if it is not offered again at once."""
    worker = await rig.worker()
    for way in ENDS:
        name = way.__name__
        options = {"concurrency_key": name} if limit == "key" else {"task_limit": 1}
        first, second = await rig.add(name, name, **options)
        (claimed,) = await take(rig, worker)
        assert claimed.id == first
        await way(rig, worker, claimed)
        (then,) = await take(rig, worker)
        assert then.id == second
        await rig.finish(worker, then)


async def test_one_that_was_let_in_and_taken_back_frees_its_place(rig: Rig) -> None:
    """[F3] [O5] Before anybody claimed it; and one that waits in line leaves it without a trace."""
    worker = await rig.worker()
    for stop in (rig.store.cancel, rig.store.delete):
        first, second, third = await rig.add("t", "t", "t", concurrency_key="k")
        await settle(rig)
        await stop([first, second])
        (claimed,) = await take(rig, worker)
        assert claimed.id == third
        await rig.finish(worker, claimed)
    assert (await rig.depth()).ready == 0


async def test_a_replaced_twin_frees_its_place(rig: Rig) -> None:
    """[F3] [E6]"""
    await rig.one("old", concurrency_key="k", unique_key="u")
    await settle(rig)
    assert (await rig.one("new", concurrency_key="k", unique_key="u", on_conflict="replace")).status == (
        "replaced"
    )
    assert await tasks(rig, await rig.worker()) == ["new"]


async def test_one_offered_again_at_once_keeps_its_slot(rig: Rig) -> None:
    """[F3] It does not go behind those that wait."""
    first, second = await rig.add("t", "t", concurrency_key="k", task_limit=1)
    worker = await rig.worker()
    for kind in (Kind.RELEASED, Kind.RETRY, Kind.SNOOZE, Kind.SUCCEEDED):
        (claimed,) = await take(rig, worker)
        assert claimed.id == first
        await rig.finish(worker, claimed, kind)
    assert [job.id for job in await take(rig, worker)] == [second]


async def test_a_retired_workers_jobs_keep_their_slots(rig: Rig) -> None:
    """[F3] [K2] They are offered again at once."""
    first, _ = await rig.add("t", "t", concurrency_key="k")
    gone, worker = await rig.worker(), await rig.worker()
    await take(rig, gone)
    assert await rig.store.retire(gone) == 1
    assert [job.id for job in await take(rig, worker)] == [first]


async def test_a_rescued_job_keeps_its_slot_once(rig: Rig) -> None:
    """[F3] [C8] Offered again at once it keeps it; put off after a second death it gives it up; dead, too."""
    first, second, third = await rig.add("t", "t", "t", concurrency_key="k")
    for death in range(2):
        gone = await rig.worker()
        assert [job.id for job in await take(rig, gone)] == [first]
        rescued = await rig.die(gone)
        assert (rescued.offered, rescued.deferred) == ((1, 0), (0, 1))[death]
    worker = await rig.worker()
    (claimed,) = await take(rig, worker)
    assert claimed.id == second
    await rig.clock.advance(3600)
    assert await take(rig, worker) == []
    await rig.finish(worker, claimed)
    (behind,) = await take(rig, worker)  # it came back behind the one that waited all the while
    assert behind.id == third
    await rig.finish(worker, behind)
    gone = await rig.worker()
    assert [job.id for job in await take(rig, gone)] == [first]
    assert (await rig.die(gone)).dead == 1
    await rig.one("t", concurrency_key="k")
    assert len(await take(rig, worker)) == 1


async def test_a_due_job_goes_to_the_end_of_the_line(rig: Rig) -> None:
    """[F3] [C2] A retry takes its place behind those that waited."""
    first, second, third = await rig.add("t", "t", "t", concurrency_key="k")
    worker = await rig.worker()
    await rig.finish(worker, await take(rig, worker), Kind.RETRY, delay=60, error=failure())
    (claimed,) = await take(rig, worker)
    await rig.clock.advance(61)
    await settle(rig)
    assert (await rig.look(first)).state is State.READY
    order = [claimed.id]
    while len(order) < 3:
        await rig.finish(worker, claimed)
        (claimed,) = await take(rig, worker)
        order.append(claimed.id)
    assert order == [second, third, first]


async def test_a_scheduled_job_comes_to_its_gate_when_it_is_due(rig: Rig) -> None:
    """[F3] [E2] Before that it takes no place."""
    assert (await rig.one("later", concurrency_key="k", delay=60)).status == "scheduled"
    await rig.one("now", concurrency_key="k")
    worker = await rig.worker()
    (claimed,) = await take(rig, worker)
    await rig.clock.advance(61)
    assert await take(rig, worker) == []
    await rig.finish(worker, claimed)
    assert (claimed.task, await tasks(rig, worker)) == ("now", ["later"])


async def test_one_that_comes_after_another_goes_to_its_gate_then(rig: Rig) -> None:
    """[F3] [P12]"""
    first = (await rig.one("first")).id
    await rig.one("then", concurrency_key="k", after=(first,))
    await rig.one("busy", concurrency_key="k")
    worker = await rig.worker()
    done, busy = sorted(await take(rig, worker), key=lambda job: job.task != "first")
    await rig.finish(worker, done)
    assert await take(rig, worker) == []
    await rig.finish(worker, busy)
    assert await tasks(rig, worker) == ["then"]


async def test_an_operators_retry_goes_through_the_gates_anew(rig: Rig) -> None:
    """[F3] [O6] A dead job does not run beside the one that has its slot."""
    dead = await rig.bring(State.READY, 0, concurrency_key="k")
    worker = await rig.worker()
    await rig.finish(worker, await take(rig, worker), Kind.DEAD)
    await rig.one("other", concurrency_key="k")
    (other,) = await take(rig, worker)
    assert await rig.store.retry([dead]) == {dead: "retried"}
    assert await take(rig, worker) == []
    assert "slot" in await reason(rig, dead)
    await rig.finish(worker, other)
    assert [job.id for job in await take(rig, worker)] == [dead]


async def test_a_retry_put_forward_goes_through_the_gates_anew(rig: Rig) -> None:
    """[F3] [O6] So does one that waited for its time."""
    retrying = (await rig.one(concurrency_key="k")).id
    worker = await rig.worker()
    await rig.finish(worker, await take(rig, worker), Kind.RETRY, delay=3600, error=failure())
    await rig.one("other", concurrency_key="k")
    (other,) = await take(rig, worker)
    assert await rig.store.retry([retrying]) == {retrying: "retried"}
    assert await take(rig, worker) == []
    await rig.finish(worker, other)
    assert [job.id for job in await take(rig, worker)] == [retrying]


@pytest.mark.parametrize("limit", ["key", "task"])
async def test_a_lower_limit_holds_for_those_who_have_a_slot_already(rig: Rig, limit: str) -> None:
    """[F3] [fault 35] Jobs stand in their lane with a slot each when the limit is lowered: never do more of
    them start than it says when they are claimed. The others wait, and all run in the end."""
    setting, options = {"key": ("key_concurrency", {"concurrency_key": "k"}), "task": ("concurrency", {})}[
        limit
    ]
    worker = await rig.worker()
    await rig.store.set_task("t", {setting: 4})
    await rig.add(*["t"] * 7, **options)
    await settle(rig)
    running = await rig.claim(worker, limit=1)
    await rig.store.set_task("t", {setting: 2})
    running += await rig.claim(worker, limit=100)
    assert len(running) == 2, "three more had a slot"
    ended: list[int] = []
    while running:
        ended.append(running[0].id)
        await succeed(rig, worker, running.pop(0))
        running += await take(rig, worker)
        assert len(running) <= 2
    assert len(set(ended)) == len(ended) == 7


async def test_jobs_let_through_by_a_limit_that_is_gone_leave_no_pass_behind(rig: Rig) -> None:
    """[F3] They waited for a slot when the limit was taken away; set again, it has all its slots."""
    await rig.store.set_task("t", {"concurrency": 1})
    await rig.add("t", "t", "t", "t")
    worker = await rig.worker()
    running = await rig.claim(worker, limit=10)
    assert len(running) == 1
    await rig.store.set_task("t", {"concurrency": None})
    await rig.store.promote()
    others = await rig.claim(worker, limit=10)
    assert len(others) == 3
    await rig.finish(worker, [*running, *others])
    await rig.store.set_task("t", {"concurrency": 2})
    await rig.add("t", "t", "t")
    await rig.store.promote()
    assert len(await rig.claim(worker, limit=10)) == 2
