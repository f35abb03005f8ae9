"""Writes outcomes back by natural batching: while one flush is in flight, the next one fills.

A flush that got no answer is sent again under its old number, and the store knows it by that, so an outcome
counts once however often it is sent [C5].
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from windlass.errors import StoreFull, StoreUnavailable
from windlass.store.protocol import Store
from windlass.store.records import Finished, Outcome

logger = logging.getLogger("windlass.worker")
MAX_BATCH: Final = 1000
FIRST_PAUSE: Final = 0.1
LAST_PAUSE: Final = 5.0


class OutcomeLog:
    """The outcomes of one worker on their way to the store.

    `patience` is how long to go on sending to a store that cannot be reached; a lease is right, since after
    that the jobs may be somebody else's. `flushed` is called after each flush.
    """

    def __init__(
        self, store: Store, worker: int, *, patience: float = 30.0, flushed: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._worker = worker
        self._patience = patience
        self._flushed = flushed
        self._waiting: list[Outcome] = []
        self._sending: list[Outcome] = []
        self._number = 0
        self._filled = asyncio.Event()
        self.refused = 0

    def add(self, outcome: Outcome) -> None:
        """Hand over an outcome; it is on its way as soon as the flush before it is done."""
        self._waiting.append(outcome)
        self._filled.set()

    @property
    def settled(self) -> bool:
        """Whether everything handed over has been written."""
        return not self._waiting and not self._sending

    async def run(self) -> None:
        """Flush for ever. Raises WorkerLost, or StoreUnavailable when patience has run out."""
        while True:
            await self._filled.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write what has been handed over so far, beginning with a batch that was under way."""
        while not self.settled:
            if not self._sending:
                self._number += 1
                self._sending, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            self._note(await self._send())
            self._sending = []
            self._flushed()
        self._filled.clear()

    async def _send(self) -> Finished:
        deadline = time.monotonic() + self._patience
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._store.finish(self._worker, self._number, self._sending)
            except (StoreUnavailable, StoreFull) as error:
                if time.monotonic() + pause > deadline:
                    raise
                logger.warning(
                    "cannot write %d outcomes, next try in %.1f s: %s", len(self._sending), pause, error
                )
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)

    def _note(self, finished: Finished) -> None:
        if finished.refused:
            self.refused += len(finished.refused)
            logger.warning(
                "%d outcomes were refused, their jobs were taken away from this worker: %s",
                len(finished.refused),
                ", ".join(map(str, finished.refused[:10])),
            )
