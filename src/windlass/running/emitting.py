"""Events that a run emits, on their way to its job's stream [W3].

A run's `Stream` takes events from any thread and keeps them until they are written. The `Emitter` of a worker
writes those of all its runs by natural batching: while one write is in flight the next one fills, and two
begin at least a moment apart. A write that got no answer is sent again as it was; the store knows it by the
position that it goes on from. A handler that emits faster than the store takes it waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol

from windlass.codec import Codec, Purpose, seal
from windlass.core.counts import plural
from windlass.core.retry import Backoff
from windlass.errors import ClaimLost, StoreError, StoreUnavailable, WindlassError, WorkerLost
from windlass.running.outages import OutageLog
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Emits, Fence

logger: Final = logging.getLogger("windlass.worker")
MAX_EVENT: Final = 64 * 1024
"""Bytes that an event takes as JSON at most."""
EVERY: Final = 0.02
"""Seconds from the beginning of one write to that of the next, at least, unless a call waits for it."""
MAX_ROW: Final = 500
"""Events of a run that go into one row, at most."""
ROW_BYTES: Final = 256 * 1024
MAX_BYTES: Final = 1024 * 1024
"""Bytes that one write carries, or little more."""
ROOM: Final = 2_000
ROOM_BYTES: Final = 1024 * 1024
"""Events of a run, and bytes, that wait to be written before its handler does."""
PAUSES: Final = Backoff(0.05, 2.0, jitter=0.5)


class RunStream(Protocol):
    """Where a context puts what its handler emits."""

    def put(self, text: str) -> bool:
        """Take an event as JSON text, from any thread. True: wait for `room` before the next. Raises
        ClaimLost or WorkerLost when the job belongs to another worker now [C5]."""

    async def room(self) -> None:
        """Wait until there is room for more. On the worker's loop; so is `settle`."""

    async def settle(self) -> None:
        """Wait until everything is written that was put so far, or cannot be."""

    async def close(self) -> None:
        """Write all events and take no more: the run has ended. All is durable before its outcome then.
        A run that is told to stop while this waits has an outcome already and keeps it: no CancelledError is
        raised."""


class Stream:
    """The stream of one run."""

    __slots__ = ("_bytes", "_closed", "_emitter", "_error", "_texts", "after", "job", "sending")

    def __init__(self, job: ClaimedJob, emitter: Emitter) -> None:
        self.job: Final = job
        self.after: int | None = None
        self.sending: int = 0
        """How many events are on their way."""
        self._emitter = emitter
        self._texts: list[str] = []
        self._bytes = 0
        self._closed = False
        self._error: WindlassError | None = None

    def put(self, text: str) -> bool:
        """See RunStream."""
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ClaimLost(f"job {self.job.id}: this run has ended, and can emit nothing more")
        with self._emitter.lock:
            self._texts.append(text)
            self._bytes += len(text)
            self._emitter.has(self)
        return self.is_full

    @property
    def is_full(self) -> bool:
        """Return whether so much waits that the handler should."""
        return len(self._texts) >= ROOM or self._bytes >= ROOM_BYTES

    @property
    def closed(self) -> bool:
        """Return whether its run has ended."""
        return self._closed

    async def room(self) -> None:
        """See RunStream."""
        while self.is_full and self._error is None and not self._emitter.is_held_up(self.job):
            await self._emitter.written()
        if self._error is not None:
            raise self._error

    async def settle(self) -> None:
        """See RunStream."""
        while (self._texts or self.sending) and self._error is None:
            await self._emitter.written()

    async def close(self) -> None:
        """See RunStream."""
        try:
            await self.settle()
        except asyncio.CancelledError:
            logger.warning("job %d ends before everything is written that it emitted", self.job.id)
        finally:
            self._closed = True
            self._emitter.forget(self)

    def take(self) -> list[str]:
        """The events of the next row. The emitter holds its lock."""
        texts, taken, size = self._texts, 0, 0
        for text in texts[:MAX_ROW]:
            size += len(text)
            if taken and size > ROW_BYTES:
                size -= len(text)
                break
            taken += 1
        self._bytes -= size
        self._texts = texts[taken:]
        self.sending = taken
        return texts[:taken]

    @property
    def waits(self) -> bool:
        """Return whether there is something to write."""
        return bool(self._texts)

    def fail(self, error: WindlassError) -> None:
        """Nothing more of it will be written."""
        with self._emitter.lock:
            self._error, self._texts, self._bytes, self.sending = error, [], 0, 0


