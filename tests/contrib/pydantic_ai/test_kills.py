"""[W1] Workers are killed at each boundary of an agent's steps: what is recorded is not paid for again."""

import asyncio
from collections import Counter

import pytest

from tests.chaos.workers.kit import Scene

APP = "tests.contrib.pydantic_ai.killed:app"
APART = 3
STEPS = ("guide: model request", "guide: tool look call_look", "guide: model request#2")
POINTS = tuple(f"{step} {when}" for step in STEPS for when in ("before", "ends", "after"))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(APART))
async def test_w1_a_kill_repeats_at_most_the_step_it_hit(scene: Scene, first: int) -> None:
    """A supervisor waits longer after each death, so the points are shared among several."""
    points = POINTS[first::APART]
    jobs = {point: (await scene.enqueue("guide", kill=point))[0] for point in points}
    host = await scene.host(APP, queues=("work=1",))
    await scene.all_ended(90.0)
    await asyncio.gather(*(scene.state(job, "succeeded", within=30) for job in jobs.values()))
    assert host.log.count("was killed by SIGKILL") == len(points)
    for point, job in jobs.items():
        (record,) = await scene.records([job])
        assert record.result == '"I have looked"', point
        ran = Counter(entry.note for entry in scene.entries(job, "effect"))
        assert ran == {step: 1 + (point == f"{step} ends") for step in STEPS}, point
        assert {step.name for step in await scene.store.steps(job)} == set(STEPS)
