"""Unique keys: one unfinished job per key, three policies, and the rerun [E6]."""

import pytest

from tests.conformance.kit import Rig, job
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.errors import AlreadyEnqueued
from windlass.store.records import Step, Wait

WAITING = [State.READY, State.SCHEDULED, State.RETRYING]
ENDED = [State.SUCCEEDED, State.DEAD, State.CANCELLED]


@pytest.mark.parametrize("state", WAITING)
async def test_skip_names_the_waiting_twin(rig: Rig, state: State) -> None:
    """[E6] The twin stands for the new job, in whatever way it waits."""
    twin = await rig.bring(state, await rig.worker(), unique_key="k")
    receipt = await rig.one("new", unique_key="k")
    assert (receipt.id, receipt.status) == (twin, "skipped")
    assert [record.task for record in await rig.listing()] == ["t"]


async def test_skip_names_a_twin_held_for_its_fair_key(rig: Rig) -> None:
    """[E6]"""
    twin = await rig.one(unique_key="k", fair_key="f")
    receipt = await rig.one(unique_key="k")
    assert (receipt.id, receipt.status) == (twin.id, "skipped")


async def test_a_job_skipped_while_its_twin_waited_does_not_run_again(rig: Rig) -> None:
    """[E6] The twin had not begun, so it will see the edit: no rerun."""
    worker = await rig.worker()
    twin = await rig.one(unique_key="k")
    assert (await rig.one(unique_key="k")).status == "skipped"
    await rig.finish(worker, await rig.run(worker, twin.id))
    assert len(await rig.listing()) == 1
    assert await rig.claim(worker) == []


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("end", [Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED])
async def test_an_enqueue_while_the_twin_runs_is_remembered(rig: Rig, policy: str, end: Kind) -> None:
    """[E6] The edit is not lost: when the twin ends, however, a fresh job with a new id begins."""
    worker = await rig.worker()
    twin = await rig.one("old", unique_key="k")
    claimed = await rig.run(worker, twin.id)
    receipt = await rig.one("new", unique_key="k", on_conflict=policy, payload='{"v":2}')
    assert (receipt.id, receipt.status) == (twin.id, "rerun")
    assert len(await rig.listing()) == 1
    await rig.finish(worker, claimed, end)
    (again,) = await rig.claim(worker)
    assert again.id != twin.id
    assert (again.task, again.payload, again.attempt) == ("new", '{"v":2}', 1)
    await rig.finish(worker, again)
    assert await rig.claim(worker) == []


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("begun", ["sleeps", "waits", "was signalled", "retries"])
async def test_a_twin_that_has_begun_and_is_put_off_is_one_that_runs(
    rig: Rig, policy: str, begun: str
) -> None:
    """[E6] [W1] Its steps are not done again, so it would not see the edit; nor is it taken away half-way.
    Found by reading: the edit was lost, or the job."""
    worker = await rig.worker()
    twin = (await rig.one(unique_key="k")).id
    claimed = await rig.run(worker, twin)
    if begun in ("sleeps", "retries"):
        await rig.store.save_step(worker, claimed, Step(name="plan", result="7"))
    else:
        wait = Wait(name="wait:go", signal="go")
        assert (await rig.store.wait_for_signal(worker, claimed, wait)).step is None
    await rig.finish(worker, claimed, Kind.RETRY if begun == "retries" else Kind.SNOOZE, delay=60)
    if begun == "was signalled":
        assert await rig.store.signal(twin, "go", "1") == "delivered"
    receipt = await rig.one("edit", unique_key="k", on_conflict=policy)
    assert (receipt.id, receipt.status) == (twin, "rerun")
    await rig.clock.advance(61)
    await rig.store.promote()
    again = await rig.run(worker, twin)
    assert len(await rig.store.steps(twin)) == (begun != "waits")
    await rig.finish(worker, again)
    await rig.store.promote()
    (edit,) = await rig.claim(worker)
    assert edit.task == "edit"


async def test_the_last_rerun_wins(rig: Rig) -> None:
    """[E6] However many come while the twin runs, one rerun follows, with the newest payload."""
    worker = await rig.worker()
    claimed = await rig.run(worker, (await rig.one(unique_key="k")).id)
    for version in range(3):
        assert (await rig.one(unique_key="k", payload=f"[{version}]")).status == "rerun"
    await rig.finish(worker, claimed)
    assert [job.payload for job in await rig.claim(worker)] == ["[2]"]


async def test_the_rerun_holds_the_key(rig: Rig) -> None:
    """[E6] It is an ordinary job: it can be skipped for, and rerun in its turn."""
    worker = await rig.worker()
    claimed = await rig.run(worker, (await rig.one(unique_key="k")).id)
    await rig.one(unique_key="k")
    await rig.finish(worker, claimed)
    (rerun,) = await rig.listing(state=State.READY)
    skipped = await rig.one(unique_key="k")
    assert (skipped.id, skipped.status) == (rerun.id, "skipped")
    await rig.run(worker, rerun.id)
    assert (await rig.one(unique_key="k")).status == "rerun"


