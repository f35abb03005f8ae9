"""Waiting for work in queues that are bounded: nobody is woken for what he cannot have [F2] [F3]."""

import asyncio
from pathlib import Path

import pytest

from tests.stopwatch import Stopwatch, within
from tests.store.sqlite.kit import job, opened
from windlass.core.flow.governor import Governor
from windlass.store.fields import NewBudget
from windlass.store.records import Need, Outcome, WorkerInfo


async def test_a_queue_without_a_free_slot_has_no_work(tmp_path: Path) -> None:
    """[F3] Until a run has ended."""
    async with opened(tmp_path / "w.db") as store:
        await store.register(WorkerInfo(id=1))
        await store.set_queue("default", {"concurrency": 1})
        await store.enqueue([job(), job()])
        assert await store.wait(["default"], 5)
        (claim,) = await store.claim(1, ["default"], 10)
        assert not await store.wait(["default"], 0.05)
        waiting = asyncio.create_task(store.wait(["default"], 10))
        await store.finish(1, 1, [Outcome(job=claim.jobs[0])])
        assert await waiting


async def test_a_governed_queue_wakes_when_the_next_may_start(tmp_path: Path) -> None:
    """[F2] Not before, and without anybody ringing."""
    async with opened(tmp_path / "w.db") as store:
        await store.register(WorkerInfo(id=1))
        await store.set_queue("default", {"governor": True})
        term = await store.lead(1, 30)
        assert term is not None
        await store.govern(term, "default", Governor(rate=5.0))
        await store.enqueue([job() for _ in range(100)])
        assert len(await store.claim(1, ["default"], 100)) == 1
        watch = Stopwatch()
        assert await store.wait(["default"], 10)
        assert watch.seconds() < 1
        assert await store.claim(1, ["default"], 1)


async def test_a_cool_down_ends_by_itself(tmp_path: Path) -> None:
    """[O3] Nobody commits anything when it is over, and a worker wakes all the same."""
    async with opened(tmp_path / "w.db") as store:
        await store.set_queue("default", {"cool_base": 0.1, "cool_cap": 0.1})
        await store.enqueue([job()])
        await store.throttle("default")
        assert await store.wait(["default"], 10)


async def test_f1_whoever_promotes_hears_of_the_first_who_waits_for_tokens(tmp_path: Path) -> None:
    """Else it would wait for half a second, and a small budget would be full long before."""
    async with opened(tmp_path / "w.db") as store:
        await store.declare_budget(NewBudget(name="b", rate=0.001, burst=1))
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job("t"), job("t")])
        needs = {"t": [Need("b")]}
        assert (await store.promote()).next_in is None
        waiting = asyncio.create_task(store.wait_aside(60))
        assert await store.claim(1, ["default"], 1, needs)
        await store.claim(1, ["default"], 1, needs)
        async with within(10):
            await waiting
        assert (await store.promote()).next_in is not None
        with pytest.raises(TimeoutError):  # that one is known now
            async with asyncio.timeout(0.05):
                await store.wait_aside(60)
