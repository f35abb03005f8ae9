"""Several pods and one queue: parts of an import, and plain jobs that take long, spread over them; short jobs
do not [K10]. The workers are started as the Kubernetes file starts them, and also without any number."""

import asyncio
from collections import Counter

import pytest

from tests.chaos.figures import Figure
from tests.chaos.workers.kit import Scene
from windlass.store.records import Options

APP = "tests.chaos.workers.spread:app"
PODS = 3


async def spread(scene: Scene, n: int) -> Counter[int]:
    """How many of the first n runs each process has begun."""
    starts = await scene.seen(n=n)
    return Counter(entry.pid for entry in starts[:n])


async def pods(scene: Scene, queue: str) -> None:
    """Start them, and wait until each knows of the others: they ask for that each second."""
    await asyncio.gather(*(scene.host(APP, queues=(queue,)) for _ in range(PODS)))
    await asyncio.sleep(2.0)


@pytest.mark.parametrize("kind", ["parts", "jobs"])
async def test_k10_four_long_jobs_over_three_idle_pods(scene: Scene, figure: Figure, kind: str) -> None:
    """Where nobody has named a number of slots: no pod has more than two of them, so each has one."""
    await pods(scene, "work")
    if kind == "parts":
        await scene.enqueue("split", n=1, parts=4, options=Options(chunked=True))
    else:
        await scene.enqueue("long", n=4)
    taken = await spread(scene, 4)
    figure("jobs by pod", ", ".join(map(str, sorted(taken.values(), reverse=True))))
    assert len(taken) == PODS
    assert max(taken.values()) <= 2


@pytest.mark.slow
async def test_k10_an_import_of_ten_parts_over_three_pods(scene: Scene, figure: Figure) -> None:
    """Each pod has three or four of them at the same time."""
    await pods(scene, "work=4/process")
    await scene.enqueue("split", n=1, parts=10, options=Options(chunked=True))
    taken = await spread(scene, 10)
    figure("parts by pod", ", ".join(map(str, sorted(taken.values(), reverse=True))))
    assert len(taken) == PODS
    assert max(taken.values()) <= 4
