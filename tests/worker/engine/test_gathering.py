"""Outcomes wait for company where flushes are slow and full, and nowhere else."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.stopwatch import within
from tests.worker.line import Line, until
from windlass import Windlass
from windlass.store.records import ClaimedJob, Outcome, WorkerInfo
from windlass.worker.engine import outcomes as module
from windlass.worker.engine.outcomes import MANY, OutcomeLog

TAKES = 0.2
"""Seconds that the slow flush of these tests takes."""


class Scale:
    """A log at work, and how many outcomes each of its flushes had."""

    def __init__(self, line: Line, jobs: list[ClaimedJob]) -> None:
        self._jobs = iter(jobs)
        self.log = OutcomeLog(line.as_store, 7)
        self.sent: list[int] = []
        self.takes = 0.0
        line.before["finish"] = self._note

    async def _note(self, worker: int, flush: int, outcomes: list[Outcome]) -> None:
        self.sent.append(len(outcomes))
        await asyncio.sleep(self.takes)

    def end(self, n: int) -> None:
        """So many jobs end."""
        for _ in range(n):
            self.log.add(Outcome(job=next(self._jobs)))

    def gather(self, since: float = 0.0) -> None:
        """The next outcomes gather for a minute, after a flush that ended so many seconds ago."""
        self.log._gathers, self.log._ended_at = 60.0, time.monotonic() - since

    async def settled(self) -> None:
        await until(lambda: self.log.settled)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stalls does not make a flush long ago."""
    monkeypatch.setattr(module, "RECENT", 60.0)


@asynccontextmanager
async def at_work(wired: Windlass, line: Line) -> AsyncIterator[Scale]:
    for number in range(2 * MANY):
        await wired.aenqueue("windlass.echo", number)
    await line.register(WorkerInfo(id=7))
    (claim,) = await line.claim(7, ["default"], 2 * MANY)
    scale = Scale(line, list(claim.jobs))
    running = asyncio.create_task(scale.log.run())
    try:
        yield scale
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def turns() -> None:
    """Everybody on the loop has had a turn or two."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_outcomes_gather_after_a_flush_that_was_slow_and_full(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST", 60.0)
    async with at_work(wired, line) as scale:
        scale.takes = TAKES
        scale.end(MANY)
        await scale.settled()
        scale.takes = 0.0
        scale.end(1)
        await turns()
        assert scale.sent == [MANY]
        scale.end(1)
        await scale.settled()
        assert scale.sent == [MANY, 2]


async def test_none_waits_after_a_slow_one_with_few(wired: Windlass, line: Line) -> None:
    """A lone job on a far server is told of at once."""
    async with at_work(wired, line) as scale:
        scale.takes = 2 * module.SLOW
        scale.end(MANY - 1)
        await scale.settled()
        assert not scale.log._gathers


async def test_none_waits_where_the_last_flush_is_long_ago(wired: Windlass, line: Line) -> None:
    async with at_work(wired, line) as scale:
        scale.gather(since=module.RECENT + 1.0)
        scale.end(1)
        await scale.settled()
        assert scale.sent == [1]


async def test_a_full_batch_waits_no_longer(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ENOUGH", 3)
    async with at_work(wired, line) as scale:
        scale.gather()
        scale.end(2)
        await turns()
        assert scale.sent == []
        scale.end(1)
        await scale.settled()
        assert scale.sent == [3]


async def test_none_waits_where_nothing_runs(wired: Windlass, line: Line) -> None:
    """As in a queue that may run so many at once: the next come when these are written."""
    async with at_work(wired, line) as scale:
        scale.gather()
        scale.end(1)
        await turns()
        assert scale.sent == []
        scale.log.no_more()
        await scale.settled()
        scale.log._more = lambda: False
        scale.gather()
        scale.end(1)
        await scale.settled()
        assert scale.sent == [1, 1]


async def test_who_leaves_gathers_nothing(wired: Windlass, line: Line) -> None:
    await wired.aenqueue("windlass.echo", 1)
    await line.register(WorkerInfo(id=7))
    (claim,) = await line.claim(7, ["default"], 1)
    scale = Scale(line, list(claim.jobs))
    scale.gather()
    scale.end(1)
    async with within(10.0):
        await scale.log.flush()
    assert scale.sent == [1]
