"""Single enqueues of many callers, sent to the store together: while one call is in flight the next batch
fills. A lone caller waits for nobody; thirty-two cost hardly more calls than one, since after an answer the
next call waits a moment for those who got it and come again.

Everybody gets an answer of their own. Where a batch is refused, for one of its jobs or for all, nothing of it
was written, so its jobs are sent again: by queue and priority where the queue was full, else one by one.
Where the store did not answer nobody knows what was written: all are told so, and nothing is sent twice
[E7].
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from windlass.errors import Refused, StoreError
from windlass.store.records import NewJob, Receipt

Send: TypeAlias = Callable[[Sequence[NewJob]], Awaitable[list[Receipt]]]
Waiting: TypeAlias = tuple[NewJob, "asyncio.Future[Receipt]"]
MOST: Final = 500
"""How many jobs are sent at once."""
LINGER: Final = 0.003
"""Seconds that a call waits, at most, for as many jobs as the one before it had."""


class Intake:
    """Takes jobs one by one and sends them in batches."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[Waiting] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sending: asyncio.Task[None] | None = None
        self._wanted = 1
        self._enough: asyncio.Event = asyncio.Event()

    async def add(self, job: NewJob) -> Receipt:
        """Enqueue a job; the answer is its receipt, or the error that is about it."""
        loop = asyncio.get_running_loop()
        if self._sending is None or self._sending.done():
            self._loop = loop
        elif self._loop is not loop:  # an app that serves several loops; each batch belongs to one
            return (await self._send([job]))[0]
        answer: asyncio.Future[Receipt] = loop.create_future()
        self._waiting.append((job, answer))
        if len(self._waiting) >= self._wanted:
            self._enough.set()
        if self._sending is None or self._sending.done():
            self._sending = loop.create_task(self._drain())
        return await answer

    async def _drain(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            # Who has left in the meantime does not want it any more.
            wanted = [each for each in batch if not each[1].done()]
            await self._send_all(wanted)
            if len(wanted) > 1:
                await self._linger(len(wanted))

    async def _linger(self, wanted: int) -> None:
        """Those who were answered just now may come again: a call of their own for the first of them would
        make all others wait for it."""
        self._wanted, self._enough = wanted, asyncio.Event()
        if len(self._waiting) < wanted:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    await self._enough.wait()
        self._wanted = 1

    async def _send_all(self, batch: Sequence[Waiting]) -> None:
        if not batch:
            return
        try:
            receipts = await self._send([job for job, _ in batch])
        except asyncio.CancelledError:
            for _, answer in batch:
                answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to one of the callers, who is told
            groups = _apart(batch, error)
            if len(groups) == 1:
                _fail(batch, error)
                return
            for group in groups:
                await self._send_all(group)
        else:
            for (_, answer), receipt in zip(batch, receipts, strict=True):
                if not answer.done():
                    answer.set_result(receipt)


def _apart(batch: Sequence[Waiting], error: Exception) -> list[list[Waiting]]:
    """The jobs of a batch that failed in groups that may fare differently; one group where all fare alike."""
    if isinstance(error, StoreError):
        return [list(batch)]
    if not isinstance(error, Refused):
        return [[each] for each in batch]
    # The load of a queue is judged once for each priority, and a call is refused as a whole. A job with an
    # idempotency key may be let in where others are not.
    groups: dict[object, list[Waiting]] = {}
    for each in batch:
        job = each[0]
        groups.setdefault((job.queue, job.priority, job.idempotency_key), []).append(each)
    return list(groups.values())


def _fail(batch: Sequence[Waiting], error: Exception) -> None:
    for _, answer in batch:
        if not answer.done():
            answer.set_exception(error)
