"""[fault 18] The listener is lost, or NOTIFY cannot come through at all (PgBouncer in transaction mode):
polling takes over, jobs run all the same, and a new listener comes where one can.

SQLite has no listener: there the processes of one machine poll and wake each other through the file.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.chaos.figures import Figure, median
from tests.chaos.kit import connected, counts, depth_is_a_scan, lasting, opened, per_soak, sized, until
from tests.chaos.outages.kit import COMMAND, QUEUE, Host, balance, produce, settled, work
from tests.chaos.outages.pooler import pooler
from tests.chaos.program import ROOT
from tests.postgres import Server
from tests.stopwatch import Stopwatch
from windlass.store.postgres import PostgresStore

NAME = "outage-listener"
LISTENERS = "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND query ILIKE 'LISTEN%'"
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1"
END = f"SELECT pg_terminate_backend(pid) FROM ({LISTENERS}) AS listener"
POOL = 3
PICK_UP = 2.0
"""Seconds within which a job must be found by polling alone: the poll comes every 0.5 s."""


async def pick_up(store: PostgresStore, host: Host) -> tuple[int, float]:
    """Enqueue one job for an idle worker: its id, and how long it took to run, but for waits for a CPU."""
    began, watch = time.monotonic(), Stopwatch()
    (receipt,) = await store.enqueue([work()])
    await host.runs([receipt.id])
    (effect,) = [effect for effect in host.effects() if effect.job == receipt.id]
    return receipt.id, effect.at - began - watch.lost()


async def lost(dsn: str, folder: Path, losses: int, figure: Figure) -> None:
    """The listener is ended so many times, a job comes right after each."""
    url = f"{dsn}?application_name={NAME}"
    async with Host(folder, url, lease=5.0) as host, opened(dsn) as store, connected(dsn) as connection:

        async def listening() -> bool:
            return bool(await connection.fetch(LISTENERS, NAME))

        await until(listening, 10.0)
        ids, waits = [], []
        for _ in range(losses):
            ended = await connection.fetch(END, NAME)
            job, wait = await pick_up(store, host)
            ids.append(job)
            waits.append(wait)
            assert wait < PICK_UP, f"found after {wait:.1f} s, with {len(ended)} listeners ended"
        await until(listening, 60.0)
        await settled(store)
        balance(host.ran(), ids)
        figure("pick-up after the loss of the listener, s, at most", max(waits))


@sized("losses", (4,), (per_soak(1.0, 20),))
async def test_the_listener_is_ended_again_and_again(
    pg_dsn: str, tmp_path: Path, figure: Figure, losses: int
) -> None:
    """The first loss is made good at once; later ones after a pause, in which polling finds the jobs."""
    await lost(pg_dsn, tmp_path, losses, figure)


async def test_a_host_has_one_listener_and_each_child_one_connection(
    pg_dsn: str, tmp_path: Path, figure: Figure
) -> None:
    """The supervisor listens for its children, and a child calls the store over one connection, with nothing
    to do and while it runs jobs one after the other."""
    processes = 4
    url = f"{pg_dsn}?application_name={NAME}"
    most = 0
    async with (
        Host(tmp_path, url, lease=5.0, processes=processes) as host,
        opened(pg_dsn) as store,
        connected(pg_dsn) as connection,
    ):

        async def settled_down() -> bool:
            """What the start needed besides is closed."""
            return bool(await connection.fetchval(SESSIONS, NAME) <= processes + 3)

        await until(settled_down, 30.0)
        assert len(await connection.fetch(LISTENERS, NAME)) == 1
        ids = []
        for _ in range(20):
            job, wait = await pick_up(store, host)
            ids.append(job)
            assert wait < PICK_UP
            most = max(most, await connection.fetchval(SESSIONS, NAME))
        assert len(await connection.fetch(LISTENERS, NAME)) == 1
        balance(host.ran(), ids)
    figure("connections of a supervisor and four processes", most)
    assert most <= processes + 4


def doctor(url: str) -> list[dict[str, Any]]:
    """What `windlass doctor` finds."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "doctor", "--json"],
        cwd=ROOT, env={**os.environ, "WINDLASS_DATABASE_URL": url}, capture_output=True, check=True,
    )  # fmt: skip
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


async def left_behind(url: str) -> list[str]:
    """What the sessions behind the pooler listen to: they are everybody's, so it should be nothing."""
    heard: list[str] = []
    async with AsyncExitStack() as stack:
        for _ in range(POOL):  # all of them at once, each held by its transaction
            connection = await asyncpg.connect(url, statement_cache_size=0)
            stack.callback(connection.terminate)
            await connection.execute("BEGIN")
            heard += [row[0] for row in await connection.fetch("SELECT pg_listening_channels()")]
    return heard


async def pooled(server: Server, dsn: str, folder: Path, seconds: float, figure: Figure) -> None:
    """Producers and two worker processes share three connections of a transaction pooler."""
    ids: list[int] = []
    over = asyncio.Event()
    with pooler(server, dsn, folder, POOL) as url:
        async with Host(folder, url, lease=5.0, processes=2) as host, opened(url) as store:
            family = host.family()
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(produce(store, ids, over))
                await asyncio.sleep(seconds)
                over.set()
            await host.runs(ids)
            await settled(store)
            # Idle now: nothing but polling can find the next ones.
            waits = []
            for _ in range(4):
                job, wait = await pick_up(store, host)
                ids.append(job)
                waits.append(wait)
            await settled(store)
            await depth_is_a_scan(store, dsn)
            balance(host.ran(), ids)
            assert await counts(dsn) == {"succeeded": len(ids)}
            assert host.family() == family
            assert await left_behind(url) == []
            log = host.log.read_text()
        findings = {found["name"]: found for found in await asyncio.to_thread(doctor, url)}
    finding = findings["wake-ups"]
    assert finding["level"] == "warning"
    assert "pooler" in finding["text"]
    assert max(waits) < PICK_UP
    assert "no wake-up arrives, so an idle process looks every 0.5 s" in findings["polling"]["text"]
    assert "no wake-up arrives, so an idle process looks every 0.5 s" in log
    assert "prepared statement" not in log, log
    assert QUEUE in log
    figure("jobs run through PgBouncer", len(ids))
    figure("pick-up by polling, s, median", median(waits))


@pytest.mark.slow
@lasting(4.0)
async def test_a_worker_behind_a_transaction_pooler(
    pg_server: Server, pg_dsn: str, tmp_path: Path, figure: Figure, seconds: float
) -> None:
    """[rule 10] [rule 12] No prepared statement, no setting of a session, no NOTIFY; the doctor says so,
    and what polling costs [K12]."""
    await pooled(pg_server, pg_dsn, tmp_path, seconds, figure)
