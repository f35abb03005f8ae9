"""Data and checkpoint in one transaction [P6]: lent by the store, or the handler's own."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import psycopg
import pytest

from windlass import Part, Ranges, Retry, State, Windlass
from windlass.errors import ConfigurationError


@pytest.fixture
async def pg_app(pg_dsn: str) -> AsyncIterator[Windlass]:
    """An app on PostgreSQL, with a table to write to."""
    connection = await asyncpg.connect(pg_dsn)
    await connection.execute("CREATE TABLE item (id bigint)")
    await connection.close()
    app = Windlass(pg_dsn)
    yield app
    await app.aclose()


async def items(dsn: str) -> list[int]:
    connection = await asyncpg.connect(dsn)
    try:
        return [row["id"] for row in await connection.fetch("SELECT id FROM item ORDER BY id")]
    finally:
        await connection.close()


async def test_p6_a_batch_that_fails_after_its_data_leaves_neither(pg_app: Windlass, pg_dsn: str) -> None:
    starts: list[Any] = []

    @pg_app.chunked(split=Ranges(30, size=30), retry=Retry(3, base=0))
    async def load(part: Part) -> None:
        starts.append(await part.asaved())
        async for batch in part.batches(10):
            async with batch.transaction() as connection:
                await connection.executemany("INSERT INTO item VALUES ($1)", [(n,) for n in batch.records])
                if part.attempt == 1 and 15 in batch.records:
                    raise ValueError("after the insert")

    job = await load.aenqueue()
    await pg_app.arun_until_idle()
    assert starts == [None, {"at": 10, "n": 10}]
    assert await items(pg_dsn) == list(range(30))
    assert await job.astatus() is State.SUCCEEDED


async def test_p6_done_in_a_transaction_of_the_handlers_own(pg_app: Windlass, pg_dsn: str) -> None:
    @pg_app.chunked(split=Ranges(20, size=20), retry=Retry(3, base=0))
    async def load(part: Part) -> None:
        connection = await asyncpg.connect(pg_dsn)
        try:
            async for batch in part.batches(10):
                async with connection.transaction():
                    rows = [(n,) for n in batch.records]
                    await connection.executemany("INSERT INTO item VALUES ($1)", rows)
                    await batch.done(connection=connection)
                    if part.attempt == 1 and 10 in batch.records:
                        raise ValueError("rolled back, with its checkpoint")
        finally:
            await connection.close()

    await load.aenqueue()
    await pg_app.arun_until_idle()
    assert await items(pg_dsn) == list(range(20))


async def test_p6_a_plain_handler_uses_psycopg(pg_app: Windlass, pg_dsn: str) -> None:
    @pg_app.chunked(split=Ranges(20, size=20), retry=Retry(3, base=0))
    def load(part: Part) -> None:
        with psycopg.connect(pg_dsn) as connection:
            for batch in part.batches(10):
                with connection.transaction():
                    connection.cursor().executemany(
                        "INSERT INTO item VALUES (%s)", [(n,) for n in batch.records]
                    )
                    batch.done(connection=connection)
                    if part.attempt == 1 and 10 in batch.records:
                        raise ValueError("rolled back, with its checkpoint")
                connection.commit()

    job = await load.aenqueue()
    await pg_app.arun_until_idle()
    assert await items(pg_dsn) == list(range(20))
    assert await job.astatus() is State.SUCCEEDED


def test_p6_on_sqlite_the_store_lends_its_connection(app: Windlass, tmp_path: Path) -> None:
    starts: list[Any] = []

    @app.chunked(split=Ranges(30, size=30), retry=Retry(3, base=0))
    async def load(part: Part) -> None:
        starts.append(await part.asaved())
        async for batch in part.batches(10):
            async with batch.transaction() as connection:
                connection.executemany("INSERT INTO item VALUES (?)", [(n,) for n in batch.records])
                if part.attempt == 1 and 15 in batch.records:
                    raise ValueError("after the insert")

    job = load.enqueue()
    other = apsw.Connection(f"{tmp_path}/jobs.db")
    other.execute("CREATE TABLE item (id)")
    app.run_until_idle()
    assert starts == [None, {"at": 10, "n": 10}]
    assert [id for (id,) in other.execute("SELECT id FROM item ORDER BY id")] == list(range(30))
    assert job.status() is State.SUCCEEDED
    other.close()


async def test_memory_has_no_transactions(memory: Windlass) -> None:
    refused: list[str] = []

    @memory.chunked(split=Ranges(1), retry=Retry(1))
    async def load(part: Part) -> None:
        async for batch in part.batches():
            try:
                async with batch.transaction():
                    pass
            except ConfigurationError as error:
                refused.append(str(error))
            await batch.done()

    job = await load.aenqueue()
    await memory.arun_until_idle()
    assert refused
    assert await job.astatus() is State.SUCCEEDED


def test_on_sqlite_jobs_are_enqueued_in_the_same_transaction(app: Windlass, tmp_path: Path) -> None:
    """[E1] And one that would wait for the very transaction it is called in is refused at once."""
    refused: list[str] = []

    @app.task
    async def index(n: int) -> None: ...

    @app.chunked(split=Ranges(4, size=2), retry=Retry(2, base=0))
    async def load(part: Part) -> None:
        async for batch in part.batches(2):
            async with batch.transaction() as connection:
                with pytest.raises(ConfigurationError) as error:
                    await index.aenqueue(0)
                refused.append(str(error.value))
                await index.using(connection=connection).aenqueue(1)
                if part.attempt == 1:
                    raise ValueError("rolled back, with its job")
            await index.aenqueue(2)

    load.enqueue()
    app.run_until_idle()
    assert app.jobs(task=index.name).count().jobs == 4  # of the second attempts
    assert len(refused) == 4
    assert "using(connection=connection)" in refused[0]
