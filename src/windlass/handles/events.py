"""The stream of a job as its readers have it: from any position, while the job runs and after it [W3].

    async for event in job.events():
        show(event.value)

Reading asks the store for one piece after the other. It goes on through an outage of the store, and a reader
that was interrupted goes on from the position of the last event that it has seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from windlass.codec import Purpose, sealed_in_words, unseal
from windlass.core.ids import MAX_POSITION
from windlass.core.states import FINISHED
from windlass.errors import InvalidOption, JobNotFound, StoreUnavailable
from windlass.running.encoding import decode
from windlass.running.stopped_clock import StoppedClock
from windlass.store.records import Emitted

if TYPE_CHECKING:
    from windlass.handles.job import Job
    from windlass.store.protocol import Store

WAIT: Final = 30.0
"""Seconds that one call waits for something to happen."""
PATIENCE: Final = 60.0
"""Seconds of an outage that a reader lives through."""
MAX_PAUSE: Final = 2.0


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a job emitted."""

    position: int
    """Its place in the job's stream, from 1, without gaps."""
    attempt: int
    """The attempt that emitted it."""
    run: int
    """The run that emitted it, from 1. A higher one has begun anew: those before it failed, crashed, slept or
    were handed back. A crash charges no attempt, so `attempt` may be the same."""
    at: datetime
    """When it was written, in UTC; the same for all that were written together."""
    value: Any
    """The text or the JSON value that the handler gave."""
    gone: int = 0
    """How many events right before it are gone: the stream was too long to be kept as a whole,
    or the server has lost them in a crash."""


def checked_position(after: object) -> int:
    """A position to begin after. Raises InvalidOption for what is none, such as text."""
    if type(after) is not int or not 0 <= after <= MAX_POSITION:
        raise InvalidOption(
            f"after={after!r:.40} is no position of a stream: pass the `position` of the last event that was "
            "read as a whole number, or 0 to begin with the first one"
        )
    return after


class Events:
    """Reads a stream, by `async for` and by `for`. Each loop begins anew."""

    def __init__(self, job: Job[Any], after: int, follow: bool) -> None:
        self._job = job
        self._after = checked_position(after)
        self._follow = follow

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        reader = Reader(self._job, self._after, self._follow)
        while not reader.ended:
            try:
                found = await self._job._store_handle().acall(reader.read)
            except StoreUnavailable as error:
                await asyncio.sleep(reader.pause(error))
                continue
            for event in found:
                yield event

    def __iter__(self) -> Iterator[StreamEvent]:
        store_handle = self._job._store_handle()
        if self._follow and store_handle.on_a_workers_loop:
            raise RuntimeError(
                f"reading the stream of job {self._job.id} would block the event loop that a worker of this "
                "process runs on: write `async for event in job.events():` instead"
            )
        reader = Reader(self._job, self._after, self._follow)
        while not reader.ended:
            try:
                found = store_handle.call(reader.read)
            except StoreUnavailable as error:
                time.sleep(reader.pause(error))
                continue
            yield from found


class Reader:
    """How far one loop has come."""

    def __init__(self, job: Job[Any], after: int, follow: bool) -> None:
        self.ended: bool = False
        self._job = job
        self._task = job.task
        self._position = after
        self._follow = follow
        self._stopped_clock = StoppedClock(job._store_handle().clock)
        self._first = True
        self._failures = 0
        self._answered_at = time.monotonic()

    async def read(self, store: Store) -> list[StreamEvent]:
        """The next events, none where nothing has happened for a while. The last ones set `ended`."""
        timeout = 0.0 if self._first or not self._follow else min(WAIT, self._stopped_clock.look_every)
        page = await store.wait_stream(self._job.id, self._position, timeout)
        self._failures, self._answered_at = 0, time.monotonic()
        self._first = False
        if page.state is None and not page.batches:
            raise JobNotFound(
                f"there is no job {self._job.id}: it never existed, was deleted, or its retention has passed"
            )
        found = [event for batch in page.batches for event in await self._events(store, batch)]
        self.ended = not page.full and (not self._follow or page.state in FINISHED)
        if timeout and not page.batches and self._stopped_clock.clock is not None and not self.ended:
            await self._job._check_clock(store, self._stopped_clock)
        return found

    def pause(self, error: StoreUnavailable) -> float:
        """Seconds until the next try. Raises the error where the store has been away for too long."""
        self._failures += 1
        if not self._follow or time.monotonic() - self._answered_at > PATIENCE:
            raise error
        return min(0.05 * 2.0 ** min(self._failures, 10), MAX_PAUSE)

    async def _events(self, store: Store, batch: Emitted) -> list[StreamEvent]:
        values = decode(await self._opened(store, batch.events))
        at = datetime.fromtimestamp(batch.at, UTC)
        found: list[StreamEvent] = []
        for position, value in enumerate(values, batch.first):
            if position > self._position:
                gone = position - self._position - 1
                found.append(
                    StreamEvent(
                        position=position,
                        attempt=batch.attempt,
                        run=batch.run,
                        at=at,
                        value=value,
                        gone=gone,
                    )
                )
                self._position = position
        return found

    async def _opened(self, store: Store, events: str) -> str:
        """Open what a codec sealed, with the name of the task, which the handle may not know."""
        if self._task is None and (self._job._app.codec is not None or sealed_in_words(events) is not None):
            record = await store.job(self._job.id)
            self._task = "" if record is None else record.task
        return unseal(self._job._app.codec, events, Purpose("stream", self._task or ""))
