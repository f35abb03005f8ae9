"""[O5] [K2] What an operator says reaches the process that it is meant for at once, not with a heartbeat.

The hosts here send a heartbeat every five minutes, so that none comes in time.
"""

import statistics
import time
from pathlib import Path

import asyncpg
import pytest

from tests.chaos.figures import Figure
from tests.chaos.outages.pooler import pooler
from tests.chaos.workers.jobs import QUEUE
from tests.chaos.workers.kit import Scene
from tests.postgres import Server
from tests.stopwatch import Stopwatch
from tests.store.postgres.connections.test_forward_wakeups import CUT
from windlass.core.slots import MAX_SLOTS

LEASE = 900.0
SOON = 5.0
"""Seconds: far below a heartbeat, and far above the milliseconds that it takes."""


@pytest.mark.parametrize(
    "scene", ["postgres", "sqlite", pytest.param("stock", marks=pytest.mark.stock)], indirect=True
)
async def test_o5_a_cancel_stops_a_running_job_at_once(scene: Scene, figure: Figure) -> None:
    await scene.host(processes=2, lease=LEASE)
    took: list[float] = []
    processes: set[int] = set()
    for _ in range(24):
        pid, seconds = await cancelled(scene)
        processes.add(pid)
        took.append(seconds)
    figure("cancel → handler stopped, p50, ms", statistics.median(took) * 1e3)
    figure("cancel → handler stopped, slowest, ms", max(took) * 1e3)
    figure("processes that ran the jobs", len(processes))


async def cancelled(scene: Scene) -> tuple[int, float]:
    """Cancel a job that runs; which process ran it, and after how many seconds it was stopped."""
    (job,) = await scene.enqueue("hang.loop")
    (started,) = await scene.seen(job)
    at, watch = time.monotonic(), Stopwatch()
    assert await scene.store.cancel([job]) == {job: "requested"}
    (stopped,) = await scene.seen(job, "stopped")
    assert watch.seconds() < SOON
    await scene.state(job, "cancelled")
    return started.pid, stopped.at - at


async def test_o5_a_cancel_while_nobody_listens_is_found_with_the_next_listener(pg_scene: Scene) -> None:
    """[fault 18] The connection that listens for the host is cut at the same moment."""
    await pg_scene.host(lease=LEASE)
    connection = await asyncpg.connect(pg_scene.url)
    try:
        for _ in range(3):
            await connection.fetchval(CUT)
            await cancelled(pg_scene)
    finally:
        await connection.close()


@pytest.mark.slow
async def test_o5_a_host_behind_a_transaction_pooler_finds_a_cancel_within_seconds(
    pg_server: Server, pg_dsn: str, tmp_path: Path, figure: Figure
) -> None:
    """No NOTIFY arrives there."""
    with pooler(pg_server, pg_dsn, tmp_path, 8) as url:
        async with Scene(url, tmp_path) as scene:
            await scene.host(lease=LEASE)
            took = [(await cancelled(scene))[1] for _ in range(3)]
    figure("behind a pooler: cancel → handler stopped, slowest, s", max(took))


@pytest.mark.parametrize("scene", ["postgres", "sqlite"], indirect=True)
async def test_k1_one_process_runs_a_thousand_jobs_and_stops_them_all(scene: Scene) -> None:
    """[K1] [O5] What each waits for may be a model or an API."""
    await scene.host(queues=(f"{QUEUE}={MAX_SLOTS}/process",), lease=LEASE)
    jobs = await scene.enqueue("hang.loop", MAX_SLOTS)
    starts = await scene.seen(n=MAX_SLOTS, within=60.0)
    assert len({entry.pid for entry in starts}) == 1
    assert scene.entries(what="stopped") == []
    watch = Stopwatch()
    assert set((await scene.store.cancel(jobs)).values()) == {"requested"}
    await scene.seen(what="stopped", n=MAX_SLOTS, within=60.0)
    assert watch.seconds() < 2 * SOON
    await scene.all_ended(60.0)
    assert {record.state for record in await scene.records(jobs)} == {"cancelled"}
