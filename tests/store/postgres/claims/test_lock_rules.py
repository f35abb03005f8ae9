"""Locks that are taken in an order, or early, so that nobody is in anybody's way."""

import asyncio

from tests.store.postgres.kit import Base, Session

HELD = """
SELECT array_agg(l.objid::int ORDER BY l.objid) FROM pg_locks l
 WHERE l.pid = $1 AND l.locktype = 'advisory' AND l.granted
   AND l.classid::bigint = (windlass.lock_space()::bigint & 4294967295)
"""
CLAIM_LOCK = """
SELECT count(*) FROM pg_locks l
 WHERE l.pid = $1 AND l.relation = 'windlass.claim'::regclass AND l.mode = 'AccessShareLock' AND l.granted
"""


async def held_by(base: Base, session: Session) -> list[int]:
    """The lanes whose locks a session has."""
    return list(await base.look.value(HELD, session.pid) or [])


async def test_many_lanes_are_locked_in_their_order(base: Base) -> None:
    """[rule 13] Two who lock the same lanes would wait for each other. Whoever waits for one of them has
    those before it and none behind it."""
    lanes, jobs = [], []
    for number in range(12):
        queue = f"{base.queue}-{number}"
        lanes.append(await base.lane(queue))
        jobs.append(await base.look.enqueue(queue=queue))
    assert lanes == sorted(lanes)
    holder, session = await base.sessions(2)
    for number in (0, 5):
        await holder.begin()
        await holder.run("SELECT windlass.lane_lock($1)", lanes[number])
        await session.begin()
        late = asyncio.create_task(session.run("SELECT windlass.lock_lanes_of($1)", jobs[::-1]))
        await base.blocked(session)
        assert await held_by(base, session) == lanes[:number]
        await holder.rollback()
        await late
        assert await held_by(base, session) == lanes
        await session.rollback()


async def test_no_segment_goes_while_ends_are_looked_at(alone: Base) -> None:
    """[P12] A look at where a job stands reads the logs several times: were a segment reclaimed in between,
    a job that runs would be gone, which means that it has succeeded."""
    keeper, session = await alone.sessions(2)
    await keeper.begin()
    await keeper.run("LOCK TABLE windlass.after_edge IN ACCESS EXCLUSIVE MODE")
    late = asyncio.create_task(session.value("SELECT looked FROM windlass.follow(10)"))
    await alone.blocked(session)
    assert await alone.look.value(CLAIM_LOCK, session.pid) == 1
    await keeper.rollback()
    assert await late == 0
