"""The checkpoint of one running job: read once, written in turn, with progress no more than once a second.

Everything that awaits here runs on the worker's loop (see `windlass.running.port`). What is written is
refused by the store when the job belongs to another worker [C5].
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final

from windlass.errors import InvalidOption, StoreError
from windlass.running.port import Port
from windlass.store.records import Checkpoint, ClaimedJob

PROGRESS_EVERY: Final = 1.0
SETTLE_TIME: Final = 1.0
"""Seconds that a job which is through waits for its last progress to be written."""
NO_DATA: Final = "null"
_MAX: Final = 2**63 - 1
"""The largest number that both stores can keep."""


class Checkpoints:
    """The checkpoints of a run: what it found and saved, and how far it says it is."""

    def __init__(self, job: ClaimedJob, port: Port) -> None:
        self._job = job
        self._port = port
        # One write after the other: progress written late must not put older data back.
        self._turn = asyncio.Lock()
        self._last: Checkpoint | None = None
        self._loaded = False
        self._done: int | None = None
        self._total: int | None = None
        self._progress_at: float | None = None
        self._noted = False
        """True if there is progress that no write has taken along."""

    async def saved(self) -> str | None:
        """The data of the last checkpoint, as JSON text."""
        async with self._turn:
            await self._load()
            return None if self._last is None else self._last.data

    async def save(self, data: str, done: int | None, total: int | None, connection: Any = None) -> None:
        """Write data with the progress given here or before; with a connection, in its transaction."""
        _check(done=done, total=total)
        async with self._turn:
            if done is not None or total is not None:
                self._done, self._total = done, total
            await self._write(data, connection)

    @asynccontextmanager
    async def saving(self, data: str, done: int, total: int) -> AsyncIterator[Any]:
        """A transaction that writes this together with what the block does on the connection it gets."""
        checkpoint = Checkpoint(data, done, total)
        async with self._turn:
            async with self._port.saving(self._job, lambda: checkpoint) as connection:
                yield connection
            self._done, self._total, self._noted = done, total, False
            self._last, self._loaded = checkpoint, True

    def is_due(self, done: int, total: int | None) -> bool:
        """Note progress, from any thread. True: write it now. What is not written goes along with the next
        write."""
        _check(done=done, total=total)
        self._done, self._total, self._noted = done, total, True
        now = monotonic()
        if done != total and self._progress_at is not None and now - self._progress_at < PROGRESS_EVERY:
            return False
        self._progress_at = now
        return True

    async def settle(self, logger: logging.LoggerAdapter[logging.Logger]) -> None:
        """The handler has returned: write progress that was too young to be written [P6]. A store that does
        not answer must not hold the outcome up: a timeout would make a failure of it."""
        if self._noted:
            try:
                async with asyncio.timeout(SETTLE_TIME):
                    await self.progress(logger)
            except TimeoutError:
                logger.warning("its last progress was not written within %g s", SETTLE_TIME)

    async def progress(self, logger: logging.LoggerAdapter[logging.Logger]) -> None:
        """Write the progress noted last, beside the data there is. A store that fails is no reason to fail
        the job."""
        try:
            async with self._turn:
                await self._load()
                await self._write(NO_DATA if self._last is None else self._last.data)
        except StoreError as error:
            logger.warning("its checkpoint cannot be written; the job continues: %s", error)

    async def _load(self) -> None:
        if self._loaded:
            return
        self._last = await self._port.load(self._job)
        self._loaded = True
        if self._last is not None and self._done is None and self._total is None:
            self._done, self._total = self._last.done, self._last.total

    async def _write(self, data: str, connection: Any = None) -> None:
        checkpoint = Checkpoint(data, self._done, self._total)
        self._noted = False
        await self._port.save(self._job, checkpoint, connection)
        self._last, self._loaded = checkpoint, True


def _check(**counts: Any) -> None:
    """Refuse what no store can keep, before anything is written or noted."""
    for name, count in counts.items():
        if count is not None and not (isinstance(count, int) and abs(count) <= _MAX):
            raise InvalidOption(
                f"{name}={count!r} is not a count of units; write a whole number below 2**63, such as "
                "done=5, total=10"
            )