async def test_a_rerun_keeps_its_delay(rig: Rig) -> None:
    """[E6] [E2] It is enqueued as it was asked for, only later: what was put off is put off."""
    worker = await rig.worker()
    claimed = await rig.run(worker, (await rig.one("old", unique_key="k")).id)
    assert (await rig.one("new", unique_key="k", delay=600, fair_key="f")).status == "rerun"
    await rig.finish(worker, claimed)
    assert [record.task for record in await rig.listing(state=State.SCHEDULED)] == ["new"]
    assert await rig.claim(worker) == []
    await rig.clock.advance(700)
    await rig.store.promote()
    await rig.store.promote()
    assert [job.task for job in await rig.claim(worker)] == ["new"]


async def test_a_rerun_waits_for_the_end_for_good(rig: Rig) -> None:
    """[E6] A failed attempt is not the end; the rerun begins when the last one is."""
    worker = await rig.worker()
    twin = await rig.one(unique_key="k", max_attempts=2)
    claimed = await rig.run(worker, twin.id)
    await rig.one("new", unique_key="k")
    await rig.finish(worker, claimed, Kind.RETRY)
    assert len(await rig.listing()) == 1
    await rig.finish(worker, await rig.run(worker, twin.id), Kind.RETRY)
    assert await rig.state(twin.id) is State.DEAD
    assert [job.task for job in await rig.claim(worker)] == ["new"]


async def test_a_rerun_survives_rescue_and_begins_with_poison(rig: Rig) -> None:
    """[E6] [C8] The key is freed on every terminal path, rescue included."""
    twin = await rig.one(unique_key="k")
    first = await rig.worker()
    await rig.run(first, twin.id)
    await rig.one("new", unique_key="k")
    await rig.die(first)
    assert len(await rig.listing()) == 1
    second = await rig.worker()
    await rig.run(second, twin.id)
    await rig.die(second, DeathPolicy(poison=2))
    assert await rig.state(twin.id) is State.DEAD
    assert [job.task for job in await rig.claim(await rig.worker())] == ["new"]


@pytest.mark.parametrize("end", ["cancel", "delete"])
async def test_a_rerun_begins_when_its_retrying_twin_is_taken_away(rig: Rig, end: str) -> None:
    """[E6] Cancel and delete end a job for good, too."""
    worker = await rig.worker()
    twin = await rig.one(unique_key="k")
    claimed = await rig.run(worker, twin.id)
    await rig.one("new", unique_key="k")
    await rig.finish(worker, claimed, Kind.RETRY, delay=3600)
    await (rig.store.cancel([twin.id]) if end == "cancel" else rig.store.delete([twin.id]))
    assert [job.task for job in await rig.claim(worker)] == ["new"]


@pytest.mark.parametrize("state", WAITING)
async def test_replace_takes_the_waiting_twin_back(rig: Rig, state: State) -> None:
    """[E6] The new job runs, the old one never does and is found no more."""
    worker = await rig.worker()
    twin = await rig.bring(state, worker, "old", unique_key="k")
    receipt = await rig.one("new", unique_key="k", on_conflict="replace")
    assert receipt.status == "replaced"
    assert receipt.id != twin
    assert await rig.state(twin) is None
    assert [record.id for record in await rig.listing()] == [receipt.id]
    await rig.clock.advance(7200)
    await rig.store.promote()
    assert [job.task for job in await rig.claim(worker)] == ["new"]


async def test_replace_takes_a_held_twin_back(rig: Rig) -> None:
    """[E6] [C3]"""
    await rig.one("old", unique_key="k", fair_key="f")
    assert (await rig.one("new", unique_key="k", on_conflict="replace")).status == "replaced"
    assert (await rig.store.promote()).admitted == 0
    assert [job.task for job in await rig.claim(await rig.worker())] == ["new"]
    assert (await rig.depth()).ready == 0


async def test_replace_may_move_a_job_in_time_and_queue(rig: Rig) -> None:
    """[E6] Debounce: each enqueue puts the run off again."""
    await rig.one("old", unique_key="k")
    receipt = await rig.one("new", unique_key="k", on_conflict="replace", delay=60, queue="other")
    assert (receipt.status, await rig.state(receipt.id)) == ("replaced", State.SCHEDULED)
    assert (await rig.depth()).ready == 0
    await rig.clock.advance(61)
    await rig.store.promote()
    assert [job.task for job in await rig.claim(await rig.worker(), "default", "other")] == ["new"]


