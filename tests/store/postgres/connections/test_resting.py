"""Connections that rest between two calls: what happens to them when they are lost, or all are wanted."""

import asyncio
import os
import signal

import pytest

from tests.chaos.kit import until
from tests.store.postgres.kit import Base
from windlass.store.postgres.connections import database

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


async def test_a_call_off_that_the_server_does_not_hear_is_no_trouble(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[fault 9] Who has left is gone, and so is the connection; there is nobody to raise anything to."""
    monkeypatch.setattr(database, "CALL_OFF", 0.05)
    store = await alone.store()
    asked = asyncio.Event()
    pids: list[int] = []

    async def ask() -> None:
        async with store._db.connection() as connection:
            pids.append(connection.get_server_pid())
            os.kill(pids[0], signal.SIGSTOP)
            asked.set()
            await connection.fetchval("SELECT 1")

    asking = asyncio.create_task(ask())
    await asked.wait()
    await asyncio.sleep(0)
    try:
        asking.cancel()
        await asyncio.wait({asking})
        (leaving,) = store._db._leaving
        await leaving
        assert not store._db._leaving
    finally:
        os.kill(pids[0], signal.SIGCONT)
    await store.queues()


def test_calling_off_leaves_closing_its_time() -> None:
    assert database.CALL_OFF < database.CLOSE
