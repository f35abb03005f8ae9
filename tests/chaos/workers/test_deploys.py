"""[fault 19] A rolling deploy. Workers are told to stop, all at once and again and again, and new ones take
their place while jobs run and come in.

No job may be charged an attempt or a death, and where nobody was hurried each has its effect exactly once.
"""

import asyncio
import os
import random
import signal
import time

import asyncpg
import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import connected, per_soak, sized, until
from tests.chaos.workers.kit import Scene
from tests.stock import BOTH

OLD = "tests.chaos.workers.jobs:app"
NEW = "tests.chaos.workers.newer:app"


async def unhurt(scene: Scene) -> None:
    """Every job succeeded in its first attempt, saw no worker die, and had its effect once."""
    books = await scene.check()
    assert books.extra == 0
    assert all(record.deaths == 0 for record in await scene.records(scene.acknowledged))


@pytest.mark.slow
@BOTH
async def test_new_code_replaces_old_under_load(pg_scene: Scene, figure: Figure) -> None:
    """Old and new serve one queue for a while; a task that only the new ones know waits for them [O4]. That
    takes ten seconds, and how SQLite keeps such a job is its own suite's business."""
    scene = pg_scene
    dice = random.Random(19)
    old = [await scene.host(OLD), await scene.host(OLD)]
    async with scene.producing(dice, 2, every=0.08, most=0.4):
        fresh = await scene.enqueue("fresh", 5)

        async def unknown() -> bool:
            return any("this worker has no task fresh" in host.log for host in old)

        await until(unknown, 10.0)
        began = time.monotonic()
        new = [await scene.host(NEW, processes=2)]
        old[0].send(signal.SIGTERM)
        new.append(await scene.host(NEW))
        old[1].send_all(signal.SIGTERM)  # as an init system does: the children are told, too
        for host in old:
            assert await host.leaves() == 0
        figure("seconds to replace two hosts", time.monotonic() - began)
    await scene.all_ended(30.0)
    await unhurt(scene)
    pids = {entry.pid for host in new for entry in scene.entries() if entry.pid in host.children()}
    assert {entry.pid for job in fresh for entry in scene.entries(job)} <= pids
    figure("jobs", len(scene.acknowledged))


@pytest.mark.slow
@sized("stops", (5,), (per_soak(1.0, 12),))
async def test_a_storm_of_stops(scene: Scene, figure: Figure, stops: int) -> None:
    """Hosts come and go in any order, some before they are up."""
    await storm(scene, stops, random.Random(7), figure)


async def storm(scene: Scene, stops: int, dice: random.Random, figure: Figure) -> None:
    hosts = [await scene.host(), await scene.host()]
    stopped = []
    async with scene.producing(dice, 2, every=0.08, most=0.4):
        for number in range(stops):
            fresh = scene.start(processes=2)
            if number % 3 == 1:  # told to stop while it starts
                await asyncio.sleep(dice.uniform(0.0, 0.8))
                hosts.append(fresh)
                victim = fresh
            else:
                await fresh.ready(2)
                hosts.append(fresh)
                victim = dice.choice(hosts[:-1])
            (victim.send if dice.random() < 0.5 else victim.send_all)(signal.SIGTERM)
            hosts.remove(victim)
            stopped.append(victim)
        for host in stopped:
            await host.leaves(within=20.0)
    await scene.all_ended(30.0)
    await unhurt(scene)
    figure("stops", stops)
    figure("jobs", len(scene.acknowledged))


async def test_the_first_stop_waits_and_the_second_hands_back(scene: Scene, figure: Figure) -> None:
    """Shutdown: nothing new is begun and what runs may end. Stop now: it is handed back, uncharged [K2]."""
    gate = scene.folder / "gate"
    host = await scene.host(processes=2)
    (short,) = await scene.enqueue("steady", seconds=1.5)
    long = await scene.enqueue("gated", 3, gate=str(gate)) + await scene.enqueue("plain", seconds=60.0)
    await scene.seen(n=5)
    host.send(signal.SIGTERM)
    await host.says("running jobs have 30 s to finish")
    (late,) = await scene.enqueue("steady", seconds=0.0)
    await scene.state(short, "succeeded")
    assert host.code is None
    assert not scene.entries(late)
    host.send(signal.SIGTERM)
    began = time.monotonic()
    assert await host.leaves() == 0
    figure("second stop → the host has left, s", time.monotonic() - began)
    assert {record.state for record in await scene.records([late, *long])} == {"ready"}
    (thread,) = (entry for entry in scene.entries(long[-1], "start"))
    scene.killed[thread.pid] = time.monotonic()  # a thread has no end of its own
    await scene.store.delete(long[-1:])
    scene.acknowledged.remove(long[-1])
    gate.touch()
    await scene.host()
    await scene.all_ended(20.0)
    await unhurt(scene)


async def test_a_schema_of_the_next_version(pg_scene: Scene, pg_dsn: str) -> None:
    """A worker that runs goes on; a new one of the old version says what is wrong and leaves. A SQLite file
    is migrated by whoever opens it, and refused in the same words (see the suite of that store)."""
    scene = pg_scene
    running = await scene.host(processes=2)
    async with connected(pg_dsn) as connection:
        await next_version(connection)
    newcomer = scene.start()
    assert await newcomer.leaves() != 0
    assert "is at version 99" in newcomer.log
    assert "upgrade Windlass" in newcomer.log
    assert "Traceback" not in newcomer.log
    await scene.enqueue("steady", 20, seconds=0.05)
    await scene.all_ended(10.0)
    await unhurt(scene)
    assert (await running.readiness() or {})["status"] == "ready"
    # A child that has to be replaced now cannot be; the supervisor says why and the others work on.
    scene.kill(running.children()[0])
    await running.says(r"cannot be started: .*is at version 99")
    await scene.enqueue("steady", 20, seconds=0.05)
    await scene.all_ended(10.0)
    await unhurt(scene)
    assert "Traceback" not in running.log
    running.send(signal.SIGTERM)
    assert await running.leaves() == 0


async def next_version(connection: asyncpg.Connection) -> None:
    """What the migration of a later version leaves behind, as far as this one looks."""
    await connection.execute("UPDATE windlass.meta SET version = 99")


async def test_a_child_that_is_told_alone_is_replaced(scene: Scene) -> None:
    """SIGTERM to one child: it finishes what it runs, and its successor need not wait for that."""
    gate = scene.folder / "gate"
    host = await scene.host()
    await scene.enqueue("gated", gate=str(gate))
    (first,) = await scene.seen()
    os.kill(first.pid, signal.SIGTERM)
    (job,) = await scene.enqueue("steady", seconds=0.0)
    await scene.state(job, "succeeded")  # by the successor
    gate.touch()
    await host.says(r"worker \S+ left: it received SIGTERM")
    assert "ERROR" not in host.log
    await unhurt(scene)
