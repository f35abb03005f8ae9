"""[W1] [W2] Workers are killed at every point of a job of three steps. A step in a transaction happens
exactly once, any other at most once more for each kill, and the job comes to its end."""

import asyncio
import contextlib
import random
from collections import Counter
from typing import Any

import pytest

from tests.chaos.durable.workflows import POINTS, TABLE
from tests.chaos.kit import sized
from tests.chaos.workers.kit import Scene
from windlass.store.postgres import PostgresStore

APART = 3
APP = "tests.chaos.durable.workflows:app"


async def executed(scene: Scene, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement in the store's own database."""
    if isinstance(scene.store, PostgresStore):
        import asyncpg

        connection = await asyncpg.connect(scene.url)
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()
    import apsw

    database = apsw.Connection(scene.url.removeprefix("sqlite:///"))
    database.set_busy_timeout(10_000)
    with contextlib.closing(database):
        return list(database.execute(sql))


async def paid(scene: Scene) -> Counter[int]:
    """How often each job has paid."""
    return Counter(job for (job,) in await executed(scene, "SELECT job FROM paid"))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(APART))
async def test_a_kill_at_each_point_repeats_at_most_the_step_it_hit(scene: Scene, first: int) -> None:
    """A supervisor waits longer after each death, so the points are shared among several."""
    points = POINTS[first::APART]
    await executed(scene, TABLE)
    jobs = {point: (await scene.enqueue("three", kill=point))[0] for point in points}
    host = await scene.host(APP, queues=("work=1",))
    await scene.all_ended(90.0)
    await asyncio.gather(*(scene.state(job, "succeeded", within=30) for job in jobs.values()))
    assert host.log.count("was killed by SIGKILL") == len(points)
    times = await paid(scene)
    for point, job in jobs.items():
        (record,) = await scene.records([job])
        assert record.result == '["plan","pay","tell"]', point
        assert (record.attempt, times[job]) == (1, 1), point
        ran = Counter(entry.note for entry in scene.entries(job, "effect"))
        twice = point.removesuffix(" ends") if point in ("plan ends", "tell ends") else None
        assert ran == {name: 1 + (name == twice) for name in ("plan", "tell")}, point
        names = [step.name for step in await scene.store.steps(job)]
        assert names == ["plan", "pay", "sleep", "tell"], point
        # A run, one after the kill, one after the sleep; and another where the next kill came before the
        # outcome of one of them was written.
        assert 3 <= len(scene.entries(job, "start")) < 3 + len(points), point


@sized("n, kills", (60, 3), (5_000, 100))
async def test_kills_at_any_moment(scene: Scene, n: int, kills: int) -> None:
    """Many at a time; the store is asked at the end what they did."""
    await executed(scene, TABLE)
    dice = random.Random(n)
    host = await scene.host(APP, processes=2)
    jobs = await scene.enqueue("three", n, sleep=1.1)
    done = 0
    for _ in range(kills):
        await scene.seen(what="start", n=min(len(scene.entries(what="start")) + 8, n), within=60.0)
        await asyncio.sleep(dice.uniform(0.0, 0.3))
        if children := host.children():
            scene.kill(dice.choice(children))
            done += 1
        await host.ready(2)
    await scene.all_ended(60.0 + n)
    for job in jobs:
        await scene.state(job, "succeeded", within=60)
    times = await paid(scene)
    for record in await scene.records(jobs):
        assert times[record.id] == 1
        ran = Counter(entry.note for entry in scene.entries(record.id, "effect"))
        assert set(ran) == {"plan", "tell"}
        assert max(ran.values()) <= 1 + done
    effects = Counter((entry.job, entry.note) for entry in scene.entries(what="effect"))
    repeated = sum(times - 1 for times in effects.values())
    assert repeated <= 8 * done, "a kill repeats at most what its process was doing"
