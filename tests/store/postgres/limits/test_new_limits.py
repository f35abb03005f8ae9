"""[F3] A limit that a task gets while a claim of its jobs is under way: whoever counts what runs, and the
claim that looks once more after its commit, may meet at any moment."""

import asyncio

import asyncpg
import pytest

from tests.store.postgres.kit import Answer, Base, Session
from windlass.core.retry import DeathPolicy

RECHECK = """
    SELECT windlass.at_places($4, windlass.claim_recheck(
               $1, $2, $3, p.stays, $4, p.jobs, $5, array_fill(NULL::text, n), array_fill(0::float8, n)))
      FROM (SELECT ARRAY[$6::int] AS n) AS x
     CROSS JOIN LATERAL windlass.claim_places($1, $4::bigint[], array_fill(NULL::bigint, n)) AS p"""


async def recheck(by: Session, worker: int, answer: Answer) -> list[int]:
    """What a claim does after its commit; its seqs that stay."""
    jobs = answer.jobs
    args = (jobs[0].lane, worker, answer.claim, answer.seqs, [job.task for job in jobs], len(jobs))
    found: list[int] = await by.value(RECHECK, *args)
    return found


async def test_a_job_that_goes_aside_while_it_is_counted_comes_back(alone: Base) -> None:
    """Who counted gave it a pass, and had not committed when the claim put it aside for want of the gate: it
    kept its own gate shut, and waited for good."""
    lane, worker = await alone.lane(), await alone.worker()
    job = await alone.look.enqueue()
    claimed = await alone.claim(lane, worker)
    store = await alone.store()
    await store.set_task("t", {"concurrency": 1})
    counting = await alone.session()
    await counting.begin()
    await counting.run("SELECT windlass.admit_gates('{task:t}', 10)")
    assert await recheck(alone.look, worker, claimed) == [], "it goes aside: another has the gate"
    await counting.commit()
    await store.promote()
    assert (await alone.claim(lane, worker)).ids == [job]
    assert await alone.look.value("SELECT count(*) FROM windlass.pass") == 1


async def test_a_job_that_is_counted_before_its_gate_is_taken_stays(alone: Base) -> None:
    """The claim had seen that it has no pass: it put it aside, or gave it a second one, and failed."""
    lane, worker = await alone.lane(), await alone.worker()
    first, second = [await alone.look.enqueue(task) for task in ("a", "b")]
    claimed = await alone.claim(lane, worker)
    store = await alone.store()
    for task in ("a", "b"):
        await store.set_task(task, {"concurrency": 1})
    blocking, counting = await alone.sessions(2)
    rechecking = await alone.session()
    await blocking.begin()
    await blocking.run(  # the claim waits for that, on its way from a to b
        "INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at) "
        "VALUES ('task:a', $1, 1, 0, now(), now())",
        first,
    )
    stayed = asyncio.create_task(recheck(rechecking, worker, claimed))
    await alone.blocked(rechecking)
    await counting.run("SELECT windlass.admit_gates('{task:b}', 10)")
    await blocking.rollback()
    assert await stayed == claimed.seqs
    assert await alone.look.value("SELECT array_agg(job ORDER BY gate) FROM windlass.pass") == [first, second]


async def test_a_claim_of_a_dead_worker_is_not_looked_at_again(alone: Base) -> None:
    """[C5] Its jobs belong to others by then: put aside here as well, they would be there twice."""
    lane, worker, other = await alone.lane(), await alone.worker(), await alone.worker()
    job = await alone.look.enqueue()
    claimed = await alone.claim(lane, worker)
    store = await alone.store()
    await store.set_task("t", {"concurrency": 1})
    assert await store.rescue(worker, 0, DeathPolicy()) is not None
    with pytest.raises(asyncpg.PostgresError, match="is not alive"):
        await recheck(alone.look, worker, claimed)
    await store.promote()
    assert (await alone.claim(lane, other)).ids == [job]
