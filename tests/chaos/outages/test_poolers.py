"""PgBouncer in each of its modes, and with too few connections: what works is used, what does not is said
[fault 18]. A worker under load behind one in transaction mode is in `test_listener`."""

import asyncio
import logging
from pathlib import Path

import asyncpg
import psycopg
import pytest

from tests.chaos.outages.pooler import pooler
from tests.postgres import Server
from windlass.errors import ConfigurationError, StoreUnavailable
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.connections.pooler import LOAN, Pooling
from windlass.store.records import NewJob

FIFO = "server_round_robin = 1\n"


@pytest.mark.parametrize(("mode", "more"), [("session", ""), ("transaction", ""), ("transaction", FIFO)])
async def test_the_mode_of_a_pooler_is_recognised(
    mode: str, more: str, pg_server: Server, pg_dsn: str, tmp_path: Path
) -> None:
    """A session pooler was taken for a transaction pooler: nobody listened, and nothing was prepared."""
    with pooler(pg_server, pg_dsn, tmp_path, 8, mode, more) as url:
        store = PostgresStore(url)
        await store.open()
        try:
            assert store._db.pooling is Pooling(mode)
            await store.enqueue([NewJob(task="a", payload="{}", queue="mail")])
            found = {finding.name: finding for finding in await store.diagnose()}
            async with store._db.connection() as connection:
                isolation = await connection.fetchval("SHOW default_transaction_isolation")
                prepared = connection._config.statement_cache_size
        finally:
            await store.close()
    assert (found["pooler"].level, found["schema"].level) == ("ok", "ok")
    assert f"in {mode} mode" in found["pooler"].text
    if mode == "session":
        assert found["wake-ups"].text == "NOTIFY arrives"
        assert (isolation, prepared) == ("read committed", 100)
    else:
        assert found["wake-ups"].level == "warning"
        assert prepared == 0


async def test_a_session_pooler_does_not_hide_the_sessions_needs(
    pg_server: Server, pg_dsn: str, tmp_path: Path
) -> None:
    """A pooler refuses most settings at a session's start, so they are made after it."""
    name = pg_dsn.rpartition("/")[2]
    with psycopg.connect(pg_dsn, autocommit=True) as owner:
        for setting in ("default_transaction_isolation = 'serializable'", "statement_timeout = '7s'"):
            owner.execute(f"ALTER DATABASE {name} SET {setting}".encode())
    with pooler(pg_server, pg_dsn, tmp_path, 8, "session") as url:
        store = PostgresStore(url)
        await store.open()
        try:
            async with store._db.connection() as connection:
                assert await connection.fetchval("SHOW default_transaction_isolation") == "read committed"
                assert await connection.fetchval("SHOW statement_timeout") == "0"
        finally:
            await store.close()


async def test_statement_mode_is_refused_at_the_start(pg_server: Server, pg_dsn: str, tmp_path: Path) -> None:
    with (
        pooler(pg_server, pg_dsn, tmp_path, 4, "statement") as url,
        pytest.raises(ConfigurationError, match="pool_mode = transaction or session"),
    ):
        await PostgresStore(url).open()


async def test_what_a_pooler_refuses_is_said(pg_server: Server, pg_dsn: str, tmp_path: Path) -> None:
    """It was an outage that workers waited for to end."""
    with (
        pooler(pg_server, pg_dsn, tmp_path, 4) as url,
        pytest.raises(ConfigurationError, match="ignore_startup_parameters"),
    ):
        await PostgresStore(f"{url}?options=-c%20geqo%3Doff").open()


@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_a_pool_of_one_is_said(
    mode: str,
    pg_server: Server,
    pg_dsn: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Silent before: calls waited for each other and timed out now and then."""
    monkeypatch.setattr("windlass.store.postgres.connections.pooler.LOAN", 0.5)
    with pooler(pg_server, pg_dsn, tmp_path, 1, mode) as url:
        store = PostgresStore(url, deadline=2.0)
        with caplog.at_level(logging.WARNING, "windlass.store"):
            await store.open()
        try:
            assert store._db.pooling is Pooling.TRANSACTION
            (finding,) = [found for found in await store.diagnose() if found.name == "pooler"]
        finally:
            await store.close()
    # A session of its own is what a second client waits for; transactions it gets in turn.
    assert ("default_pool_size" in caplog.text) is (mode == "session")
    assert finding.level == "warning"
    assert "no more than" in finding.text
    assert "default_pool_size" in finding.advice


async def test_many_that_begin_at_once_do_not_wait_for_each_other(
    pg_server: Server, pg_dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Finding out the mode holds no connection while it waits for another."""
    with pooler(pg_server, pg_dsn, tmp_path, 2) as url:
        stores = [PostgresStore(url) for _ in range(8)]
        try:
            async with asyncio.timeout(LOAN):
                await asyncio.gather(*(store.open() for store in stores))
            assert {store._db.pooling for store in stores} == {Pooling.TRANSACTION}
        finally:
            for store in stores:
                await store.close()
    assert caplog.text == ""


async def test_a_call_that_waits_for_the_pool_says_so(pg_server: Server, pg_dsn: str, tmp_path: Path) -> None:
    """The message was "PostgreSQL cannot be reached: TimeoutError"."""
    with pooler(pg_server, pg_dsn, tmp_path, 2) as url:
        store = PostgresStore(url, deadline=1.0)
        await store.open()
        holders = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(2)]
        try:
            for holder in holders:
                await holder.execute("BEGIN")
            with pytest.raises(StoreUnavailable, match=r"through the pooler.*default_pool_size"):
                await store.now()
        finally:
            for holder in holders:
                holder.terminate()
            await store.close()
