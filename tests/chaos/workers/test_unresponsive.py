"""[fault 32] A worker that is alive and takes nothing: its listener, its connections or its loop is
stuck. It is seen, said, counted and replaced; and whoever has a reason to take nothing is left alone."""

import asyncio
import os
import signal
import time

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import until
from tests.chaos.workers.kit import Host, Scene

APP = "tests.chaos.workers.unresponsive:app"
LIMIT = 2.0
LONGER = 1.25 * LIMIT
LEASE = 1.0


async def start(scene: Scene) -> Host:
    return await scene.host(
        APP, lease=LEASE, WINDLASS_UNRESPONSIVE=f"{LIMIT:g}s", WINDLASS_REPORT_EVERY="0.2s"
    )


async def replaced(scene: Scene, host: Host, how: str, stack: str, figure: Figure) -> None:
    """Break it, offer it work, and see what becomes of both."""
    (child,) = host.children()
    await scene.enqueue(how)
    await asyncio.sleep(0.5)  # its last answer
    at = time.monotonic()
    (job,) = await scene.enqueue("steady", seconds=0.0)
    unready: list[dict[str, object]] = []

    async def taken() -> bool:
        readiness = await host.readiness()
        if readiness is not None and readiness["unresponsive"]:
            unready.append(readiness)
        return bool(scene.entries(job, "start"))

    await until(taken, 30.0, pause=0.02)
    figure(f"{how}: enqueued → started by another process, s", time.monotonic() - at)
    assert time.monotonic() - at > LIMIT / 2
    (started,) = scene.entries(job, "start")
    assert started.pid != child
    await scene.state(job, "succeeded")
    assert unready, "it was ready all the time"
    assert {readiness["status"] for readiness in unready} == {"not ready"}
    assert f"process {child}, is replaced" in host.log
    assert stack in host.log.partition("Its stacks:")[2]
    await host.ready()

    async def counted() -> bool:
        await scene.store.rollup()
        return any(sample.counts.get("unresponsive") == 1 for sample in await scene.store.totals())

    await until(counted, 10.0, pause=0.1)


async def test_its_loop_is_stuck(sqlite_scene: Scene, figure: Figure) -> None:
    """It cannot be told anything: it is killed."""
    await replaced(sqlite_scene, await start(sqlite_scene), "unresponsive.loop", "uncalled", figure)


async def test_its_listener_is_stuck(pg_scene: Scene, figure: Figure) -> None:
    """One that is merely lost costs nothing but time: polling takes over [fault 18]."""
    await replaced(pg_scene, await start(pg_scene), "unresponsive.listener", "in never", figure)


async def test_its_connections_are_all_taken(pg_scene: Scene, figure: Figure) -> None:
    """SQLite has one connection that writes, and whoever waits for it is told that the store is busy."""
    await replaced(pg_scene, await start(pg_scene), "unresponsive.pool", "in hold", figure)


@pytest.mark.slow
async def test_those_with_a_reason_are_left_alone(sqlite_scene: Scene) -> None:
    """A handler that blocks the loop, a paused queue with jobs, no slot free, nothing to do, a process that
    was stopped by a signal: each for longer than the limit. The store has no part in it."""
    scene = sqlite_scene
    gate = scene.folder / "gate"
    host = await start(scene)
    (child,) = host.children()
    (blocking,) = await scene.enqueue("blocks", seconds=LONGER)
    await scene.state(blocking, "succeeded", within=20.0)
    await scene.store.set_queue("work", {"paused": True})
    waiting = await scene.enqueue("gated", 9, gate=str(gate))
    await asyncio.sleep(LONGER)
    await scene.store.set_queue("work", {"paused": False})
    await scene.seen(what="start", n=9)  # all eight slots are taken
    await asyncio.sleep(LONGER)
    gate.touch()
    for job in waiting:
        await scene.state(job, "succeeded")
    await asyncio.sleep(LONGER)
    os.kill(child, signal.SIGSTOP)
    await asyncio.sleep(LONGER)
    os.kill(child, signal.SIGCONT)
    (last,) = await scene.enqueue("steady", seconds=0.0)
    await scene.state(last, "succeeded")
    assert host.children() == [child]
    assert "is replaced" not in host.log
