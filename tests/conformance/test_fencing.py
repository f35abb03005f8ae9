"""Fencing: who may write, for which claim, and how often [C5]. Rescue has a file of its own."""

import msgspec
import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.errors import ClaimLost, WorkerLost
from windlass.store.records import Checkpoint, Finished, Outcome, WorkerInfo


@pytest.mark.parametrize("end", ["never registered", "retired", "rescued"])
async def test_a_worker_that_is_not_alive_cannot_write(rig: Rig, end: str) -> None:
    """[C5] Claim, finish, checkpoint and heartbeat are refused, and nothing changes."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    if end == "retired":
        await rig.store.retire(worker)
    elif end == "rescued":
        await rig.die(worker)
    else:
        worker = 404
    await rig.add("more")
    before = await rig.listing()
    with pytest.raises(WorkerLost):
        await rig.store.claim(worker, ["default"], 10)
    with pytest.raises(WorkerLost):
        await rig.store.finish(worker, 1, [Outcome(job=job)])
    with pytest.raises(WorkerLost):
        await rig.store.checkpoint(worker, job, Checkpoint("{}"))
    with pytest.raises(WorkerLost):
        await rig.store.heartbeat(worker)
    assert await rig.listing() == before


async def test_a_worker_id_is_used_once(rig: Rig) -> None:
    """[C5] Also after the worker is gone: its late writes must not pass for the new one's."""
    worker = await rig.worker()
    with pytest.raises(ValueError):
        await rig.store.register(WorkerInfo(id=worker))
    await rig.store.retire(worker)
    with pytest.raises(ValueError):
        await rig.store.register(WorkerInfo(id=worker))
    assert await rig.store.retire(worker) == 0


async def test_retire_gives_back_what_is_held(rig: Rig) -> None:
    """[C5] In good order: uncharged, no death, at the back of the lane."""
    worker, other = await rig.worker(), await rig.worker()
    await rig.add("a", "b", "c", "d")
    claimed = await rig.claim(worker, limit=3)
    await rig.finish(worker, claimed[0])
    assert await rig.store.retire(worker) == 2
    assert worker not in [record.id for record in await rig.store.workers()]
    again = await rig.claim(other)
    assert [job.task for job in again] == ["d", "b", "c"]
    assert {(job.attempt, job.deaths) for job in again} == {(1, 0)}


async def test_retiring_nobody_does_nothing(rig: Rig) -> None:
    """[C5] Unknown, retired already, or rescued."""
    worker = await rig.worker()
    await rig.add("a")
    await rig.claim(worker)
    assert await rig.store.retire(404) == 0
    await rig.die(worker)
    assert await rig.store.retire(worker) == 0


async def test_outcomes_for_others_are_refused_and_the_rest_applied(rig: Rig) -> None:
    """[C5] Refused by job id."""
    mine, other = await rig.worker(), await rig.worker()
    await rig.add("a", "b", "c")
    (theirs,) = await rig.claim(other, limit=1)
    own = await rig.claim(mine)
    finished = await rig.finish(mine, [own[0], theirs, own[1]])
    assert finished == Finished(applied=2, refused=(theirs.id,))
    assert await rig.state(theirs.id) is State.RUNNING
    assert (await rig.finish(other, theirs)).applied == 1


async def test_a_forged_claim_is_refused(rig: Rig) -> None:
    """[C5] A claim that does not exist, a seq outside the claim, a lane that is not its own."""
    worker = await rig.worker()
    await rig.add("a", "b")
    job = (await rig.claim(worker, limit=1))[0]
    for forged in (
        msgspec.structs.replace(job, claim=job.claim + 1000),
        msgspec.structs.replace(job, seq=job.seq + 1),
        msgspec.structs.replace(job, lane=job.lane + 1),
    ):
        assert (await rig.finish(worker, forged)).applied == 0
        with pytest.raises(ClaimLost):
            await rig.store.checkpoint(worker, forged, Checkpoint("{}"))
    assert await rig.state(job.id) is State.RUNNING
    assert (await rig.depth()).ready == 1


