"""Reports to the store what a process has counted and noted, in one call every two seconds [M1] [M2] [M3].

No job waits for it. While the store is down or slow, samples add up, and events beyond their buffer drop.
A report that got no answer is sent again under its number, by which the store recognizes it. A store that
hangs delays a worker that stops by two seconds and no more.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

from windlass.core.counts import plural
from windlass.errors import SchemaMissing, StoreError
from windlass.running.outages import OutageLog
from windlass.store.protocol import Store
from windlass.store.records import Report, Vitals
from windlass.worker.reports.recorder import Recorder

logger: Final = logging.getLogger("windlass.worker")
QUIET: Final = 8.0
"""Seconds between two reports of a worker that has nothing to do."""

MAX_EVENTS: Final = 2000
"""Events in one report; what is more follows at once."""

ANSWER_TIME: Final = 30.0
"""Seconds to wait for an answer."""

LAST_TIME: Final = 2.0
"""Seconds for the last report of a process."""

TRIES: Final = 3
"""How often a report that the store cannot process is sent before it is dropped."""


class Sent(msgspec.Struct):
    """A report on its way, until it is answered."""

    source: int
    number: int
    report: Report
    failed: int = 0


class Reporter:
    """Reports for one process. `vitals` says how it is doing, or None where it has none to report."""

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        vitals: Callable[[], Vitals | None] = lambda: None,
    ) -> None:
        self._store = store
        self.recorder = recorder
        self._vitals = vitals
        self._source = secrets.randbelow(2**62) + 1
        self._number = 0
        self._sent: Sent | None = None
        self._vitals_at = float("-inf")
        self._running = 0
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._outages = OutageLog(logger)

    def start(self, source: int | None = None) -> None:
        """Report from now on, as this worker where one is given; the first report goes out at once."""
        self._source = source or self._source
        self._vitals_at = float("-inf")
        self._woken.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="windlass reports")

    async def close(self) -> None:
        """Report what is left, within a moment, and stop."""
        left = {task for task in (self._task,) if task is not None}
        for task in left:
            task.cancel()
        last = asyncio.create_task(self._last_report())
        try:
            await asyncio.wait({*left, last}, timeout=LAST_TIME)
        finally:
            self._task = None
            if not last.done() or len(self.recorder.events):
                last.cancel()
                lost = plural(len(self.recorder.events), "event")
                logger.warning("the last report of this process, with %s, did not reach the store", lost)

    async def _last_report(self) -> None:
        """Report everything there is time for. The last call counts what there was no time for: a timeline
        that lacks something should say so [M2]."""
        await self.report(last=True, until=time.monotonic() + LAST_TIME / 2)
        if self._sent is None and len(self.recorder.events):
            dropped = plural(len(self.recorder.events), "event is", "events are")
            logger.warning("%s dropped: no time is left to report", dropped)
            self.recorder.count("dropped", self.recorder.events.drop())
            await self.report(last=True)

    async def report(self, *, last: bool = False, until: float = math.inf) -> None:
        """Report everything, unless the store does not answer, or it is too late."""
        if self._sent is not None and not await self._send():
            return
        left = True
        while left and time.monotonic() < until and self._compose(last):
            asking = not self.recorder.clock.known
            if not await self._send():
                return
            # Half a batch waits until the next time: what happens meanwhile comes with it.
            left = asking or len(self.recorder.events) >= (1 if last else MAX_EVENTS)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self.report()
            except Exception:
                logger.exception("a report failed")
            try:
                async with asyncio.timeout(self.recorder.every * random.uniform(0.9, 1.1)):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _compose(self, last: bool) -> bool:
        """Put the next report together. Returns whether there is anything to report."""
        recorder = self.recorder
        vitals = None
        if last or recorder.fresh or self._running or time.monotonic() - self._vitals_at >= QUIET:
            vitals = self._next_vitals()
        if vitals is None and not (recorder.fresh or len(recorder.events)):
            return False
        if not recorder.clock.known and not last:
            report = Report(vitals=vitals)  # ask for the time first: events are stamped by the store's clock
        else:
            events = recorder.events.oldest(MAX_EVENTS, recorder.clock)
            report = Report(samples=recorder.samples(), events=events, vitals=vitals)
        self._number += 1
        self._sent = Sent(self._source, self._number, report)
        return True

    def _next_vitals(self) -> Vitals | None:
        """Vitals, at most once in `every` seconds: reports that follow at once do without."""
        now = time.monotonic()
        if now - self._vitals_at < self.recorder.every / 2:
            return None
        vitals = self._vitals()
        self._vitals_at, self._running = now, 0 if vitals is None else vitals.running
        return vitals

    async def _send(self) -> bool:
        sent = self._sent
        assert sent is not None
        asked = time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_TIME):
                now = await self._store.report(sent.source, sent.number, sent.report)
        except (StoreError, SchemaMissing, TimeoutError) as error:
            self._outages.failed("reports", "a report waits for the store: %s", str(error) or "no answer")
            return False
        except Exception:
            sent.failed += 1
            if sent.failed >= TRIES:
                logger.exception("the store cannot process a report; it is dropped")
                self._forget(sent)
                self.recorder.count("dropped", len(sent.report.events))
            return False
        self._outages.recovered("reports")
        self.recorder.clock.learn(now, asked, time.monotonic())
        self._forget(sent)
        return True

    def _forget(self, sent: Sent) -> None:
        if self._sent is sent:  # while a process ends, a second one may have been answered first
            self.recorder.events.sent(len(sent.report.events))
            self._sent = None
