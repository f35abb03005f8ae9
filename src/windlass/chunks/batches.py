"""A part in batches: each durable when it is done [P6], halved when it takes too long [P7].

How the records of a batch come here is the business of `windlass.chunks.reading`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn

from windlass.chunks.reading import Reading
from windlass.chunks.splitter import Reader, Slice, Splitter
from windlass.core.counts import plural
from windlass.errors import ConfigurationError
from windlass.running.encoding import encode
from windlass.running.port import finish_here, hop, runs_on, wait
from windlass.store.records import TaskRecord

if TYPE_CHECKING:
    from windlass.chunks.parts import Part

BATCH: Final = 1000
BATCH_TIMEOUT: Final = 300.0
SETTINGS_EVERY: Final = 2.0


class Work:
    """The reading of one part over one attempt: what its batches share, also when the handler is called again
    because one of them took too long."""

    def __init__(
        self,
        part: Part,
        splitter: Splitter,
        arguments: Mapping[str, Any],
        *,
        batch: int = BATCH,
        timeout: float = BATCH_TIMEOUT,
    ) -> None:
        self.part = part
        self.limit: asyncio.Timeout | None = None
        """Ends the handler where it is when a batch has run into its timeout; plain handlers have none."""
        self._splitter = splitter
        self._arguments = arguments
        self._batch = batch
        self._timeout = timeout
        self._cap: int | None = None
        self.present: _Batch | None = None
        self._settings = TaskRecord(name=part.task)
        self._settings_until = 0.0
        self._reading: Reading | None = None

    def batches(self, n: int | None) -> Batches:
        """The records in batches, from the checkpoint on."""
        if n is not None and (type(n) is not int or n < 1):
            raise ConfigurationError(f"batches({n!r}): a batch has a whole number of records, at least 1")
        return Batches(self, n)

    def read(self, saved: Any) -> Reading:
        """Begin to read behind what was saved."""
        self.close()
        at, count = (saved["at"], saved["n"]) if isinstance(saved, dict) and "at" in saved else (None, 0)
        self._reading = Reading(self.open, at, count)
        return self._reading

    @property
    def reads(self) -> bool:
        """Return whether the handler has asked for batches."""
        return self._reading is not None

    def ended(self) -> None:
        """The handler has returned. What it did not read counts as done, which is seldom what was meant."""
        if self._reading is not None and not self._reading.ended:
            message = "returned before the end of its part: what it has not read counts as done (%s)"
            self.part.logger.warning(message, plural(self._reading.done, "record was", "records were"))

    def open(self, cursor: Any) -> Reader:
        """A reader that begins at this cursor. Blocks."""
        return self._splitter.read(self.part.span, self._arguments, cursor)

    def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    # -- sizes and times ----------------------------------------------------------------------------------

    @property
    def settings_due(self) -> bool:
        """Return whether it is time to look at the task's settings again."""
        return monotonic() >= self._settings_until

    def note(self, settings: TaskRecord) -> None:
        """Take the settings that the store has of this task [P6]."""
        self._settings = settings
        self._settings_until = monotonic() + SETTINGS_EVERY

    def size(self, n: int | None) -> int:
        """How many records the next batch has."""
        size = self._settings.batch or n or self._batch
        return size if self._cap is None else min(size, self._cap)

    @property
    def total(self) -> int:
        """How much the whole part is, in its splitter's unit."""
        return self.part._part.size

    @property
    def timeout(self) -> float:
        """How many seconds a batch may take."""
        return self._settings.batch_timeout or self._timeout

    def begin(self, batch: _Batch) -> None:
        """The handler gets this batch now."""
        self.present = batch
        if self.limit is not None:
            self.limit.reschedule(asyncio.get_running_loop().time() + self.timeout)

    def end(self) -> None:
        """The handler is through with its batch."""
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(None)

    def halve(self) -> bool:
        """A batch has run into its timeout: make them smaller. False: it was one record only [P7]."""
        size = 0 if self.present is None else len(self.present)
        if size <= 1:
            return False
        self._cap = size // 2
        message = "a batch of %d records took longer than its timeout of %g s; it goes on with %d a batch"
        self.part.logger.warning(message, size, self.timeout, self._cap)
        return True


class _Batch:
    """Some records of a part, and where they end."""

    def __init__(self, work: Work, found: Slice, number: int) -> None:
        self._work = work
        self._slice = found
        self._ended = False
        self._number = number
        self._began = monotonic()

    def __len__(self) -> int:
        return len(self._slice)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {plural(len(self), 'record')}>"

    def __iter__(self) -> Iterator[Any]:
        """The records one at a time, as `for record in batch`. Those of a file are decoded on the way and not
        kept, which takes the least time and memory."""
        return iter(self._slice)

    @property
    def records(self) -> Sequence[Any]:
        """The records, all at once."""
        return self._slice.records

    @property
    def lines(self) -> Sequence[bytes]:
        """The records of a file as they stand in it, without their line ends."""
        try:
            lines: Sequence[bytes] = self._slice.lines  # type: ignore[attr-defined]
        except AttributeError:
            raise ConfigurationError("these records come from no file: use batch.records") from None
        return lines

    def _checkpoint(self) -> str:
        if self._work.present is not self:
            raise RuntimeError("this batch is not the present one: batches are done one after the other")
        return encode({"at": self._slice.cursor, "n": self._number})

    def _done(self) -> None:
        self._ended = True
        self._work.end()


