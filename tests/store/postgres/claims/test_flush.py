"""A flush sent again changes nothing: at once, after a rotation, for every kind of outcome [rule 6]."""

import asyncio

import pytest

from tests.store.postgres.kit import Base
from tests.store.postgres.ring import Ring
from windlass.core.states import Kind
from windlass.store.records import ClaimedJob, Failure, Finished, Outcome

KINDS = [Kind.SUCCEEDED, Kind.RETRY, Kind.SNOOZE, Kind.RELEASED, Kind.DEAD, Kind.CANCELLED]
COUNTS = """
SELECT (SELECT count(*) FROM windlass.outcome WHERE lane = $1) AS outcomes,
       (SELECT count(*) FROM windlass.ready WHERE lane = $1) AS ready,
       (SELECT count(*) FROM windlass.deferred WHERE queue = $2) AS deferred,
       (SELECT count(*) FROM windlass.dead WHERE queue = $2) AS dead,
       (SELECT count(*) FROM windlass.result WHERE job >> 44 = $1) AS results,
       (SELECT count(*) FROM windlass.failure WHERE job >> 44 = $1) AS failures
"""


async def counts(base: Base, lane: int) -> dict[str, int]:
    """How many rows of each sort there are: what a flush may add to."""
    return dict(await base.look.row(COUNTS, lane, base.queue))


async def claimed(base: Base, n: int = 1) -> tuple[int, int, list[ClaimedJob]]:
    """A worker with some jobs: (lane, worker, jobs)."""
    lane, worker = await base.lane(), await base.worker()
    for _ in range(n):
        await base.look.enqueue()
    return lane, worker, (await base.claim(lane, worker)).jobs


def say(job: ClaimedJob, kind: Kind) -> Outcome:
    """An outcome with all that goes with its kind."""
    again = kind in (Kind.RETRY, Kind.SNOOZE)
    return Outcome(
        job=job,
        kind=kind,
        delay=60.0 if again else 0.0,
        error=Failure("ValueError", "boom") if kind is Kind.RETRY else None,
        result="1" if kind is Kind.SUCCEEDED else None,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first_commits", [True, False])
async def test_a_flush_beside_itself_counts_once(base: Base, kind: Kind, first_commits: bool) -> None:
    """[rule 6] [fault 5] The second waits for the first: repeated if that commits, applied if it does not."""
    lane, worker, jobs = await claimed(base, 2)
    one, two = await base.sessions(2)
    await one.begin()
    outcomes = [say(job, kind) for job in jobs]
    assert await base.flush(worker, outcomes, 1, by=one) == Finished(applied=2)
    second = asyncio.create_task(base.flush(worker, outcomes, 1, by=two))
    await base.blocked(two)
    if first_commits:
        await one.commit()
        assert await second == Finished(repeated=2)
    else:
        await one.rollback()
        assert await second == Finished(applied=2)
    found = await counts(base, lane)
    assert (found["outcomes"], found["failures"]) == (1, 2 if kind is Kind.RETRY else 0)
    assert found["deferred"] == (2 if kind in (Kind.RETRY, Kind.SNOOZE) else 0)
    assert found["dead"] == (2 if kind is Kind.DEAD else 0)
    assert found["results"] == (2 if kind is Kind.SUCCEEDED else 0)
    assert found["ready"] == (4 if kind is Kind.RELEASED else 2)


async def test_a_mixed_flush_sent_again_after_the_ring_has_turned_is_a_repeat(alone: Base) -> None:
    """[rule 6] [rule 7] Its claim is gone with its evidence; nothing is deferred, offered or dead twice."""
    lane, worker, jobs = await claimed(alone, len(KINDS))
    outcomes = [say(job, kind) for job, kind in zip(jobs, KINDS, strict=True)]
    assert await alone.flush(worker, outcomes, 1) == Finished(applied=len(KINDS))
    await Ring(alone, await alone.session()).turn(9)
    assert await alone.look.value("SELECT count(*) FROM windlass.claim WHERE worker = $1", worker) == 0
    before = await counts(alone, lane)
    assert (before["deferred"], before["dead"], before["ready"]) == (2, 1, 1)
    assert await alone.flush(worker, outcomes, 1) == Finished(repeated=len(KINDS))
    assert await counts(alone, lane) == before
    refused = (await alone.flush(worker, outcomes, 2)).refused
    assert set(refused) == {job.id for job in jobs}, "a flush never sent speaks of nothing"
    assert await counts(alone, lane) == before
    assert await alone.drain(lane, worker) == [jobs[3].id]


async def test_a_flush_sent_again_after_its_claim_was_carried_is_a_repeat(alone: Base) -> None:
    """[rule 7] One job of the claim still runs, so the claim went on, and its outcomes with it."""
    lane, worker, jobs = await claimed(alone, 3)
    await alone.finish(worker, jobs[:1], flush=1)
    await alone.finish(worker, jobs[1:2], Kind.RETRY, delay=60.0, flush=2)
    ring = Ring(alone, await alone.session())
    for _ in range(3):
        await ring.turn(3)
        assert await alone.finish(worker, jobs[:1], flush=1) == Finished(repeated=1)
        assert await alone.finish(worker, jobs[1:2], Kind.RETRY, delay=60.0, flush=2) == Finished(repeated=1)
        assert (await counts(alone, lane))["deferred"] == 1
    assert await alone.finish(worker, jobs[2:], flush=3) == Finished(applied=1)


async def test_a_flush_never_received_is_applied_after_later_ones_were_reclaimed(alone: Base) -> None:
    """[rule 6] Numbers of flushes that went with a segment say nothing of a claim that is still there."""
    lane, worker, (slow,) = await claimed(alone)
    await alone.look.enqueue()
    (quick,) = (await alone.claim(lane, worker)).jobs
    assert await alone.finish(worker, [quick], flush=2) == Finished(applied=1)
    await Ring(alone, await alone.session()).turn(9)
    assert await alone.finish(worker, [slow], flush=1) == Finished(applied=1)
    assert await alone.state(slow.id) == "succeeded"


async def test_what_one_flush_has_ended_another_cannot_end_again(base: Base) -> None:
    """[C5] The second says something else of the same attempt, and is refused by name."""
    _, worker, jobs = await claimed(base, 2)
    assert await base.finish(worker, jobs[:1], flush=1) == Finished(applied=1)
    assert await base.finish(worker, jobs, Kind.RETRY, delay=60.0, flush=2) == Finished(
        applied=1, refused=(jobs[0].id,)
    )
    assert await base.finish(worker, jobs, flush=3) == Finished(refused=tuple(job.id for job in jobs))
