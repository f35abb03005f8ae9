"""[W1] [W2] [W3] The agent of the examples: its worker is killed at each boundary of its steps, everything is
started anew while a human thinks, and its stream is read without a gap."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.workers.kit import Scene
from windlass import Windlass

APP = "tests.chaos.durable.killed_agent:app"
POINTS = [f"{step} {when}" for step in ("plan", "act", "report") for when in ("before", "ends", "after")]
APART = 3
QUEUES = ("agents=1",)


def tell(scene: Scene, job: int, point: str) -> None:
    """Where the job is to be killed."""
    Path(f"{scene.ledger}.{job}.goal").write_text(point, "utf-8")


@pytest.mark.parametrize("first", range(APART))
async def test_an_agent_survives_its_workers(scene: Scene, first: int) -> None:
    points = POINTS[first::APART]
    jobs = {point: (await scene.enqueue("agent", queue="agents", goal="g"))[0] for point in points}
    for point, job in jobs.items():
        tell(scene, job, point)
    async with Windlass(scene.url) as app:
        seen: dict[int, list[int]] = {job: [] for job in jobs.values()}

        async def read(job: int) -> None:
            async for event in app.job(job).events():
                seen[job].append(event.position)

        readers = [asyncio.create_task(read(job)) for job in jobs.values()]
        host = await scene.host(APP, queues=QUEUES)
        for job in jobs.values():
            await scene.state(job, "scheduled", within=60)
        host.send(signal.SIGTERM)
        assert await host.leaves() == 0
        await scene.host(APP, queues=QUEUES)
        for job in jobs.values():
            assert await app.asignal(job, "approved", {"ok": True}) in ("delivered", "kept")
        for point, job in jobs.items():
            record = await scene.state(job, "succeeded", within=60)
            assert record.result == '"<<<plan g> done> done> done"', point
            ran = Counter(entry.note for entry in scene.entries(job, "effect"))
            step, when = point.split()
            assert ran == {name: 1 + (name == step and when == "ends") for name in ("plan", "act", "report")}
        await asyncio.wait_for(asyncio.gather(*readers), 20)
        for job, positions in seen.items():
            assert positions == list(range(1, len(positions) + 1))
            whole = [event.value async for event in app.job(job).events(follow=False)]
            assert len(whole) == len(positions)
            assert whole[-1] == "done"
            assert len(whole) >= 6
