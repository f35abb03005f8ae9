"""[fault 5] The connection is cut after COMMIT was sent, with all the traffic of a real worker going through
the proxy: on enqueue one job, on flush each outcome once, on claim the jobs are offered again and run once.

SQLite has no connection that could be cut: there the commit and its answer are one call.
"""

import asyncio
import secrets
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import counts, depth_is_a_scan, lasting, opened
from tests.chaos.outages.kit import Host, balance, produce, proxied, settled, work
from tests.chaos.proxy import Loses
from tests.postgres import Server
from windlass.errors import StoreUnavailable

MARKS = (
    "enqueue_one", "enqueue_many", "enqueue_mixed", "COMMIT;", "finish", ".claim(", "heartbeat", "lane_heads",
    "held",
)  # fmt: skip


@pytest.mark.parametrize("loses", ["answer", "request"])
async def test_a_worker_cut_off_at_each_point(
    pg_server: Server, pg_dsn: str, tmp_path: Path, loses: Loses
) -> None:
    """[E7] [C5] One cut at a time: at the enqueue, at the claim, at the flush."""
    async with proxied(pg_server, pg_dsn) as (proxy, url), Host(tmp_path, url, lease=3.0) as host:
        async with opened(url, pool_size=2) as store:
            jobs = [work(idempotency_key=secrets.token_hex(8))]
            cut = proxy.cut("enqueue_one", loses)
            with pytest.raises(StoreUnavailable):
                await store.enqueue(jobs)
            await cut.done.wait()
            ids = [receipt.id for receipt in await store.enqueue(jobs)]
            await host.runs(ids)
            for mark in (".claim(", "finish"):
                cut = proxy.cut(mark, loses)
                more = [receipt.id for receipt in await store.enqueue([work()] * 20)]
                await cut.done.wait()
                await host.runs(more)
                ids += more
            await settled(store)
            await depth_is_a_scan(store, pg_dsn)
        balance(host.ran(), ids)
        assert await counts(pg_dsn) == {"succeeded": len(ids)}
        assert "cannot write" in host.log.read_text()


async def harassed(server: Server, dsn: str, folder: Path, seconds: float, figure: Figure) -> None:
    """One statement in ten that changes something is cut, before or after it is done; the books balance."""
    ids: list[int] = []
    over = asyncio.Event()
    # The lease is long enough that no identity is lost: then nothing at all may run twice.
    async with proxied(server, dsn) as (proxy, url), Host(folder, url, lease=5.0, processes=2) as host:
        family = host.family()
        async with opened(url, pool_size=2) as store, asyncio.TaskGroup() as group:
            proxy.harass(1 / 10, *MARKS)
            group.create_task(produce(store, ids, over))
            await asyncio.sleep(seconds)
            over.set()
        proxy.harass(0.0)
        async with opened(dsn) as store:
            await host.runs(ids)
            await settled(store)
            await depth_is_a_scan(store, dsn)
        balance(host.ran(), ids)
        assert await counts(dsn) == {"succeeded": len(ids)}
        assert host.family() == family
        assert proxy.cuts > seconds, "there were hardly any cuts"
        figure("connections cut", proxy.cuts)
        figure("jobs enqueued = run once = succeeded", len(ids))


@pytest.mark.slow
@lasting(3.0)
async def test_cuts_all_the_time(
    pg_server: Server, pg_dsn: str, tmp_path: Path, figure: Figure, seconds: float
) -> None:
    await harassed(pg_server, pg_dsn, tmp_path, seconds, figure)
