"""[fault 29] [S4] The server crashes with `synchronous_commit = off` and forgets outcomes that it had
acknowledged, while their worker is full: the jobs run again, nothing stays `running`, and no slot leaks.

It forgets the claims that came after them, too: what runs under those is given out again, so it is stopped.
SQLite commits with `synchronous = FULL` and forgets nothing; see tests/worker/engine/test_agreement.py.
"""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import until
from tests.chaos.workers.kit import Scene
from tests.postgres import Server
from windlass.store.postgres import PostgresStore

SLOTS = 4
LONG = 1.0
"""Seconds that a run takes where its worker claims nothing ahead: it is full when its slots are."""

FORGETFUL = {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}


async def flush(dsn: str) -> None:
    """Have the server write down everything that was committed so far."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("SET synchronous_commit = on")
        await connection.execute("SELECT pg_logical_emit_message(true, 'test', 'flush')")
    finally:
        await connection.close()


async def count(scene: Scene, jobs: list[int], state: str) -> int:
    return sum(record.state == state for record in await scene.records(jobs))


async def all_are(scene: Scene, jobs: list[int], *states: str) -> None:
    async def there() -> bool:
        return {record.state for record in await scene.records(jobs)} <= set(states)

    await until(there, 20.0, pause=0.05)


async def forgotten(scene: Scene, server: Server, turn: int) -> tuple[list[int], list[int], int]:
    """Jobs whose outcomes, and jobs whose claims, are lost in a crash; and how many outcomes were. The worker
    is full with the latter."""
    ends, waits = scene.folder / f"ends-{turn}", scene.folder / f"waits-{turn}"
    ended = await scene.enqueue("gated", SLOTS, gate=str(ends))
    for job in ended:
        await scene.seen(job)
    running = await scene.enqueue("gated", SLOTS, gate=str(waits))
    await flush(scene.url)
    await asyncio.sleep(LONG)
    ends.touch()
    await all_are(scene, ended, "succeeded")
    for job in running:
        await scene.seen(job)
    await asyncio.to_thread(server.kill9)
    await asyncio.to_thread(server.start)
    lost = len(ended) - await count(scene, ended, "succeeded")
    return ended, running, lost


@pytest.mark.slow
async def test_outcomes_that_the_server_lost_while_the_worker_was_full(
    tmp_path: Path, figure: Figure
) -> None:
    """The worker listed its claims only after a claim had failed, and a full one claims nothing: the jobs
    stayed `running` for as long as it lived, and those that it ran were run a second time beside."""
    with Server(18, fsync=False, settings=FORGETFUL) as server:
        dsn = server.dsn(server.create_database())
        await PostgresStore(dsn).migrate()
        async with Scene(dsn, tmp_path) as scene:
            host = await scene.host(lease=12.0, queues=[f"work={SLOTS}"])
            (child,) = host.children()
            turn = 1
            ended, running, lost = await forgotten(scene, server, turn)
            while not lost:  # the server happened to write it all down just before
                (scene.folder / f"waits-{turn}").touch()
                await scene.all_ended(20.0)
                turn += 1
                assert turn <= 5, "the server forgot nothing"
                ended, running, lost = await forgotten(scene, server, turn)
            await all_are(scene, ended, "ready", "running", "succeeded")
            await scene.seen(what="stopped", n=SLOTS)
            (scene.folder / f"waits-{turn}").touch()
            await all_are(scene, ended + running, "succeeded")
            figure("outcomes lost, of a worker with so many slots", lost)
            starts = {job: len(scene.entries(job, "start")) for job in ended + running}
            figure("starts of a job, at most", max(starts.values()))
            assert max(starts.values()) == 2
            # Every slot is free again.
            gate = scene.folder / "last"
            last = await scene.enqueue("gated", SLOTS, gate=str(gate))
            for job in last:
                await scene.seen(job)
            gate.touch()
            await all_are(scene, last, "succeeded")
            assert host.children() == [child]
            assert "lost its lease" not in host.log
            assert "Traceback" not in host.log
            assert {record.attempt for record in await scene.records(ended + running)} == {1}