class Batch(_Batch):
    """A batch of a plain handler."""

    def done(self, *, connection: Any = None) -> None:
        """Make everything up to the end of this batch durable: the next attempt begins behind it.

        With `connection` that happens in the transaction that is open there, together with the handler's own
        data. Raises ClaimLost or WorkerLost when the part belongs to somebody else now [C5]: let it pass.

        Nothing can interrupt a plain function, so one that took longer than its timeout is done all the
        same, and those after it are smaller [P7]."""
        if self._ended:
            return
        port = self._work.part._port
        save = self._work.part._kept.save
        progress = self._checkpoint(), self._slice.done, self._work.total
        if connection is None:
            wait(port.loop, "save", lambda: save(*progress))
        else:
            finish_here(save(*progress, connection))
        if monotonic() - self._began > self._work.timeout:
            self._work.halve()
        self._done()

    def transaction(self) -> NoReturn:
        """For `async def` handlers: see `AsyncBatch.transaction`."""
        raise ConfigurationError(
            "the store lends its connection to `async def` handlers only; with one of your own write "
            "batch.done(connection=connection) in its transaction"
        )


class AsyncBatch(_Batch):
    """A batch of an `async def` handler."""

    async def done(self, *, connection: Any = None) -> None:
        """Make everything up to the end of this batch durable; see `Batch.done`."""
        if self._ended:
            return
        port, save = self._work.part._port, self._work.part._kept.save
        progress = self._checkpoint(), self._slice.done, self._work.total
        if connection is None:
            await hop(port.loop, save(*progress))
        else:  # the connection belongs to the caller's loop
            await save(*progress, connection)
        self._done()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """A database transaction that holds your data and this batch's checkpoint, or neither:

            async with batch.transaction() as connection:     # asyncpg on PostgreSQL, apsw on SQLite
                await connection.executemany("INSERT …", batch.records)

        When the block ends well, the batch is done. It raises ClaimLost or WorkerLost, and nothing is
        committed, when the part belongs to somebody else now [C5]."""
        if self._ended:
            raise RuntimeError("this batch is done")
        part = self._work.part
        if not runs_on(part._port.loop):
            raise ConfigurationError(
                "batch.transaction() works on the worker's loop only; with a connection of your own, "
                "write batch.done(connection=connection) in your transaction"
            )
        progress = self._checkpoint(), self._slice.done, self._work.total
        async with part._kept.saving(*progress) as connection:
            part._transacting = True  # a checkpoint of another kind would wait for this transaction
            try:
                yield connection
            finally:
                part._transacting = False
        self._done()


class Batches:
    """The records of a part in batches: `async for` in an `async def` handler, `for` in a plain one."""

    def __init__(self, work: Work, n: int | None) -> None:
        self._work = work
        self._n = n

    async def __aiter__(self) -> AsyncIterator[AsyncBatch]:
        work, part = self._work, self._work.part
        reading = work.read(await part.asaved())
        while True:
            if work.settings_due:
                await self._alook()
            coming = reading.want(work.size(self._n))
            if coming is not None:
                reading.arrived(await asyncio.wrap_future(coming))
            found = reading.take()
            if found is None:
                return
            batch = AsyncBatch(work, found, reading.done)
            work.begin(batch)
            yield batch
            work.end()
            _must_be_done(batch, "await batch.done()")

    def __iter__(self) -> Iterator[Batch]:
        work, part = self._work, self._work.part
        if runs_on(part._port.loop):
            raise RuntimeError("an `async def` handler writes `async for batch in part.batches()`")
        reading = work.read(part.saved())
        while True:
            part.check()
            if work.settings_due:
                self._look()
            coming = reading.want(work.size(self._n))
            if coming is not None:
                reading.arrived(coming.result())
            found = reading.take()
            if found is None:
                return
            batch = Batch(work, found, reading.done)
            work.begin(batch)
            yield batch
            _must_be_done(batch, "batch.done()")

    async def _alook(self) -> None:
        port = self._work.part._port
        self._work.note(await hop(port.loop, port.settings(self._work.part.task)))

    def _look(self) -> None:
        port = self._work.part._port
        self._work.note(wait(port.loop, "batches", lambda: port.settings(self._work.part.task)))


def _must_be_done(batch: _Batch, call: str) -> None:
    if not batch._ended:
        raise RuntimeError(
            f"the handler asked for the next batch before this one was done: call {call} when its records "
            "are safe, or the next attempt would begin before them"
        )
