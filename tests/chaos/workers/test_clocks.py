"""[fault 14] The clocks of two hosts are an hour fast and an hour slow.

Who is dead is judged by heartbeats and the observer's monotonic clock, what is due by the store's. So nobody
is taken for dead early and nothing fires early, late or twice. On SQLite the store's clock is the process's
own, and all processes share the machine's: there is no host with another clock, so this is for PostgreSQL
alone.
"""

import time
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import until
from tests.chaos.workers.kit import LEASE, Host, Scene
from tests.stopwatch import Stopwatch

HOUR = 3600.0
DELAY = 2.0
SHIFT = "WINDLASS_TEST_CLOCK_SHIFT"
SITE = f"""
import os, time
_time, _time_ns, _shift = time.time, time.time_ns, float(os.environ["{SHIFT}"])
time.time = lambda: _time() + _shift
time.time_ns = lambda: _time_ns() + int(_shift * 1e9)
"""


def site(folder: Path) -> str:
    """A directory with a module that Python runs before anything else, and that moves the clock."""
    place = folder / "site"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(SITE, encoding="ascii")
    return str(place)


async def host(scene: Scene, shift: float) -> Host:
    """A host whose wall clock, as Python sees it, is off by so many seconds."""
    return await scene.host(PYTHONPATH=site(scene.folder), **{SHIFT: str(shift)})


@pytest.mark.slow
async def test_hosts_an_hour_fast_and_an_hour_slow(pg_scene: Scene, figure: Figure) -> None:
    scene = pg_scene
    hosts = [await host(scene, HOUR), await host(scene, -HOUR)]

    async def both_are_known() -> bool:  # a moment after they are ready
        return len(await scene.store.workers()) == 2

    await until(both_are_known, 10.0)
    workers = {worker.id for worker in await scene.store.workers()}
    long = await scene.enqueue("steady", 4, seconds=2.0 * LEASE)  # outlast the lease
    enqueued, watch = time.monotonic(), Stopwatch()
    later = await scene.enqueue("steady", 20, seconds=0.0, delay=DELAY)
    flaky = await scene.enqueue("flaky", 4, wait=DELAY)
    await scene.all_ended(20.0)
    lost = watch.lost()

    seen = {round((entry.clock - time.time()) / HOUR) for entry in scene.entries()}
    assert seen == {1, -1}, "both hosts ran jobs, and their clocks were off"
    await scene.check(long + later)
    await scene.check(flaky, attempt=2)
    assert all(record.deaths == 0 for record in await scene.records(scene.acknowledged))
    assert {worker.id for worker in await scene.store.workers()} == workers  # nobody was taken for dead
    assert all("is dead" not in one.log and "lost its lease" not in one.log for one in hosts)

    starts = scene.entries(what="start")
    waits = [entry.at - enqueued for entry in starts if entry.job in later]
    assert len(waits) == len(later)
    figure(f"delay of {DELAY:g} s: between, s", min(waits))
    figure(f"delay of {DELAY:g} s: and, s", max(waits))
    assert min(waits) >= DELAY - 0.1  # from the commit on, which is a little sooner than the answer
    assert max(waits) < DELAY + 3.0 + lost
    for job in flaky:
        first, second = scene.entries(job, "start")
        assert DELAY - 0.1 <= second.at - first.at < DELAY + 3.0
