"""Reports on runs for the limits of queues and budgets: gathered by one worker, and sent to the store
once a second. Breakers of budgets count failures [F7], governors of queues watch run times [F2], a success
ends the caution after a throttle [O3], and unused tokens go back [F1]."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Final

from windlass.core.histogram import bucket as histogram_bucket
from windlass.core.read_errors import READ_ERRORS
from windlass.core.states import Kind
from windlass.errors import StoreError
from windlass.store.budgets import bucket_key, tokens_of
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Needs, Outcome, QueueRecord, Runs

LOOK_EVERY: Final = 5.0
"""Seconds between two looks at which budgets have a breaker."""

CLAIMS_KEPT: Final = 1000
_FAILED: Final = frozenset({Kind.RETRY, Kind.DEAD, Kind.THROTTLED})


class Feedback:
    """The reports that one worker has to send. `needs` says which tasks draw from which budgets."""

    def __init__(self, store: Store, needs: Needs) -> None:
        self._store = store
        self.needs = needs
        self._queues: Mapping[str, QueueRecord] = {}
        self._governed: set[str] = set()
        self._throttled: set[str] = set()
        self._runs: dict[str, Runs] = {}
        self._breakers: frozenset[str] = frozenset()
        self._looked = -LOOK_EVERY
        self._of_budgets: dict[str, list[int]] = {}
        """By budget, how many runs succeeded and failed."""
        self._unused: dict[tuple[str, str], tuple[int, float]] = {}
        self._claimed: dict[int, float] = {}
        self._succeeded: set[str] = set()
        """Queues of which a job succeeded though they were throttled before."""
        self._soon: asyncio.Task[None] | None = None
        self.idle: bool = not needs
        """True if nothing is to be reported: the hot path asks this first."""

    def set_queues(self, queues: Mapping[str, QueueRecord]) -> None:
        """The settings of queues as they are now."""
        self._queues = queues
        self._governed = {name for name, queue in queues.items() if queue.governor}
        self._throttled = {name for name, queue in queues.items() if queue.throttles}
        self.idle = not (self.needs or self._governed or self._throttled)

    def run_ended(self, outcome: Outcome) -> None:
        """A run has ended."""
        job, kind = outcome.job, outcome.kind
        failed = kind in _FAILED
        if not failed and kind is not Kind.SUCCEEDED:
            return
        if not failed and job.queue in self._throttled:
            self._succeeded.add(job.queue)
        for need in self.needs.get(job.task, ()):
            self._of_budgets.setdefault(need.budget, [0, 0])[failed] += 1
            if failed and self._soon is None:  # a breaker should know before the next runs start
                self._soon = asyncio.create_task(self._send_runs())
                self._soon.add_done_callback(self._sent)
        if job.queue in self._governed:
            runs = self._runs.setdefault(job.queue, Runs(times={}))
            if kind is Kind.THROTTLED:
                runs.throttled += 1
            elif failed:
                runs.failed += 1
            else:
                runs.succeeded += 1
            if outcome.run_ms is not None:
                place = histogram_bucket(outcome.run_ms)
                runs.times[place] = runs.times.get(place, 0) + 1

    def claimed(self, claim: int) -> None:
        """Tokens were taken for the jobs of this claim."""
        if self.needs:
            if len(self._claimed) >= CLAIMS_KEPT:
                del self._claimed[next(iter(self._claimed))]
            self._claimed[claim] = time.monotonic()

    def claimed_at(self, claim: int) -> float:
        """When this claim was made; one that is forgotten counts as just made."""
        return self._claimed.get(claim, time.monotonic())

    def unused(self, job: ClaimedJob) -> None:
        """A job was claimed and goes back without having been started."""
        taken = self._claimed.get(job.claim)
        for need in self.needs.get(job.task, ()) if taken is not None else ():
            try:
                bucket = (need.budget, bucket_key(job.payload, need))
            except READ_ERRORS:
                continue  # a payload that nobody can read [fault 17]
            n, first = self._unused.get(bucket, (0, time.monotonic()))
            self._unused[bucket] = (n + tokens_of(need, job.options), min(first, taken or first))

    async def send(self) -> None:
        """Send the store what it should know. What does not arrive is not sent again: tokens are lost then,
        which is safe, and runs, which the next ones make up for."""
        await self._send_runs()
        succeeded, self._succeeded = self._succeeded, set()
        for queue in succeeded:
            now = self._queues.get(queue)
            if now is not None and now.throttles and not now.cooling:
                with contextlib.suppress(StoreError):  # the next success says it again
                    await self._store.warm(queue)

    async def _send_runs(self) -> None:
        unused, self._unused = self._unused, {}
        of_budgets, self._of_budgets = self._of_budgets, {}
        runs, self._runs = self._runs, {}
        with contextlib.suppress(StoreError):
            for (budget, key), (n, taken) in unused.items():
                await self._store.give_back(budget, n, key, time.monotonic() - taken)
            if of_budgets:
                await self._look()
            for budget, (succeeded, failed) in of_budgets.items():
                if budget in self._breakers:
                    await self._store.report_calls(budget, succeeded, failed)
            if runs:
                await self._store.count_runs(runs)

    def _sent(self, _: asyncio.Task[None]) -> None:
        self._soon = None

    async def _look(self) -> None:
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._looked = time.monotonic()
            self._breakers = frozenset(each.name for each in await self._store.budgets() if each.breaker)
