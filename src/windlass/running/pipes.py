"""The ends of pipes to child processes, read and written on the loop without ever blocking it.

Setting one up awaits nothing, so no cancellation can come between starting a child and holding its pipes;
the streams of asyncio need such an await.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import IO, Final

CHUNK: Final = 65_536
INNER: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""


class ReadEnd:
    """Hands what a child writes to `take`, chunk by chunk, until its end; then calls `gone`."""

    def __init__(
        self, file: IO[bytes], take: Callable[[bytes], None], gone: Callable[[], None] | None = None
    ) -> None:
        self._file = file
        self._take = take
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        os.set_blocking(file.fileno(), False)
        self._loop.add_reader(file.fileno(), self._readable)

    async def drained(self, within: float) -> None:
        """Wait for the pipe's end, but not long: a process that left the group may hold it open."""
        try:
            async with asyncio.timeout(within):
                await self._ended.wait()
        except TimeoutError:
            self.close()

    def close(self) -> None:
        """Stop reading."""
        if not self._ended.is_set():
            self._loop.remove_reader(self._file.fileno())
            self._file.close()
            self._ended.set()
            if self._gone is not None:
                self._gone()

    def _readable(self) -> None:
        try:
            data = os.read(self._file.fileno(), CHUNK)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self.close()


class WriteEnd:
    """Writes to a child as fast as it reads. A child that no longer reads is not an error here: how it ended
    says more."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._rest = memoryview(b"")
        self._last = False
        os.set_blocking(file.fileno(), False)

    def write(self, data: bytes, *, last: bool = False) -> None:
        """Send data; `last` closes the pipe behind it."""
        self._rest, self._last = memoryview(bytes(self._rest) + data), last
        if not self._file.closed:
            self._loop.add_writer(self._file.fileno(), self._writable)

    def close(self) -> None:
        """Let the child see the end of its input."""
        if not self._file.closed:
            self._loop.remove_writer(self._file.fileno())
            self._file.close()

    def _writable(self) -> None:
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._file.fileno(), self._rest) :]
        except BlockingIOError:
            return
        except OSError:  # it closed its input or is gone
            self._rest, self._last = memoryview(b""), True
        self._loop.remove_writer(self._file.fileno())
        if self._last:
            self.close()


class Tail:
    """The last bytes of an output, in bounded memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.truncated: bool = False

    def add(self, data: bytes) -> None:
        """Keep these bytes and forget the oldest beyond the limit."""
        self._data += data
        if len(self._data) > self._limit:
            del self._data[: -self._limit]
            self.truncated = True

    def clear(self) -> None:
        """Forget everything."""
        self._data.clear()
        self.truncated = False

    def text(self) -> str:
        """Return the kept output as text that every store can keep: no NUL bytes, no broken characters."""
        data = bytes(self._data)
        if self.truncated:  # the cut may have gone through a character: its rest is no character
            data = data[:3].lstrip(INNER) + data[3:]
        return data.decode("utf-8", "replace").replace("\0", "\ufffd")
