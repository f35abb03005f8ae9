"""[P12] [rule 8] What the edges of one job cost does not depend on how many others wait, whatever the planner
believes of the tables."""

import re
from datetime import timedelta

import pytest

from tests.store.postgres.kit import Base
from tests.store.postgres.plans import explained, plans
from windlass.core.states import Kind

TABLES = re.compile("after_edge|deferred")
OTHERS = 2000
CROWD = """
WITH waiting AS (
    INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, task, payload)
    SELECT nextval('windlass.job_id'), 'infinity', now(), 'default', 2, 't', '{}'
      FROM generate_series(1, $2::int) RETURNING id)
INSERT INTO windlass.after_edge (job, on_job, fresh) SELECT id, $1, false FROM waiting
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.DEAD])
async def test_the_end_of_a_job_reads_its_own_edges_alone(alone: Base, kind: Kind) -> None:
    """Plans are made while nobody waits, and kept when many do."""
    lane, worker = await alone.lane(), await alone.worker()
    session = alone.look
    await session.run("ALTER TABLE windlass.after_edge SET (autovacuum_enabled = off)")
    await session.run("ALTER TABLE windlass.deferred SET (autovacuum_enabled = off)")

    async def once() -> None:
        first = await session.enqueue()
        for policy in ("run", "cancel", "dead"):
            await session.enqueue(after=[first], otherwise=policy)
        (job,) = (job for job in (await alone.claim(lane, worker)).jobs if job.id == first)
        await alone.finish(worker, [job], kind=kind, by=session)
        await session.row("SELECT * FROM windlass.follow(500)")
        await alone.drain(lane, worker)

    await session.run("VACUUM ANALYZE windlass.after_edge, windlass.deferred")
    for _ in range(7):
        await once()
    await session.run("VACUUM ANALYZE windlass.after_edge, windlass.deferred")
    for _ in range(7):
        await once()
    waited_for = await session.enqueue(delay=timedelta(hours=1))
    await session.run(CROWD, waited_for, OTHERS)
    await explained(session)
    async with plans(session) as found:
        await once()
    assert [scan for scan in found.scans(TABLES) if scan.touched > OTHERS / 10] == []


async def test_a_flush_does_not_read_dead_edges_of_others(alone: Base) -> None:
    """[rule 1] An open snapshot keeps them; nobody comes after the jobs of this flush."""
    lane, worker = await alone.lane(), await alone.worker()
    session = alone.look
    waited_for = await session.enqueue(delay=timedelta(hours=1))
    (reader,) = await alone.sessions(1)
    await reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await reader.value("SELECT count(*) FROM windlass.after_edge")
    await session.run(CROWD, waited_for, OTHERS)
    await session.run("DELETE FROM windlass.after_edge")
    await session.enqueue()
    got = await alone.claim(lane, worker)
    await explained(session)
    await session.run("SET auto_explain.log_buffers = on")
    async with plans(session) as found:
        await alone.finish(worker, got.jobs, by=session)
    assert found.blocks("after_edge") < 10
