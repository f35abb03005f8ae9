"""[W2] [fault 1] Jobs wait for one signal after the other, which several processes send while workers are
killed, or which come with somebody's transaction: each is taken once, none is lost, and every job ends."""

import asyncio
import random
import sys
from collections import Counter

from tests.chaos.durable.workflows import SIGNALS
from tests.chaos.kit import sized, until
from tests.chaos.program import ROOT
from tests.chaos.workers.kit import Scene
from windlass import Windlass

APP = "tests.chaos.durable.workflows:app"
SENDERS = 3
SENDER = """
import random, sys
from windlass import Windlass
url, number, senders, signals, *jobs = sys.argv[1:]
mine = [(int(job), n) for job in jobs for n in range(int(signals)) if n % int(senders) == int(number)]
random.Random(int(number)).shuffle(mine)
with Windlass(url) as app:
    for job, n in mine:
        assert app.signal(job, "go", f"{job}/{n}") in ("delivered", "kept")
"""


@sized("n, kills", (40, 2), (4_000, 30))
async def test_signals_of_many_processes_and_workers_that_are_killed(
    scene: Scene, n: int, kills: int
) -> None:
    """So few kills for so many jobs that none is taken for poison."""
    dice = random.Random(n)
    host = await scene.host(APP, processes=2)
    jobs = await scene.enqueue("hears", n)
    await scene.seen(what="start", n=n, within=30.0)
    senders = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", SENDER, scene.url, str(number), str(SENDERS), str(SIGNALS), *map(str, jobs),
            cwd=ROOT,
        )
        for number in range(SENDERS)
    ]  # fmt: skip
    done = 0
    for _ in range(kills):
        heard = len(scene.entries(what="effect"))

        async def more(heard: int = heard) -> bool:
            return len(scene.entries(what="effect")) >= min(heard + n // 4, n * SIGNALS)

        await until(more, 30.0)
        if children := host.children():
            scene.kill(dice.choice(children))
            done += 1
        await host.ready(2)
    for sender in senders:
        assert await asyncio.wait_for(sender.wait(), 60.0) == 0
    await scene.all_ended(60.0 + n)
    assert done
    for job in jobs:
        record = await scene.state(job, "succeeded", within=30.0)
        steps = [step.result for step in await scene.store.steps(job)]
        sent = [f'"{job}/{number}"' for number in range(SIGNALS)]
        assert Counter(steps) == Counter(sent), "lost, or taken twice"
        assert record.result == f"[{','.join(steps)}]", "every run was given the same, in the same order"


async def test_the_signals_of_a_transaction_come_together(pg_scene: Scene) -> None:
    """And not at all where it is rolled back, however often; its job's worker waits for none of them."""
    import asyncpg

    scene = pg_scene
    await scene.host(APP)
    job, other = await scene.enqueue("hears", 2)
    await scene.seen(what="start", n=2)
    await scene.state(job, "scheduled")
    connection = await asyncpg.connect(scene.url)
    try:
        async with Windlass(scene.url) as app:
            for _ in range(3):
                undone = connection.transaction()
                await undone.start()
                for number in range(SIGNALS):
                    await app.asignal(job, "go", f"{number} never", connection=connection)
                await undone.rollback()
            async with connection.transaction():
                for number in range(SIGNALS):
                    await app.asignal(job, "go", number, connection=connection)
                for number in range(SIGNALS):
                    await app.asignal(other, "go", number)
                await scene.state(other, "succeeded", within=20.0)
                assert (await scene.records([job]))[0].state == "scheduled"
        record = await scene.state(job, "succeeded", within=20.0)
        assert record.result == "[0,1,2,3]"
    finally:
        await connection.close()
