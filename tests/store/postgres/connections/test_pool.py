"""How many connections a process has, who waits for one, and what happens to those that are lost."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from tests.chaos.kit import until
from tests.stock import BOTH
from tests.stopwatch import within
from tests.store.postgres.kit import Base
from windlass.errors import StoreUnavailable
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.connections import database, pool
from windlass.store.records import WakeUp

pytestmark = BOTH
LOSE = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND pid <> pg_backend_pid()"""


@asynccontextmanager
async def held(store: PostgresStore, *, lend: bool = False) -> AsyncIterator[Any]:
    """A connection that somebody keeps."""
    async with store._db.lent() if lend else store._db.connection() as connection:
        yield connection


async def test_calls_take_turns_on_one_connection(alone: Base) -> None:
    store = await alone.store()
    store.on_wakeup(WakeUp())
    await store.queues()
    for _ in range(20):
        await asyncio.gather(*(store._db.value("schema_version") for _ in range(3)))
    assert store._db.pool() == (1, 1)


async def test_who_is_no_worker_opens_another_sooner(alone: Base) -> None:
    assert pool.PATIENCE < pool.THRIFTY
    store = await alone.store()
    await store.queues()
    async with held(store):
        async with within(5):
            await store.queues()
        assert store._db.pool()[0] == 2


async def test_who_waits_for_long_gets_another_which_is_closed_when_it_was_not_needed(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow call, or one that hangs, keeps nobody from claiming or writing outcomes [fault 9]."""
    monkeypatch.setattr(pool, "SURPLUS", 0.2)
    store = await alone.store()
    async with held(store):
        async with within(5):
            await store.queues()
        assert store._db.pool() == (2, 1)

    async def one() -> bool:
        await store.queues()
        return store._db.pool()[0] == 1

    await until(one, 5.0)


async def test_the_last_one_is_closed_where_nobody_calls_for_long(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A web process that nobody looks at."""
    monkeypatch.setattr(pool, "SURPLUS", 0.05)
    monkeypatch.setattr(pool, "UNUSED", 0.2)
    store = await alone.store()
    await store.queues()

    async def none() -> bool:
        return store._db.pool()[0] == 0

    await until(none, 5.0)
    await store.queues()


async def test_a_block_never_holds_the_only_connection(alone: Base) -> None:
    """A handler's transaction may last for hours, and may call the store itself [C4]."""
    store = await alone.store()
    await store.queues()
    async with held(store, lend=True), within(5):
        await store.queues()
        async with held(store, lend=True):
            await store.queues()
        assert store._db.pool() == (3, 2)
    assert store._db.pool() == (3, 3)
    async with held(store, lend=True):
        assert store._db.pool() == (3, 2), "one that is there is lent before another is opened"


async def test_a_block_that_is_over_has_no_connection_any_more(alone: Base) -> None:
    store = await alone.store()
    async with held(store, lend=True) as connection:
        assert await connection.fetchval("SELECT 1") == 1
        await connection.reload_schema_state()
        assert await connection.fetchval("SELECT 1") == 1
    with pytest.raises(asyncpg.InterfaceError):
        await connection.fetchval("SELECT 1")


@pytest.mark.slow
async def test_where_the_server_has_no_room_calls_wait_for_each_other(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await alone.store()
    await store.queues()

    async def full() -> Any:
        raise asyncpg.TooManyConnectionsError("sorry, too many clients already")

    monkeypatch.setattr(store._db._pool, "_make", full)
    async with held(store):
        waiting = asyncio.create_task(store.queues())
        done, _ = await asyncio.wait({waiting}, timeout=pool.THRIFTY)
        assert not done
        with pytest.raises(StoreUnavailable, match="too many clients"):
            async with held(store, lend=True):
                pass
        assert not waiting.done(), "what was refused to a block does not concern a call"
    async with within(5):
        await waiting


async def test_more_calls_at_once_than_connections(alone: Base) -> None:
    store = await alone.store()
    async with within(20):
        for _ in range(5):
            await asyncio.gather(*(store.queues() for _ in range(40)))
    assert store._db.pool()[0] <= 10


async def test_a_caller_that_leaves_while_it_waits_takes_none_along(alone: Base) -> None:
    store = await alone.store()
    async with held(store):
        waiting = [asyncio.create_task(store.queues()) for _ in range(3)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    size, idle = store._db.pool()
    assert size == idle


async def test_connections_that_were_lost_while_they_rested_fail_nobody(alone: Base) -> None:
    """The server was restarted, say, and answers again: so does the next call."""
    store = await alone.store()
    await store.queues()
    before = list(store._db._pool._all)  # type: ignore[union-attr]
    await alone.look.run(LOSE)

    async def lost() -> bool:
        return all(connection.is_closed() for connection in before)

    await until(lost, 5.0)
    for _ in range(3):
        await store.queues()


async def test_a_store_closes(alone: Base) -> None:
    store = await alone.store()
    await store.queues()
    async with within(5):
        await store.close()

    async def none() -> bool:
        rows = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE application_name = 'windlass' AND datname = current_database()"
        )
        return bool(await alone.look.value(rows) == 0)

    await until(none, 5.0)


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