async def test_an_earlier_claim_of_the_same_job_is_refused(rig: Rig) -> None:
    """[C5] The worker gave the job back and claimed it again: only the new claim counts."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    old = await rig.run(worker, id)
    await rig.finish(worker, old, Kind.RELEASED)
    new = await rig.run(worker, id)
    assert (new.claim, new.seq) != (old.claim, old.seq)
    assert (await rig.finish(worker, old)).applied == 0
    with pytest.raises(ClaimLost):
        await rig.store.checkpoint(worker, old, Checkpoint("{}"))
    assert await rig.state(id) is State.RUNNING
    assert await rig.finish(worker, new) == Finished(applied=1)


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.RETRY, Kind.DEAD, Kind.CANCELLED, Kind.RELEASED])
async def test_a_flush_sent_again_changes_nothing(rig: Rig, kind: Kind) -> None:
    """[C5] The answer was lost; the same number and outcomes count as repeated, also after a rotation."""
    worker = await rig.worker()
    await rig.add("a", "b", "c")
    outcomes = [Outcome(job=job, kind=kind) for job in await rig.claim(worker)]
    assert await rig.store.finish(worker, 1, outcomes) == Finished(applied=3)
    before = [await rig.state(outcome.job.id) for outcome in outcomes]
    depth = await rig.depth()
    assert await rig.store.finish(worker, 1, outcomes) == Finished(repeated=3)
    assert [await rig.state(outcome.job.id) for outcome in outcomes] == before
    await rig.turn()
    assert await rig.store.finish(worker, 1, outcomes) == Finished(repeated=3)
    assert await rig.depth() == depth


async def test_a_flush_sent_again_does_not_touch_the_next_attempt(rig: Rig) -> None:
    """[C5] The job runs again, elsewhere, when the old flush comes a second time."""
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    outcomes = [Outcome(job=await rig.run(worker, id), kind=Kind.RETRY)]
    await rig.store.finish(worker, 1, outcomes)
    again = await rig.run(other, id)
    assert await rig.store.finish(worker, 1, outcomes) == Finished(repeated=1)
    assert await rig.state(id) is State.RUNNING
    assert (await rig.finish(other, again)).applied == 1


async def test_a_mixed_flush_sent_again_answers_the_same_way(rig: Rig) -> None:
    """[C5] What was applied is repeated, what was refused is refused again."""
    worker, other = await rig.worker(), await rig.worker()
    await rig.add("a", "b", "c")
    (theirs,) = await rig.claim(other, limit=1)
    first, second = await rig.claim(worker)
    outcomes = [
        Outcome(job=first, kind=Kind.SUCCEEDED),
        Outcome(job=theirs, kind=Kind.SUCCEEDED),
        Outcome(job=second, kind=Kind.RETRY, delay=60),
    ]
    assert await rig.store.finish(worker, 7, outcomes) == Finished(applied=2, refused=(theirs.id,))
    assert await rig.store.finish(worker, 7, outcomes) == Finished(repeated=2, refused=(theirs.id,))


async def test_an_attempt_ends_once(rig: Rig) -> None:
    """[C5] A second outcome in a later flush changes nothing: the first stands."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.finish(worker, job, Kind.SUCCEEDED)
    assert (await rig.finish(worker, job, Kind.DEAD)).applied == 0
    assert await rig.state(id) is State.SUCCEEDED


async def test_an_empty_flush(rig: Rig) -> None:
    """[C5]"""
    assert await rig.store.finish(await rig.worker(), 1, []) == Finished()


@pytest.mark.parametrize("kind", [Kind.DELETED, Kind.REPLACED, Kind.LOST])
async def test_a_worker_cannot_speak_for_others(rig: Rig, kind: Kind) -> None:
    """[C5] Deleted, replaced and lost are written by operators, producers and rescue alone."""
    worker = await rig.worker()
    jobs = await rig.add("a", "b")
    first, second = await rig.claim(worker)
    with pytest.raises(ValueError):
        await rig.store.finish(worker, 1, [Outcome(job=first), Outcome(job=second, kind=kind)])
    assert {await rig.state(id) for id in jobs} == {State.RUNNING}
    assert await rig.finish(worker, [first, second]) == Finished(applied=2)


async def test_heartbeats_are_counted(rig: Rig) -> None:
    """[C5] Observers watch the counter move."""
    worker = await rig.worker()
    (record,) = await rig.store.workers()
    assert (record.id, record.alive, record.host) == (worker, True, "here")
    before = record.heartbeat
    await rig.clock.advance(10)
    assert (await rig.store.heartbeat(worker)).cancel == frozenset()
    await rig.store.heartbeat(worker)
    (after,) = await rig.store.workers()
    assert after.heartbeat == before + 2
    assert after.heartbeat_at >= record.heartbeat_at + 10
