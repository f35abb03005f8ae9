"""[fault 6] `kill -9` PostgreSQL under load, with a real worker: every acknowledged job is there and runs,
the processes are the same as before, and work goes on by itself within ten seconds of the server's return.

SQLite has no server; a killed writer is a killed worker, which the process faults are about.
"""

import asyncio
import time
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import counts, depth_is_a_scan, opened, per_soak, sized, until
from tests.chaos.outages.kit import Host, balance, produce, settled
from tests.postgres import Server
from windlass.store.postgres import PostgresStore

BACK = 10.0
"""Seconds within which work must go on after the server is back."""


async def killed(folder: Path, kills: int, between: float, figure: Figure) -> None:
    """Load, a kill every so often, and on until all has run."""
    with Server(18, settings={"synchronous_commit": "on"}) as server:
        dsn = server.dsn(server.create_database())
        await PostgresStore(dsn).migrate()
        ids: list[int] = []
        resumed: list[float] = []
        over = asyncio.Event()
        async with Host(folder, dsn, lease=3.0, processes=2) as host, opened(dsn) as store:
            family = host.family()
            async with asyncio.TaskGroup() as group:
                group.create_task(produce(store, ids, over))
                for _ in range(kills):
                    await asyncio.sleep(between)
                    await asyncio.to_thread(server.kill9)
                    await asyncio.to_thread(server.start)
                    resumed.append(await goes_on(host))
                over.set()
            await host.runs(ids)
            await settled(store)
            await until(host.ready, BACK)
            await depth_is_a_scan(store, dsn)
            # A job that ran while the server died may run again where its worker's lease ran out meanwhile.
            balance(host.ran(), ids, extra=16 * kills)
            again = sum(host.ran().values()) - len(ids)
            assert await counts(dsn) == {"succeeded": len(ids)}
            assert host.family() == family, "a process did not survive"
    figure("first effect after the server was back, s, at most", max(resumed))
    figure("jobs acknowledged = succeeded", len(ids))
    figure("kills", kills)
    figure("effects beyond the first of a job", again)
    assert max(resumed) < BACK


async def goes_on(host: Host) -> float:
    """How long from now until a handler runs."""
    back = time.monotonic()

    async def something_ran() -> bool:
        return any(effect.at > back for effect in host.effects()[-50:])

    await until(something_ran, 30.0)
    return next(effect.at for effect in host.effects() if effect.at > back) - back


@pytest.mark.slow
@sized("kills, between", (2, 1.0), (per_soak(15.0), 10.0))
async def test_postgres_killed_under_a_worker(
    tmp_path: Path, figure: Figure, kills: int, between: float
) -> None:
    await killed(tmp_path, kills, between, figure)