async def test_replacing_among_many_leaves_the_others_in_order(rig: Rig) -> None:
    """[E6] [C2] The replacement goes to the back of the lane."""
    await rig.add("a", "b")
    await rig.one("old", unique_key="k")
    await rig.add("c", "d")
    await rig.one("new", unique_key="k", on_conflict="replace")
    assert (await rig.depth()).ready == 5
    assert [job.task for job in await rig.claim(await rig.worker())] == ["a", "b", "c", "d", "new"]


async def test_a_replacement_is_newer_than_a_remembered_rerun(rig: Rig) -> None:
    """[E6] The twin ran, failed and waits; what replaces it replaces its rerun, too."""
    worker = await rig.worker()
    claimed = await rig.run(worker, (await rig.one("old", unique_key="k")).id)
    await rig.one("rerun", unique_key="k")
    await rig.finish(worker, claimed, Kind.RETRY, delay=3600)
    assert (await rig.one("new", unique_key="k", on_conflict="replace")).status == "replaced"
    (new,) = await rig.claim(worker)
    assert new.task == "new"
    await rig.finish(worker, new)
    assert await rig.claim(worker) == []


@pytest.mark.parametrize("state", [*WAITING, State.RUNNING])
async def test_reject_raises_and_names_the_twin(rig: Rig, state: State) -> None:
    """[E6] Any unfinished twin, and nothing is written."""
    twin = await rig.bring(state, await rig.worker(), unique_key="k")
    with pytest.raises(AlreadyEnqueued) as refused:
        await rig.one("new", unique_key="k", on_conflict="reject")
    assert refused.value.job == twin
    assert [record.id for record in await rig.listing()] == [twin]


@pytest.mark.parametrize("policy", ["skip", "replace", "reject"])
@pytest.mark.parametrize("state", ENDED)
async def test_an_ended_job_has_freed_its_key(rig: Rig, state: State, policy: str) -> None:
    """[E6] Freed on every terminal path."""
    old = await rig.bring(state, await rig.worker(), unique_key="k")
    receipt = await rig.one(unique_key="k", on_conflict=policy)
    assert receipt.status == "enqueued"
    assert receipt.id != old


@pytest.mark.parametrize("state", WAITING)
@pytest.mark.parametrize("end", ["cancel", "delete"])
async def test_taking_a_waiting_job_away_frees_its_key(rig: Rig, state: State, end: str) -> None:
    """[E6] [O5]"""
    old = await rig.bring(state, await rig.worker(), unique_key="k")
    await (rig.store.cancel([old]) if end == "cancel" else rig.store.delete([old]))
    assert (await rig.one(unique_key="k", on_conflict="reject")).status == "enqueued"


async def test_exhaustion_and_cancel_while_running_free_the_key(rig: Rig) -> None:
    """[E6] [O4] [O5]"""
    worker = await rig.worker()
    last = await rig.run(worker, (await rig.one(unique_key="k", max_attempts=1)).id)
    await rig.finish(worker, last, Kind.RETRY, delay=60)
    wished = await rig.run(worker, (await rig.one(unique_key="k", on_conflict="reject")).id)
    await rig.store.cancel([wished.id])
    await rig.finish(worker, wished, Kind.RETRY, delay=60)
    assert (await rig.one(unique_key="k", on_conflict="reject")).status == "enqueued"


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.THROTTLED, Kind.UNKNOWN, Kind.RELEASED])
async def test_a_job_offered_again_keeps_its_key(rig: Rig, kind: Kind) -> None:
    """[E6]"""
    worker = await rig.worker()
    claimed = await rig.run(worker, (await rig.one(unique_key="k")).id)
    await rig.finish(worker, claimed, kind, delay=0 if kind is Kind.RELEASED else 60)
    receipt = await rig.one(unique_key="k")
    assert (receipt.id, receipt.status) == (claimed.id, "skipped")


async def test_keys_count_within_one_call(rig: Rig) -> None:
    """[E6] A batch is judged as if its jobs came one after the other."""
    receipts = await rig.store.enqueue(
        [
            job("a1", unique_key="a"),
            job("a2", unique_key="a"),
            job("b1", unique_key="b"),
            job("b2", unique_key="b", on_conflict="replace"),
        ]
    )
    assert [receipt.status for receipt in receipts] == ["enqueued", "skipped", "enqueued", "replaced"]
    assert receipts[1].id == receipts[0].id
    assert [job.task for job in await rig.claim(await rig.worker())] == ["a1", "b2"]
    with pytest.raises(AlreadyEnqueued):
        await rig.store.enqueue([job(unique_key="c"), job(unique_key="c", on_conflict="reject")])
    assert (await rig.one(unique_key="c", on_conflict="reject")).status == "enqueued"


async def test_a_key_is_one_over_queues_and_tasks(rig: Rig) -> None:
    """[E6]"""
    twin = await rig.one("a", unique_key="k", queue="one")
    assert (await rig.one("b", unique_key="k", queue="two")).id == twin.id
