"""How this process is doing [M3]: what it uses, what it runs, how late its loop is."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Iterable
from typing import Final

from windlass.store.records import Busy, Vitals
from windlass.worker.handlers.run import Run
from windlass.worker.reports.memory import used_memory
from windlass.worker.reports.status_memory import StatusMemory
from windlass.worker.reports.store_clock import StoreClock

MAX_JOBS: Final = 20
TICK: Final = 0.5
"""Seconds between two looks at how late the loop is."""


class VitalsMeter:
    """Watches one process and its loop, from `start` to `stop`; `memory` notes every tick."""

    def __init__(self, clock: StoreClock, memory: StatusMemory | None = None) -> None:
        self._clock = clock
        self._status_memory = memory
        self._at, self._cpu = time.monotonic(), time.process_time()
        self._lag = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch the loop that runs."""
        loop = asyncio.get_running_loop()

        def tick(due: float) -> None:
            now = loop.time()
            self._lag = max(self._lag, now - due)
            if self._status_memory is not None:
                self._status_memory.tick()
            self._timer = loop.call_later(TICK, tick, now + TICK)

        tick(loop.time())

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()

    def measure(self, runs: Iterable[Run], running: int, slots: int) -> Vitals:
        """How it was since the last call."""
        before, self._at = self._at, time.monotonic()
        spent, self._cpu = self._cpu, time.process_time()
        lag, self._lag = self._lag, 0.0
        span = self._at - before
        return Vitals(
            cpu=round((self._cpu - spent) / span, 3) if span > 0 else 0.0,
            memory=used_memory(),
            running=running,
            slots=slots,
            jobs=self._longest(runs) if self._clock.known else (),
            lag=round(max(lag, 0.0), 3),
            newest=self._newest(runs) if self._clock.known else None,
        )

    def _newest(self, runs: Iterable[Run]) -> float | None:
        began = max((run.began for run in runs), default=None)
        return None if began is None else self._clock.at(began)

    def _longest(self, runs: Iterable[Run]) -> tuple[Busy, ...]:
        oldest = heapq.nsmallest(MAX_JOBS, runs, key=lambda run: run.began)
        return tuple(
            Busy(run.job.id, run.job.task, run.job.queue, self._clock.at(run.began)) for run in oldest
        )
