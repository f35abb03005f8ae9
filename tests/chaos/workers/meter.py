"""Measures what a budget granted, from the ledger: no window of time may hold more than rate·t + burst.

A start is seen a moment after its grant: the claim has to be answered, and the worker starts what it holds.
How long that was is measured, against the time of the claim as the store has it, and bounded (LATE). The same
check is made on those times, where nothing is late but the clock's reading within a claim (WITHIN), and some
are early: those of jobs that were claimed before their tokens were there (AHEAD).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.chaos.figures import Figure
from tests.chaos.workers.flow_books import Allowance
from tests.chaos.workers.flow_jobs import BUDGET
from tests.chaos.workers.jobs import Entry
from tests.chaos.workers.kit import Scene
from windlass import Windlass
from windlass.core.flow.bucket import AHEAD
from windlass.store.records import JobRecord

LATE = 3.0
"""Seconds from a grant to the start it is for, at the most, on a busy machine."""

WITHIN = 0.1
"""Seconds between the time of a claim and that of the bucket it draws from, as one waits for the other's row;
and from there to the answer to whoever takes by hand."""

USED = 0.4
"""The share of its tokens that the cluster should get out of a budget, kills and all."""


class Meter:
    """The grants of a budget, from both sides: what started, and when the store says it was claimed."""

    def __init__(self, scene: Scene, allowance: Allowance) -> None:
        self.scene = scene
        self.allowance = allowance
        self.by_hand: list[float] = []
        self._ahead = time.time() - time.monotonic()

    async def take_by_hand(self) -> None:
        """Take tokens, one after the other, outside any worker."""
        async with Windlass(self.scene.url) as app:
            budget = app.budget(BUDGET)
            while True:
                await budget.aacquire()
                self.by_hand.append(time.monotonic())
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def taking_by_hand(self) -> AsyncIterator[None]:
        """The same while the block lasts."""
        task = asyncio.create_task(self.take_by_hand())
        try:
            yield
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def change(self, rate: float) -> None:
        """Change the rate live."""
        began = time.monotonic()
        await self.scene.store.set_budget(BUDGET, {"rate": rate})
        self.allowance.changed(began, time.monotonic() + AHEAD, rate)  # what was booked before stays

    async def check(self, jobs: Sequence[int], figure: Figure, used: float = USED) -> None:
        """No window holds more than it may, by what started of these jobs and by what was claimed; and `used`
        is the share of the tokens that must have been used."""
        records = {record.id: record for record in await self.scene.records(jobs)}
        starts = [entry for entry in self.scene.entries(what="start") if entry.job in records]
        late = max((self._late(entry, records[entry.job]) for entry in starts), default=0.0)
        figure("grant → start, s, at most", late)
        assert late < LATE, f"a start came {late:.2f} s after its grant"
        seen = [entry.at for entry in starts] + self.by_hand
        by_start = self.allowance.excess(seen, late)
        claimed = [record.claimed_at - self._ahead for record in records.values() if record.claimed_at]
        by_claim = self.allowance.excess(claimed + self.by_hand, 2 * WITHIN + AHEAD)
        figure("tokens granted", len(seen))
        figure("of them by hand", len(self.by_hand))
        figure("the worst window of starts, tokens beyond what it may hold", by_start)
        figure("the worst window of claims, tokens beyond what it may hold", by_claim)
        assert by_start <= 0.01, f"{by_start:.2f} tokens too many by starts"
        assert by_claim <= 0.01, f"{by_claim:.2f} tokens too many by claims"
        grown = self.allowance.grown(max(seen), min(seen)) + self.allowance.burst
        figure("share of the tokens that was used", len(seen) / grown)
        assert len(seen) / grown > used, f"only {len(seen) / grown:.2f} of the tokens were used"

    def _late(self, entry: Entry, record: JobRecord) -> float:
        """How long after its claim a run started; of an earlier claim that was cut off, nobody knows."""
        if record.claimed_at is None or record.claim != entry.fence:
            return 0.0
        return entry.at - (record.claimed_at - self._ahead)
