"""How runs went, gathered by one worker and told to the store once a second: to the breakers of budgets [F7],
to the governors of queues [F2], and tokens that nobody used go back [F1]."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection
from typing import Final

import msgspec

from windlass.core.histogram import bucket as histogram_bucket
from windlass.core.states import Kind
from windlass.errors import StoreError
from windlass.store.budgets import bucket_key
from windlass.store.flow import Needs, Runs
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Outcome

LOOK_EVERY: Final = 5.0
"""Seconds between two looks at which budgets have a breaker."""

CLAIMS_KEPT: Final = 1000
_FAILED: Final = frozenset({Kind.RETRY, Kind.DEAD, Kind.THROTTLED})


class Tally:
    """What is to be told. `needs` says which tasks draw from which budgets."""

    def __init__(self, store: Store, needs: Needs) -> None:
        self._store = store
        self._needs = needs
        self._governed: frozenset[str] = frozenset()
        self._runs: dict[str, Runs] = {}
        self._breakers: frozenset[str] = frozenset()
        self._looked = -LOOK_EVERY
        self._told: dict[str, list[int]] = {}
        self._unused: dict[tuple[str, str], tuple[int, float]] = {}
        self._claimed: dict[int, float] = {}
        self._soon: asyncio.Task[None] | None = None
        self.idle = True
        """Whether nobody wants to know: the hot path asks this first."""
        self._wake()

    def govern(self, queues: Collection[str]) -> None:
        """These queues have a governor."""
        self._governed = frozenset(queues)
        self._wake()

    def note(self, outcome: Outcome) -> None:
        """A run has ended."""
        job, kind = outcome.job, outcome.kind
        failed = kind in _FAILED
        if not failed and kind is not Kind.SUCCEEDED:
            return
        for need in self._needs.get(job.task, ()):
            self._told.setdefault(need.budget, [0, 0])[failed] += 1
            if failed and self._soon is None:  # a breaker should hear of it before the next ones start
                self._soon = asyncio.create_task(self.tell())
                self._soon.add_done_callback(self._said)
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
        if self._needs:
            if len(self._claimed) >= CLAIMS_KEPT:
                del self._claimed[next(iter(self._claimed))]
            self._claimed[claim] = time.monotonic()

    def unused(self, job: ClaimedJob) -> None:
        """A job was claimed and goes back without having been started."""
        taken = self._claimed.get(job.claim)
        for need in self._needs.get(job.task, ()) if taken is not None else ():
            try:
                bucket = (need.budget, bucket_key(job.payload, need))
            except (msgspec.MsgspecError, UnicodeError):
                continue  # a payload that nobody can read [fault 17]
            n, first = self._unused.get(bucket, (0, time.monotonic()))
            self._unused[bucket] = (n + need.n, min(first, taken or first))

    async def tell(self) -> None:
        """Tell the store what there is to tell. What it does not hear is not told again: tokens are lost
        then, which is safe, and runs, which the next ones make up for."""
        unused, self._unused = self._unused, {}
        told, self._told = self._told, {}
        runs, self._runs = self._runs, {}
        with contextlib.suppress(StoreError):
            for (budget, key), (n, taken) in unused.items():
                await self._store.give_back(budget, n, key, time.monotonic() - taken)
            if told:
                await self._look()
            for budget, (succeeded, failed) in told.items():
                if budget in self._breakers:
                    await self._store.tell_budget(budget, succeeded, failed)
            if runs:
                await self._store.report(runs)

    def _said(self, _: asyncio.Task[None]) -> None:
        self._soon = None

    async def _look(self) -> None:
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._looked = time.monotonic()
            self._breakers = frozenset(each.name for each in await self._store.budgets() if each.breaker)

    def _wake(self) -> None:
        self.idle = not self._needs and not self._governed
