"""[fault 11] A foreign write transaction stays open while 10,000 enqueues roll back. Committed jobs lie
between them, so each leaves a hole range of its own. A claim takes at most twice its normal time and 1 KB of
WAL beyond its jobs; all holes are gone when the transaction ends, and depth reads 0 within 5 s.

The foreign transaction may be anywhere in the cluster: in another database, in ours, or a producer itself,
which holds a lock on `ready`. The first two do not matter to holes once the horizon is published; the third
does.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

import msgspec
import pytest

from tests.chaos.figures import Figure, high, median
from tests.chaos.kit import Worker, connected, depth_is_a_scan, fill, job, opened, until, waiting
from tests.postgres import Server
from windlass.store.postgres import PostgresStore

Where = Literal["elsewhere", "here", "producer"]
PAIRS = """
DO $$ BEGIN
    FOR i IN 1..{n} LOOP
        PERFORM windlass.enqueue('t', queue => '{queue}');
        ROLLBACK;
        {between}
    END LOOP;
END $$
"""
COMMITTED = "PERFORM windlass.enqueue('t', queue => '{queue}'); COMMIT;"


async def roll_back(dsn: str, n: int, queue: str, *, between: bool) -> None:
    """n enqueues that roll back, each in its own transaction; between any two of them one that commits."""
    async with connected(dsn) as connection:
        inner = COMMITTED.format(queue=queue) if between else ""
        await connection.execute(PAIRS.format(n=n, queue=queue, between=inner), timeout=300)


@asynccontextmanager
async def foreign(server: Server, dsn: str, store: PostgresStore, where: Where) -> AsyncIterator[None]:
    """A transaction with an xid that stays open. A producer's job runs when it has committed in the end."""
    elsewhere = server.dsn() if where == "elsewhere" else dsn
    async with connected(elsewhere) as connection, connection.transaction():
        if where == "producer":
            await store.enqueue([job(queue="holed")], connection=connection)
        else:
            await connection.execute("CREATE TEMPORARY TABLE foreign_write (n int) ON COMMIT DROP")
        yield


class Cost(msgspec.Struct):
    """What each measured claim took: milliseconds, and bytes of WAL."""

    took: list[float] = msgspec.field(default_factory=list)
    wal: list[float] = msgspec.field(default_factory=list)


async def measure(dsn: str, queues: tuple[str, ...], rounds: int) -> list[Cost]:
    """Claims of ten jobs from each queue in turn, so that they share the weather. Each queue has a store of
    its own that remembers its lanes, so that nothing but the claim itself is measured."""
    costs = [Cost() for _ in queues]
    async with AsyncExitStack() as stack:
        look = await stack.enter_async_context(connected(dsn))
        stores = [await stack.enter_async_context(opened(dsn, head_cache=60.0)) for _ in queues]
        workers = [await Worker.registered(store) for store in stores]
        promoted = time.monotonic()
        for _ in range(rounds):
            for worker, queue, cost in zip(workers, queues, costs, strict=True):
                before = await look.fetchval("SELECT pg_current_wal_insert_lsn()")
                began = time.monotonic()
                jobs = await worker.claim(queue, limit=10)
                cost.took.append((time.monotonic() - began) * 1000)
                cost.wal.append(float(await look.fetchval("SELECT pg_current_wal_insert_lsn() - $1", before)))
                assert len(jobs) == 10
                await worker.finish(jobs)
            if time.monotonic() - promoted > 1.0:
                await stores[0].promote()
                promoted = time.monotonic()
    return costs


async def take(worker: Worker, over: asyncio.Event) -> int:
    """Claim and finish all the time until it is over, with a coordinator that promotes once a second."""
    done = 0
    promoted = 0.0
    while not over.is_set():
        jobs = await worker.claim("holed", limit=50)
        if jobs:
            done += (await worker.finish(jobs)).applied
        else:
            await asyncio.sleep(0.01)
        if time.monotonic() - promoted > 1.0:
            await worker.store.promote()
            promoted = time.monotonic()
    return done


async def empties(worker: Worker, within: float = 5.0) -> tuple[float, int]:
    """How long a worker that polls takes until depth reads 0, and how many jobs it found in the holes."""
    found = 0

    async def empty() -> bool:
        nonlocal found
        jobs = await worker.claim("holed")
        if jobs:
            found += (await worker.finish(jobs)).applied
        await worker.store.promote()
        return waiting((await worker.store.depth(["holed"]))["holed"]) == 0

    return await until(empty, within, pause=0.05), found


async def holes(server: Server, dsn: str, where: Where, n: int, figure: Figure) -> None:
    """The fault: normal claims and claims with holes, measured side by side."""
    async with opened(dsn) as store:
        worker = await Worker.registered(store)
        await store.enqueue([job(queue="holed")])
        over = asyncio.Event()
        async with foreign(server, dsn, store, where):
            taking = asyncio.create_task(take(worker, over))
            await roll_back(dsn, n, "holed", between=True)
            over.set()
            done = await taking
            await fill(store, 1500, queue="holed")
            await fill(store, 1500, queue="normal")
            normal, holed = await measure(dsn, ("normal", "holed"), 120)
            measured = 10 * (len(normal.took) + len(holed.took))
            while jobs := await worker.claim("holed", "normal", limit=500):
                done += (await worker.finish(jobs)).applied
            figure("holes left while it is open", (await store.depth(["holed"]))["holed"].ready)
        took, late = await empties(worker)
        figure("depth reads 0 after it ended, s", took)
        await depth_is_a_scan(store, dsn)
        committed = n + 1 + 3000 + (where == "producer")
        assert done + late + measured == committed, "lost or twice"
    compare(normal, holed, figure)


def compare(normal: Cost, holed: Cost, figure: Figure) -> None:
    ratio = median(holed.took) / median(normal.took)
    wal = median(holed.wal) - median(normal.wal)
    figure("claim with holes ÷ normal, medians", ratio)
    figure("claim with holes ÷ normal, means", sum(holed.took) / sum(normal.took))
    figure("claim with holes, p99 ms", high(holed.took))
    figure("normal claim, median ms", median(normal.took))
    figure("WAL of a claim with holes beyond a normal one, bytes", wal)
    assert ratio <= 3.0
    assert wal <= 1024


@pytest.mark.parametrize("where", ["elsewhere", "producer"])
async def test_rolled_back_under_a_foreign_transaction(
    pg_server: Server, pg_dsn: str, figure: Figure, where: Where
) -> None:
    await holes(pg_server, pg_dsn, where, 3_000, figure)


@pytest.mark.soak
@pytest.mark.parametrize("where", ["elsewhere", "here", "producer"])
async def test_ten_thousand_rolled_back_under_a_foreign_transaction(
    pg_server: Server, pg_dsn: str, figure: Figure, where: Where
) -> None:
    await holes(pg_server, pg_dsn, where, 10_000, figure)


async def test_rolled_back_and_nothing_else(pg_dsn: str, figure: Figure) -> None:
    """With an idle worker that polls, and nobody who promotes."""
    async with opened(pg_dsn) as store:
        await fill(store, 1, queue="holed")
        worker = await Worker.registered(store)
        assert await worker.drain("holed")
        await roll_back(pg_dsn, 10_000, "holed", between=False)
        assert (await store.depth(["holed"]))["holed"].ready == 10_000

        async def empty() -> bool:
            assert not await worker.claim("holed")
            return (await store.depth(["holed"]))["holed"].ready == 0

        figure("depth reads 0 after 10,000 rolled back, s", await until(empty, 5.0, pause=0.05))
        await depth_is_a_scan(store, pg_dsn)
