"""Connections that rest between two calls: what happens to them when they are lost, or all are wanted."""

import asyncio

from tests.chaos.kit import until
from tests.pg.kit import Base

LOSE = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND pid <> pg_backend_pid()"""


async def test_connections_that_were_lost_while_they_rested_fail_nobody(alone: Base) -> None:
    """The server was restarted, say, and answers again: so does the next call."""
    store = await alone.store()
    await asyncio.gather(*(store.queues() for _ in range(3)))
    made = list(store._db._made)
    assert store._db._resting
    await alone.look.run(LOSE)

    async def lost() -> bool:
        return all(connection.is_closed() for connection in made)

    await until(lost, 5.0)
    for _ in range(3):
        await store.queues()


async def test_a_resting_connection_keeps_nobody_waiting(alone: Base) -> None:
    """More calls at once than the pool has connections, again and again."""
    store = await alone.store()
    async with asyncio.timeout(20):
        for _ in range(5):
            await asyncio.gather(*(store.queues() for _ in range(40)))
    assert len(store._db._resting) <= 2


async def test_a_store_with_resting_connections_closes(alone: Base) -> None:
    store = await alone.store()
    await store.queues()
    async with asyncio.timeout(5):
        await store.close()
    assert not store._db._resting
