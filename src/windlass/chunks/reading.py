"""Reading ahead of a handler: the next records of a part, before it asks for them where that pays.

Where reading is slow, as from object storage, a thread of the part's own reads ahead while the handler works
on the present batch and while its checkpoint is being written.
"""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from windlass.chunks.splitter import Reader, Slice

READ_AHEAD: Final = 4
"""Batches that a thread reads in one go."""
READ_TIME: Final = 0.05
"""Seconds after which no further one is begun in the same go: the handler may be waiting for the first."""
SLOW: Final = 0.03
"""Seconds that reading a batch may take where others share the thread: a disk takes less, a network more."""


class Reading:
    """One pass over a part; `open` makes a reader that begins at a cursor.

    It begins in a thread; where reading turns out to be quick, it goes on right where the handler runs, since
    what one thread reads and another decodes costs a third more. Where it is slow, a thread reads ahead of
    the handler."""

    def __init__(self, open: Callable[[Any], Reader], cursor: Any, count: int) -> None:
        self.done: int = count
        """The records up to the end of the batch that was given out last."""
        self._open = open
        self._cursor = cursor
        self._size = 0
        self._ahead: deque[Slice] = deque()
        self._reader: Reader | None = None
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="windlass-read")
        self._coming: concurrent.futures.Future[list[Slice]] | None = None
        self._slow = False
        self._failure: Exception | None = None
        self.ended: bool = False
        """True if there is nothing left to read."""

    def want(self, size: int) -> concurrent.futures.Future[list[Slice]] | None:
        """From now on batches of this size. The answer is what to wait for, if the next one is not here."""
        if size != self._size:
            begun, self._size = self._size > 0, size
            if not begun or self._ahead or self._coming is not None:
                self._ahead.clear()
                self.ended = False
                self._coming = self._thread.submit(self._begin, size, self._cursor)
        if self._ahead or self.ended:
            return None
        if self._coming is None:
            self.arrived(self._read(size, 1))
        return self._coming

    def arrived(self, found: list[Slice]) -> None:
        """This was read."""
        self._coming = None
        self.ended = not found
        self._ahead.extend(found)

    def take(self) -> Slice | None:
        """The next batch; None at the part's end."""
        if not self._ahead:
            return None
        found = self._ahead.popleft()
        self._cursor = found.cursor
        self.done += len(found)
        if self._slow and not self._ahead:
            self._coming = self._thread.submit(self._read, self._size, READ_AHEAD)
        return found

    def close(self) -> None:
        """Stop, without waiting for a read that is under way."""
        self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    def _begin(self, size: int, cursor: Any) -> list[Slice]:
        self._close()
        self._reader = self._open(cursor)
        return self._read(size, 1)

    def _read(self, size: int, most: int) -> list[Slice]:
        """Read some batches; in one go, since each way to a thread and back has its price."""
        if self._failure is not None:
            raise self._failure
        assert self._reader is not None
        found: list[Slice] = []
        began = monotonic()
        while len(found) < most and (not found or monotonic() - began < READ_TIME):
            try:
                piece = self._reader.take(size)
            except Exception as error:
                if not found:
                    raise
                self._failure = error  # what stands before it is given out, done and saved first
                break
            if piece is None:
                break
            found.append(piece)
        self._slow = self._slow or monotonic() - began > SLOW * max(len(found), 1)
        return found

    def _close(self) -> None:
        self._failure = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
