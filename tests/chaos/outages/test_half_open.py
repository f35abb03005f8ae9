"""[fault 9] Half-open TCP: a proxy takes everything and passes nothing on. Every call has a deadline:
heartbeats fail and are tried again, claims and flushes end as StoreUnavailable in bounded time, the worker
fences itself and goes on by itself with new connections. The swallowed ones never come back to life.

SQLite has no network in between.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import Worker, counts, depth_is_a_scan, job, lasting, opened, until
from tests.chaos.outages.kit import balance, in_the_midst, proxied, settled, work
from tests.postgres import Server
from tests.stopwatch import Stopwatch
from windlass.core.states import Kind
from windlass.errors import StoreUnavailable
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.connections import listener
from windlass.store.records import Checkpoint, WorkerInfo

LEASE = 2.0
DEADLINE = 1.0
SLACK = 1.0
"""Seconds beyond the deadline that a busy machine may take to notice it."""


async def test_every_call_of_a_worker_ends(pg_server: Server, pg_dsn: str, figure: Figure) -> None:
    """Each on connections that were good a moment ago, all at once: more calls than the pool has places."""
    async with proxied(pg_server, pg_dsn) as (proxy, url), opened(url, deadline=DEADLINE) as store:
        await store.enqueue([job()] * 3)
        worker = await Worker.registered(store)
        claimed = await worker.claim(limit=1)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "heartbeat": lambda: store.heartbeat(worker.id),
            "claim": worker.claims,
            "finish": lambda: worker.finish(claimed),
            "unfinished": lambda: store.unfinished(worker.id),
            "checkpoint": lambda: store.checkpoint(worker.id, claimed[0], Checkpoint(data="1")),
            "cluster_view": lambda: store.cluster_view([worker.id]),
            "workers": store.workers,
            "register": lambda: store.register(WorkerInfo(id=17)),
            "retire": lambda: store.retire(worker.id),
            "lead": lambda: store.lead(1, 5.0),
            "promote": store.promote,
            "throttle": lambda: store.throttle("default"),
            "depth": store.depth,
        }
        proxy.swallow()
        took = await asyncio.gather(*(_fails(name, call) for name, call in calls.items()))
        figure("the longest call, s, at a deadline of 1 s", max(took))
        # Again, now that there is no connection left: to make one has a deadline as well.
        took = await asyncio.gather(*(_fails(name, call) for name, call in calls.items()))
        figure("the longest call without a connection, s", max(took))
        proxy.restore()
        watch = Stopwatch()
        held = [j for claim in await store.unfinished(worker.id) for j in claim.jobs]
        assert watch.seconds() < DEADLINE, "it waited for a connection that was swallowed"
        await worker.finish(held, Kind.RELEASED)
        assert len(await worker.drain()) == 3


async def _fails(name: str, call: Callable[[], Awaitable[object]]) -> float:
    began, watch = time.monotonic(), Stopwatch()
    with pytest.raises(StoreUnavailable):
        await call()
    took = time.monotonic() - began
    assert watch.seconds() < DEADLINE + SLACK, f"{name} took {took:.1f} s"
    return took


async def test_a_cancelled_call_ends_at_once(pg_server: Server, pg_dsn: str) -> None:
    """Whoever gives up on a call does not have to wait until the server agrees: so a heartbeat's own time
    limit holds, and a worker can stop claiming."""
    async with proxied(pg_server, pg_dsn) as (proxy, url), opened(url) as store:
        worker = await Worker.registered(store)
        proxy.swallow()
        for call in (store.heartbeat(worker.id), worker.claims(), store.wait(["default"], 30.0)):
            watch = Stopwatch()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await call
            assert watch.seconds() < 0.2 + SLACK
        watch = Stopwatch()
        await store.close()
        assert watch.seconds() < 2 + SLACK


async def test_a_store_cannot_be_opened_for_ever(pg_server: Server, pg_dsn: str) -> None:
    """To open and to close have deadlines, too."""
    async with proxied(pg_server, pg_dsn) as (proxy, url):
        proxy.swallow()
        store = PostgresStore(url, deadline=DEADLINE)
        watch = Stopwatch()
        with pytest.raises(StoreUnavailable):
            await store.open()
        with pytest.raises(StoreUnavailable):
            await store.migrate()
        await store.close()
        assert watch.seconds() < 2 * (DEADLINE + SLACK)


async def test_a_listener_notices_that_nothing_can_reach_it(
    pg_server: Server, pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[fault 18] It only listens, so nothing it sends would fail: it asks now and then, and begins anew."""
    monkeypatch.setattr(listener, "PROBE_EVERY", 0.1)
    monkeypatch.setattr(listener, "POLL_LISTENING", 0.2)
    async with proxied(pg_server, pg_dsn) as (proxy, url), opened(url, deadline=DEADLINE) as store:
        worker = await Worker.registered(store)
        assert await worker.claims() == []

        async def listening() -> bool:
            await store.wait(["default"], 0.1)
            return store._listener._connection is not None

        await until(listening, DEADLINE + SLACK)
        assert await worker.claims() == []
        before = store._listener._connection
        proxy.swallow()
        proxy.restore()  # what was there is lost for good, what is new works

        async def anew() -> bool:
            await store.wait(["default"], 0.1)
            now = store._listener._connection
            return now is not None and now is not before and store._listener.receives

        await until(anew, 2 * (DEADLINE + SLACK))


async def swallowed(server: Server, dsn: str, folder: Path, seconds: float, figure: Figure) -> None:
    """The network is mute for so many seconds while a long handler runs."""
    async with in_the_midst(server, dsn, folder, LEASE) as midst:
        proxy, host, store, family, quick, long = midst
        proxy.swallow()
        mute_at = time.monotonic()
        await until(lambda: midst.seen("cancelled"), 2 * LEASE)
        figure("handler stopped after, s", time.monotonic() - mute_at)
        await until(host.not_ready, 2 * LEASE)
        await asyncio.sleep(max(0.0, mute_at + seconds - time.monotonic()))
        proxy.restore()
        back = time.monotonic()
        more = [receipt.id for receipt in await store.enqueue([work()] * 20)]
        await host.runs(more)
        figure("first jobs after the network was back run within, s", time.monotonic() - back)
        await until(host.ready, 10.0)
        await host.runs([long])
        await settled(store)
        await depth_is_a_scan(store, dsn)
        balance(host.ran(), [*quick, *more, long])
        assert await counts(dsn) == {"succeeded": 41}
        assert host.family() == family, "a process did not survive"
        assert "a heartbeat failed" in host.log.read_text()


@pytest.mark.slow
@lasting(2.5 * LEASE, share=0.5)
async def test_a_worker_behind_a_mute_network(
    pg_server: Server, pg_dsn: str, tmp_path: Path, figure: Figure, seconds: float
) -> None:
    """[C4] [C9] Two and a half leases long."""
    await swallowed(pg_server, pg_dsn, tmp_path, seconds, figure)
