"""Counts of ended jobs after kills [M7]: a worker that dies between the flush of an outcome and its report
takes the report along. What has ended is counted by what the store holds."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import per_soak
from tests.chaos.workers.kit import Scene
from windlass.store.records import JobFilter, JobRecord


@pytest.mark.slow
async def test_counts_equal_the_ledger_after_twenty_kills(scene: Scene, figure: Figure) -> None:
    """[M7] [fault 1] By queue, task and kind."""
    await kill_under_load(scene, 20, random.Random(3))
    assert await counts(scene, figure) == await ledger(scene)


@pytest.mark.slow
async def test_counts_outlive_jobs_through_kills(pg_scene: Scene, figure: Figure) -> None:
    """[M7] [fault 1] [K6] The logs turn all the while: of what has ended nothing is left but the counts."""
    await kill_under_load(pg_scene, 10, random.Random(4), turn=True)
    found = await counts(pg_scene, figure)
    assert {kind for _, _, kind in found} == {"succeeded"}
    assert sum(found.values()) == len(pg_scene.acknowledged)


@pytest.mark.soak
async def test_counts_outlive_jobs_for_long(scene: Scene, figure: Figure) -> None:
    await kill_under_load(scene, per_soak(1.0, 20), random.Random(5), turn=True)
    assert sum((await counts(scene, figure)).values()) == len(scene.acknowledged)


async def kill_under_load(scene: Scene, kills: int, dice: random.Random, *, turn: bool = False) -> None:
    """Children and hosts die at random while jobs come in, until all of these have ended. No count falls."""
    start: dict[str, Any] = {"processes": 2, "WINDLASS_POISON": "100"}
    hosts = [await scene.host(**start) for _ in range(2)]
    seen: Counter[tuple[str, str, str]] = Counter()
    async with scene.producing(dice, 40, every=0.05, most=0.002):
        for number in range(kills):
            await asyncio.sleep(dice.uniform(0.1, 0.4))
            if number % 10 == 5:  # a host, and a new one in its place
                scene.kill_host(hosts.pop(0))
                hosts.append(await scene.host(**start))
            elif children := [pid for host in hosts for pid in host.children()]:
                scene.kill(dice.choice(children))
            if turn:
                await scene.store.rotate(force=True)
            now = await ended(scene)
            assert now >= seen
            seen = now
    await scene.all_ended(60.0)


async def ledger(scene: Scene) -> Counter[tuple[str, str, str]]:
    """Every job that was acknowledged, as the store shows it: by queue, task and state."""
    found: dict[int, JobRecord] = {}
    cursor: str | None = None
    while True:
        page = await scene.store.jobs(JobFilter(), 500, cursor)
        found |= {record.id: record for record in page.jobs}
        cursor = page.cursor
        if cursor is None:
            break
    assert found.keys() == set(scene.acknowledged)
    return Counter((record.queue, record.task, record.state.value) for record in found.values())


async def counts(scene: Scene, figure: Figure) -> Counter[tuple[str, str, str]]:
    """What the store has counted, beside what workers have reported."""
    reported = [row.counts for row in await scene.store.totals() if (row.queue, row.task) == ("", "")]
    found = await ended(scene)
    assert await scene.store.recount() == []
    assert await ended(scene) == found
    figure("processes killed", len(scene.killed))
    figure("jobs that ended, as counted", found.total())
    figure("jobs that succeeded, as reported", sum(each.get("succeeded", 0) for each in reported))
    return found


async def ended(scene: Scene) -> Counter[tuple[str, str, str]]:
    """By queue, task and kind."""
    rows = await scene.store.ended()
    return Counter({(each.queue, each.task, kind): n for each in rows for kind, n in each.counts.items()})
