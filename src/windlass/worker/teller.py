"""Tells the store what a process has counted and noted, in one call every two seconds [M1] [M2] [M3].

No job waits for it. A store that is down or slow makes samples add up and events drop beyond their buffer;
what was sent and not answered is sent again under its number, and the store knows it by that. One that hangs
costs a worker that stops two seconds, and no more.
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

from windlass.complaints import Complaints
from windlass.errors import SchemaMissing, StoreError
from windlass.store.measures import News, Vitals
from windlass.store.protocol import Store
from windlass.words.text import plural
from windlass.worker.recorder import Recorder

logger = logging.getLogger("windlass.worker")
QUIET: Final = 8.0
"""Seconds between two signs of life of a worker that has nothing to do."""

MOST_EVENTS: Final = 2000
"""Events told in one call; what is more follows at once."""

ANSWER_TIME: Final = 30.0
"""Seconds after which an answer does not come any more."""

LAST_TIME: Final = 2.0
"""Seconds for the last words of a process."""

TRIES: Final = 3
"""How often news that the store cannot digest are sent, before they are dropped."""


class Sent(msgspec.Struct):
    """News on their way, until they are answered."""

    source: int
    number: int
    news: News
    failed: int = 0


class Teller:
    """Speaks for one process. `vitals` says how it is; None: there is nothing to say of it."""

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
        self._felt_at = float("-inf")
        self._running = 0
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._complaints = Complaints(logger)

    def start(self, source: int | None = None) -> None:
        """Tell from now on, as this worker where one is named; the first word is said at once."""
        self._source = source or self._source
        self._felt_at = float("-inf")
        self._woken.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="windlass measures")

    async def close(self) -> None:
        """Say what is left, for a moment, and be silent."""
        left = {task for task in (self._task,) if task is not None}
        for task in left:
            task.cancel()
        last = asyncio.create_task(self._last_words())
        try:
            await asyncio.wait({*left, last}, timeout=LAST_TIME)
        finally:
            self._task = None
            if not last.done() or len(self.recorder.events):
                last.cancel()
                lost = plural(len(self.recorder.events), "event")
                logger.warning("the store did not hear the last measures of this process, with %s", lost)

    async def _last_words(self) -> None:
        """Everything, where there is time for it. For what there is none, the last call says how much it was:
        a timeline that lacks something should say so [M2]."""
        await self.tell(last=True, until=time.monotonic() + LAST_TIME / 2)
        if self._sent is None and len(self.recorder.events):
            logger.warning("%d events are dropped: there is no time to tell them", len(self.recorder.events))
            self.recorder.count("dropped", self.recorder.events.drop())
            await self.tell(last=True)

    async def tell(self, *, last: bool = False, until: float = math.inf) -> None:
        """Tell everything there is to tell, unless the store does not listen, or it is too late."""
        if self._sent is not None and not await self._send():
            return
        left = True
        while left and time.monotonic() < until and self._compose(last):
            asking = not self.recorder.clock.known
            if not await self._send():
                return
            # Half a batch waits until the next time: what happens meanwhile comes with it.
            left = asking or len(self.recorder.events) >= (1 if last else MOST_EVENTS)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self.tell()
            except Exception:
                logger.exception("measures could not be told")
            try:
                async with asyncio.timeout(self.recorder.every * random.uniform(0.9, 1.1)):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _compose(self, last: bool) -> bool:
        """Put the next news together. False: there are none."""
        recorder = self.recorder
        vitals = None
        if last or recorder.fresh or self._running or time.monotonic() - self._felt_at >= QUIET:
            vitals = self._feel()
        if vitals is None and not recorder.fresh and not len(recorder.events):
            return False
        if not recorder.clock.known and not last:
            news = News(vitals=vitals)  # ask for the time first: what happened is told by the store's clock
        else:
            events = recorder.events.oldest(MOST_EVENTS, recorder.clock)
            news = News(samples=recorder.samples(), events=events, vitals=vitals)
        self._number += 1
        self._sent = Sent(self._source, self._number, news)
        return True

    def _feel(self) -> Vitals | None:
        """Vitals, at most once in `every` seconds: news that follow at once do without."""
        now = time.monotonic()
        if now - self._felt_at < self.recorder.every / 2:
            return None
        vitals = self._vitals()
        self._felt_at, self._running = now, 0 if vitals is None else vitals.running
        return vitals

    async def _send(self) -> bool:
        sent = self._sent
        assert sent is not None
        asked = time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_TIME):
                now = await self._store.tell(sent.source, sent.number, sent.news)
        except (StoreError, SchemaMissing, TimeoutError) as error:
            self._complaints.told("measures", "measures wait to be told: %s", str(error) or "no answer")
            return False
        except Exception:
            sent.failed += 1
            if sent.failed >= TRIES:
                logger.exception("news that the store cannot digest are dropped")
                self._forget(sent)
                self.recorder.count("dropped", len(sent.news.events))
            return False
        self._complaints.over("measures")
        self.recorder.clock.learn(now, asked, time.monotonic())
        self._forget(sent)
        return True

    def _forget(self, sent: Sent) -> None:
        if self._sent is sent:  # a second one may have been answered first, while a process ends
            self.recorder.events.sent(len(sent.news.events))
            self._sent = None
