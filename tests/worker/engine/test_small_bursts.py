"""A budget whose burst is a token or two is used up by a worker, and not exceeded [F1]."""

import asyncio
import time

from tests.chaos.workers.flow_books import Allowance
from tests.stopwatch import Stopwatch
from windlass import Context, State, Windlass

JOBS = 200
RATE = 100


async def test_a_burst_of_one_is_used_up(any_app: Windlass) -> None:
    """[F1] The tokens that came while a job was let out, claimed and started were lost: 26 of 100 a second
    were used. No job starts before its token is there."""
    any_app.budget("b", rate=RATE, burst=1)
    starts: list[float] = []
    late: list[float] = []
    all_began = asyncio.Event()

    @any_app.task(budgets=["b"])
    async def call(context: Context, n: int) -> None:
        starts.append(time.monotonic())
        if context._job.starts_at:
            late.append(starts[-1] - context._job.starts_at)
        if len(starts) == JOBS:
            all_began.set()

    await call.aenqueue_many([(n,) for n in range(JOBS)])
    async with any_app.worker(["default"]):
        stopwatch = Stopwatch()
        await asyncio.wait_for(all_began.wait(), 60)
    assert stopwatch.seconds() < 2 * JOBS / RATE
    assert min(late) >= 0
    assert len(late) > JOBS / 2
    assert Allowance(RATE, 1).excess(starts, max(late) + 0.1) <= 0.01


async def test_a_job_that_waits_for_its_token_can_be_stopped(any_app: Windlass) -> None:
    """[F1] [O5] It has not begun: the worker leaves without it, and it is charged nothing."""
    any_app.budget("b", rate=10, burst=1)
    began: list[int] = []

    @any_app.task(budgets=["b"])
    async def call(n: int) -> None:
        began.append(n)

    jobs = [await call.aenqueue(n) for n in range(20)]
    async with any_app.worker(["default"]):
        await jobs[1].aresult("30s")
    left = [record for job in jobs if (record := await job.arecord()).state is not State.SUCCEEDED]
    assert len(left) == 20 - len(began)
    assert {(record.attempt, record.deaths) for record in left} <= {(0, 0), (1, 0)}