class Emitter:
    """Writes what the runs of one worker emit. `refuse` is called for each that is not its own any more."""

    def __init__(
        self,
        store: Store,
        worker: int,
        loop: asyncio.AbstractEventLoop,
        codec: Codec | None,
        refuse: Callable[[ClaimedJob], None],
    ) -> None:
        self.lock: Final = threading.Lock()
        self._store = store
        self._worker = worker
        self._loop = loop
        self._codec = codec
        self._refuse = refuse
        self._streams: dict[Fence, Stream] = {}
        self._filled: dict[Stream, None] = {}
        """Streams with something to write, in the order of their turns."""
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._written = asyncio.Event()
        self._began = float("-inf")
        self._held_up: Counter[Fence] = Counter()
        self._outages = OutageLog(logger)

    def stream(self, job: ClaimedJob) -> Stream:
        """The stream of a run."""
        found = self._streams[job.fence] = Stream(job, self)
        return found

    def forget(self, stream: Stream) -> None:
        """A run has ended."""
        self._streams.pop(stream.job.fence, None)

    def has(self, stream: Stream) -> None:
        """A stream has something to write. Its caller holds the lock, in any thread."""
        if not self._filled:
            try:
                self._loop.call_soon_threadsafe(self._begin)
            except RuntimeError:  # the loop is closed
                raise WorkerLost(
                    "the worker that ran this job has stopped; the job goes on elsewhere"
                ) from None
        self._filled[stream] = None

    async def written(self) -> None:
        """Wait for the end of the next write, which begins at once."""
        self._hurry.set()
        await self._written.wait()

    async def settle(self, job: ClaimedJob) -> None:
        """Wait until everything is written that a run has emitted so far."""
        stream = self._streams.get(job.fence)
        if stream is not None:
            await stream.settle()

    def is_held_up(self, job: ClaimedJob) -> bool:
        """Return whether the job's handler is in a transaction that writes may have to wait for: then it must
        not wait for them."""
        return self._held_up[job.fence] > 0

    @asynccontextmanager
    async def hold_up(self, job: ClaimedJob, inner: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """A transaction of the handler's own, on SQLite under the lock that every write needs."""
        self._held_up[job.fence] += 1
        try:
            async with inner as connection:
                yield connection
        finally:
            self._held_up[job.fence] -= 1
            if not self._held_up[job.fence]:
                del self._held_up[job.fence]

    # -- writing ----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run(), name="windlass emitter")

    async def _run(self) -> None:
        """One write after the other, as long as there is something."""
        while True:
            pause = self._began + EVERY - time.monotonic()
            if pause > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._hurry.wait()
            self._hurry.clear()
            self._began = time.monotonic()
            batch = self._take()
            if not batch:
                return
            await self._write(batch)
            written, self._written = self._written, asyncio.Event()
            written.set()

    def _take(self) -> dict[Stream, list[str]]:
        taken: dict[Stream, list[str]] = {}
        size = 0
        with self.lock:
            for stream in list(self._filled):
                del self._filled[stream]
                if texts := stream.take():
                    taken[stream] = texts
                    size += sum(map(len, texts))
                if size >= MAX_BYTES:
                    break
            for stream in taken:
                if stream.waits:
                    self._filled[stream] = None
        return taken

    async def _write(self, batch: dict[Stream, list[str]]) -> None:
        try:
            emits = [self._sealed(stream, texts) for stream, texts in batch.items()]
            positions = await self._sent(batch, emits)
        except WorkerLost as error:
            for stream in batch:
                self._refuse(stream.job)
                stream.fail(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, handlers must not wait for ever
            failure = error if isinstance(error, WindlassError) else StoreError(f"a stream failed: {error!r}")
            logger.warning("%s lost what they emitted last: %s", plural(len(batch), "run"), failure)
            for stream in batch:
                stream.fail(failure)
        else:
            for stream, position in zip(batch, positions, strict=True):
                stream.sending = 0
                if position is None:
                    self._refuse(stream.job)
                    stream.fail(
                        ClaimLost(
                            f"job {stream.job.id} is no longer held by claim {stream.job.claim}; what it "
                            "emitted was refused"
                        )
                    )
                stream.after = position

    def _sealed(self, stream: Stream, texts: list[str]) -> Emits:
        events = f"[{','.join(texts)}]"
        if self._codec is not None:
            events = seal(self._codec, events, Purpose("stream", stream.job.task))
        return Emits(job=stream.job, after=stream.after, n=len(texts), events=events)

    async def _sent(self, batch: dict[Stream, list[str]], emits: list[Emits]) -> list[int | None]:
        """Send it until it is answered, or all these runs have ended without it."""
        failures = 0
        while True:
            try:
                positions = await self._store.emit(self._worker, emits)
                self._outages.recovered("streams")
                return positions
            except StoreUnavailable as error:
                if all(stream.closed for stream in batch):
                    raise
                failures += 1
                pause = PAUSES.delay(failures, random.random())
                message = "what jobs emit waits for the store, next try in %.1f s: %s"
                self._outages.failed("streams", message, pause, error)
            await asyncio.sleep(pause)
