"""[fault 28] [fault 30] [S3] A server that has forgotten what it had acknowledged: restored to a point in
time, or killed with synchronous_commit off. The worker that goes on has claims in hand that the server does
not know, and their numbers are the next that it would give out.

What broke: the same worker got the same claim number again, with other jobs, and its late outcomes ended
them unrun; ids that callers held meant other jobs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from tests.chaos.kit import Worker, connected, depth_is_a_scan, fill, job, opened, until
from tests.chaos.outages.kit import Host, produce, settled
from tests.chaos.proxy import Proxy
from tests.chaos.replicas import Copy
from tests.postgres import Server
from windlass.errors import StoreUnavailable, WorkerLost
from windlass.store.postgres import PostgresStore
from windlass.store.records import ClaimedJob

FORGETFUL = {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}


@contextlib.asynccontextmanager
async def forgetful() -> AsyncIterator[tuple[Server, str]]:
    """A server that writes its log only when it is told to, and a migrated database in it."""
    with Server(18, fsync=False, settings=FORGETFUL) as server:
        dsn = server.dsn(server.create_database())
        await PostgresStore(dsn).migrate()
        yield server, dsn


async def written(dsn: str) -> None:
    """All up to here is kept, and nothing from here on: the writer of the log stands still."""
    async with connected(dsn) as connection:
        await connection.execute("CHECKPOINT")
        writer = await connection.fetchval(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
        )
    psutil.Process(writer).suspend()


async def patiently(act: Callable[[], Awaitable[object]]) -> object:
    """Again while the store is away; the first answer."""
    while True:
        try:
            return await act()
        except StoreUnavailable:
            await asyncio.sleep(0.02)


async def claimed(worker: Worker, n: int) -> list[ClaimedJob]:
    """So many jobs, one claim for each."""
    return [job for _ in range(n) for job in await worker.claim(limit=1)]


@pytest.mark.slow
async def test_a_worker_whose_claims_a_crash_has_undone() -> None:
    """It lives on; what it says of claims that are gone is refused, and their numbers are not used again."""
    async with forgetful() as (server, dsn), opened(dsn) as store:
        worker = await Worker.registered(store)
        kept = await fill(store, 20)
        known = await claimed(worker, 5)
        await written(dsn)
        gone = await claimed(worker, 10)
        lost = await fill(store, 20)
        later = [r.id for r in await store.enqueue([job(delay=60.0)] * 3)]
        server.kill9()
        server.start()

        fresh = await patiently(lambda: fill(store, 20))
        assert isinstance(fresh, list)
        assert not set(fresh) & set(lost), "an id that somebody holds means another job now"
        again = [r.id for r in await store.enqueue([job(delay=60.0)] * 3)]
        assert not set(again) & set(later)
        assert await patiently(lambda: store.heartbeat(worker.id))
        taken = await claimed(worker, 10)
        assert not {j.claim for j in taken} & {j.claim for j in gone}, "the same claim, with other jobs"
        late = await worker.finish(gone)
        assert (late.applied, set(late.refused)) == (0, {j.id for j in gone})
        assert (await worker.finish(known)).applied == len(known), "claims that the server kept are its own"
        assert (await worker.finish(taken)).applied == len(taken)
        await store.promote()  # until somebody had adopted it, jobs waited outside of their lanes
        rest: list[int] = []
        while jobs := await worker.claim():
            rest += [j.id for j in jobs]
            await worker.finish(jobs)
        assert sorted([j.id for j in known] + [j.id for j in taken] + rest) == sorted(kept + fresh)
        await depth_is_a_scan(store, dsn)
        assert (await store.depth())["default"].offered < 100, "numbers that nobody had are no jobs"


async def test_a_clean_restart_begins_no_epoch() -> None:
    """Nothing is lost, so nothing is passed over, and workers go on."""
    async with forgetful() as (server, dsn), opened(dsn) as store:
        worker = await Worker.registered(store)
        (first,) = await fill(store, 1)
        held = await worker.claim()
        server.restart()
        assert await patiently(lambda: store.heartbeat(worker.id))
        assert await patiently(lambda: fill(store, 1)) == [first + 1]
        assert (await worker.finish(held)).applied == 1


@pytest.mark.slow
async def test_a_restore_to_a_point_in_time() -> None:
    """[S3] On the new timeline every worker of the old one is dead, and what it held then runs again."""
    with Server(18, fsync=False) as server:
        name = server.create_database()
        await PostgresStore(server.dsn(name)).migrate()
        async with Proxy("127.0.0.1", server.port) as proxy:
            url = server.dsn(name).replace(f":{server.port}/", f":{proxy.port}/")
            async with opened(url) as store:
                worker = await Worker.registered(store)
                kept = await fill(store, 20)
                recover = {
                    "restore_command": f"cp {server.data_dir}/pg_wal/%f %p",
                    "recovery_target_name": "here",
                    "recovery_target_action": "promote",
                }
                restored = Copy(server, recover)
                with contextlib.closing(restored):
                    restored.take()
                    held = await claimed(worker, 5)
                    async with connected(server.dsn(name)) as connection:
                        await connection.execute("SELECT pg_create_restore_point('here')")
                    gone = await claimed(worker, 10)
                    lost = await fill(store, 20)
                    async with connected(server.dsn(name)) as connection:
                        await connection.execute("SELECT pg_switch_wal()")
                    server.kill9()
                    restored.start()
                    proxy.lead_to(restored.port)
                    proxy.refuse()
                    proxy.restore()

                    async def lives() -> bool:
                        async with connected(restored.dsn(name)) as connection:
                            return not await connection.fetchval("SELECT pg_is_in_recovery()")

                    await until(lives, 20.0)
                    fresh = await patiently(lambda: fill(store, 20))
                    assert isinstance(fresh, list)
                    assert not set(fresh) & set(lost)
                    for late in (held, gone):
                        with pytest.raises(WorkerLost):
                            await patiently(lambda late=late: worker.finish(late))  # type: ignore[misc]
                    other = await Worker.registered(store)
                    assert sorted(await other.drain()) == sorted(kept + fresh)
                    await depth_is_a_scan(store, restored.dsn(name))


@pytest.mark.slow
async def test_a_real_worker_and_a_crash_that_undoes_its_work(tmp_path: Path) -> None:
    """Jobs are lost only where the server lost their commit, none ends without having run, none is stuck."""
    ids: list[int] = []
    over = asyncio.Event()
    async with forgetful() as (server, dsn), opened(dsn) as store, Host(tmp_path, dsn, slots=16) as host:
        async with asyncio.TaskGroup() as group:
            group.create_task(produce(store, ids, over))
            await asyncio.sleep(0.3)
            await written(dsn)
            await asyncio.sleep(0.3)
            server.kill9()
            server.start()
            await until(host.ready, 10.0)
            over.set()
        await settled(store)
        assert len(ids) == len(set(ids)), "an id was given out twice"
        async with connected(dsn) as connection:
            rows = await connection.fetch("SELECT id, state FROM windlass.job")
        assert {row["state"] for row in rows} == {"succeeded"}
        assert {row["id"] for row in rows} <= set(ids)
        assert {row["id"] for row in rows} <= host.ran().keys(), "ended without having run"
        assert len(rows) > len(ids) / 4
