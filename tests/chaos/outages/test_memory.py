"""[fault 23] Millions of jobs through one worker: its memory stays flat. One in fifty returns a value and one
in fifty fails, so that the ways beside the plain one are walked as well.

The short form measures the growth of the supervisor and its child after a warm-up; the soak does the same
over WINDLASS_SOAK_JOBS jobs [10,000,000] and shows the memory after each tenth of them.
"""

import asyncio
import os
import time
from pathlib import Path

import psutil
import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import until
from tests.chaos.outages.kit import QUEUE, Host, store_at, work
from tests.postgres import Server
from windlass.store.records import NewJob, Options

MIB = 2**20
GROWTH = 20.0
"""MiB that a process may grow after its warm-up, whatever the number of jobs."""

BATCH = 5000
AHEAD = 20_000


def batch() -> list[NewJob]:
    """Five thousand jobs: most do nothing, some return something, some fail."""
    once = Options(max_attempts=1)
    fails = work("raises", '{"what": "no words"}', options=once)
    echo = NewJob(task="windlass.echo", payload='{"value": "text"}', queue=QUEUE)
    return [work("nothing")] * 48 * (BATCH // 50) + [fails] * (BATCH // 50) + [echo] * (BATCH // 50)


async def flat(url: str, folder: Path, jobs: int, figure: Figure) -> None:
    """So many jobs; no process may be more than GROWTH larger at the end than after the first fifth."""
    seen: list[dict[int, float]] = []
    began = time.monotonic()
    async with store_at(url) as store, Host(folder, url, slots=32) as host:
        family = host.family()
        made = 0

        async def left() -> int:
            depth = (await store.depth([QUEUE])).get(QUEUE)
            return 0 if depth is None else depth.ready + depth.running

        async def few() -> bool:
            return await left() < AHEAD

        async def none() -> bool:
            return await left() == 0

        for step in range(1, 11):
            while made < jobs * step // 10:
                await until(few, 120.0, pause=0.05)
                made += len(await store.enqueue(batch()))
            await until(none, 300.0, pause=0.05)
            seen.append({pid: psutil.Process(pid).memory_info().rss / MIB for pid in family})
        assert host.family() == family
        assert (await store.depth([QUEUE]))[QUEUE].dead == made // 50
    for role, pid in zip(("supervisor", "child"), (host.supervisor, _child(family, host)), strict=True):
        sizes = [sizes[pid] for sizes in seen]
        figure(f"MiB of the {role} after each tenth", " ".join(f"{size:.1f}" for size in sizes))
        assert sizes[-1] - sizes[1] < GROWTH, f"the {role} grows: {sizes}"
    figure("jobs", made)
    figure("jobs a second, enqueue included", made / (time.monotonic() - began))


def _child(family: list[int], host: Host) -> int:
    (child,) = [pid for pid in family if pid != host.supervisor]
    return child


@pytest.mark.slow
async def test_memory_stays_flat_on_postgres(pg_dsn: str, tmp_path: Path, figure: Figure) -> None:
    await flat(pg_dsn, tmp_path, 100_000, figure)


async def test_memory_stays_flat_on_sqlite(tmp_path: Path, figure: Figure) -> None:
    await flat(f"sqlite:///{tmp_path / 'jobs.db'}", tmp_path, 100_000, figure)


@pytest.mark.soak
async def test_memory_stays_flat_over_ten_million_jobs(tmp_path: Path, figure: Figure) -> None:
    jobs = int(os.environ.get("WINDLASS_SOAK_JOBS", "10000000"))
    with Server(18) as server:
        dsn = await asyncio.to_thread(server.create_database)
        await flat(server.dsn(dsn), tmp_path, jobs, figure)
