"""[fault 30] [S3] Logical replication to another database, and the switch-over to it, as the guide says.

What broke: a publication made rotations and admissions fail on the publisher, since logs had no replica
identity; the first queue that was new on the publisher stopped the subscriber's apply worker, since its lane
names a sequence that is not there; and after the switch no sequence had a value, so that nothing could be
written.
"""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.chaos.kit import Worker, connected, depth_is_a_scan, job, opened, until
from tests.postgres import Server
from windlass.errors import ConfigurationError, WorkerLost
from windlass.store.postgres import PostgresStore
from windlass.store.records import ClaimedJob, Options, Outcome

QUEUES = ["old", "new", "fair", "newest"]


@contextlib.asynccontextmanager
async def published() -> AsyncIterator[tuple[Server, str, str]]:
    """A server with a migrated database that is published, and one with the same schema and no rows."""
    with Server(18, fsync=False, settings={"wal_level": "logical"}) as server:
        original, copy = server.dsn(server.create_database()), server.dsn(server.create_database())
        await PostgresStore(original).migrate()
        schema = subprocess.run(  # noqa: ASYNC221 - it is quick
            [server.bin_dir / "pg_dump", "--schema-only", "--schema=windlass", original],
            check=True, capture_output=True,
        )  # fmt: skip
        subprocess.run(  # noqa: ASYNC221
            [server.psql, "-q", "-v", "ON_ERROR_STOP=1", copy],
            input=schema.stdout,
            check=True,
            capture_output=True,
        )
        async with connected(original) as connection:
            await connection.execute("CREATE PUBLICATION jobs FOR TABLES IN SCHEMA windlass")
        yield server, original, copy


async def subscribe(server: Server, original: str, copy: str) -> None:
    """Both are in one server, where the slot must be there before the subscription."""
    name = original.rpartition("/")[2]
    async with connected(original) as one, connected(copy) as two:
        await one.execute("SELECT pg_create_logical_replication_slot('jobs', 'pgoutput')")
        words = f"host=127.0.0.1 port={server.port} user=postgres password={server.password} dbname={name}"
        await two.execute(
            f"CREATE SUBSCRIPTION jobs CONNECTION '{words}' PUBLICATION jobs WITH (create_slot = false)"
        )


async def caught_up(original: str) -> None:
    """The subscriber has all that was written so far, and its apply worker lives."""
    async with connected(original) as connection:
        here = await connection.fetchval("SELECT pg_current_wal_lsn()::text")

        async def there() -> bool:
            sql = "SELECT confirmed_flush_lsn >= $1::text::pg_lsn FROM pg_replication_slots"
            return bool(await connection.fetchval(sql, here))

        await until(there, 30.0)


async def synced(copy: str) -> None:
    """Every table has been copied once."""
    async with connected(copy) as connection:

        async def all_ready() -> bool:
            return (
                await connection.fetchval("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel")
                is True
            )

        await until(all_ready, 60.0)


async def move_everything(store: PostgresStore, worker: Worker) -> tuple[list[int], list[ClaimedJob]]:
    """All that writes, moves and removes rows, in lanes that the subscriber has no sequences of."""
    ids = [r.id for r in await store.enqueue([job(queue="new")] * 20)]
    ids += [r.id for r in await store.enqueue([job(queue="fair", options=Options(fair_key="k"))] * 20)]
    ids += [r.id for r in await store.enqueue([job(queue="newest", delay=0.1)] * 5)]
    running = await worker.claim("new", "old", limit=6)
    await asyncio.sleep(0.1)
    await store.promote()
    for _ in range(9):
        assert (await store.rotate(force=True)).blocked is None
    return ids, running


@pytest.mark.slow
async def test_a_switch_over_by_logical_replication() -> None:
    async with published() as (server, original, copy):
        async with opened(original) as store:
            worker = await Worker.registered(store)
            ids = [r.id for r in await store.enqueue([job(queue="old")] * 20)]
            ended = await worker.claim("old", limit=5)
            await worker.finish(ended)
            await subscribe(server, original, copy)
            await synced(copy)
            more, running = await move_everything(store, worker)
            await caught_up(original)
            # What the subscriber never gets.
            async with connected(copy) as connection:
                await connection.execute("ALTER SUBSCRIPTION jobs DISABLE")
            lost = [r.id for r in await store.enqueue([job(queue="new"), job(delay=60.0)] * 3)]
            gone = await worker.claim("new", limit=3)
            async with connected(copy) as connection:
                await connection.execute("ALTER SUBSCRIPTION jobs SET (slot_name = NONE)")
                await connection.execute("DROP SUBSCRIPTION jobs")
        async with opened(copy) as store:
            for late in (running, gone):
                with pytest.raises(WorkerLost):
                    await store.finish(worker.id, 99, [Outcome(job=j) for j in late])
            fresh = [r.id for r in await store.enqueue([job(queue="new"), job(delay=60.0)] * 3)]
            assert not set(fresh) & set(lost), "an id that somebody holds means another job now"
            other = await Worker.registered(store)
            ran = await other.drain(*QUEUES)
            assert sorted(ran) == sorted({*ids, *more, *fresh[::2]} - {j.id for j in ended})
            assert (await store.rotate(force=True)).reclaimed
            await depth_is_a_scan(store, copy)


async def test_a_subscriber_is_not_written() -> None:
    """Opening it must not adopt it: what is to come would meet what was written here."""
    async with published() as (server, original, copy), opened(original) as store:
        await store.enqueue([job()] * 3)
        await subscribe(server, original, copy)
        await synced(copy)
        with pytest.raises(
            ConfigurationError, match=r"subscription jobs still replicates.*drop the subscription"
        ):
            await PostgresStore(copy).open()
        async with connected(copy) as connection:
            for sql in ("SELECT windlass.adopt()", "SELECT windlass.enqueue('t')"):
                with pytest.raises(asyncpg.PostgresError, match="subscription jobs"):
                    await connection.execute(sql)
