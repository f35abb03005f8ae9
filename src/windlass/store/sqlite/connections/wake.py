"""Waking those who wait: at once for what this process commits, within some milliseconds for what others do,
whose commits change the time or the size of the write-ahead log.

Where a file system does not tell that, polling finds out. It asks for `data_version`, which costs a look into
shared memory and changes with every commit of another connection; only then is it worth asking what has
changed. In memory there is no other connection, and `total_changes` changes instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Set
from typing import Any, Final, TypeVar

import apsw

T = TypeVar("T")
_Stamp = tuple[int, int] | None
SHORTEST: Final = 0.010
LOOK_EVERY: Final = 0.025
"""Seconds between two looks at the write-ahead log, while somebody waits: some microseconds each."""
LOOK_AGAIN: Final = 0.020
"""Seconds between two looks for something new, at least."""


class Bell:
    """Wakes everybody who listens, in whatever loop, thread and process they wait."""

    def __init__(self, path: str | None = None) -> None:
        """`path` is that of the file; None: there are no other processes."""
        self._lock = threading.Lock()
        self._listeners: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._wal = None if path is None else f"{os.path.realpath(path)}-wal"
        self._looks: dict[asyncio.AbstractEventLoop, asyncio.TimerHandle] = {}

    @property
    def receives_others(self) -> bool:
        """Return whether other processes can ring it."""
        return self._wal is not None

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set by every ring from now on."""
        event, loop = asyncio.Event(), asyncio.get_running_loop()
        with self._lock:
            self._listeners[event] = loop
        if self._wal is not None and loop not in self._looks:
            self._look_later(loop, _stamp(self._wal), changed=True)
        try:
            yield event
        finally:
            with self._lock:
                del self._listeners[event]
                others = loop in self._listeners.values()
            if not others and loop in self._looks:
                self._looks.pop(loop).cancel()

    def ring(self) -> None:
        """Something was committed that somebody may be waiting for. Called by any thread."""
        with self._lock:
            listeners = list(self._listeners.items())
        for event, loop in listeners:
            with contextlib.suppress(RuntimeError):  # a loop that closed has nobody left to wake
                loop.call_soon_threadsafe(event.set)

    def _look_later(self, loop: asyncio.AbstractEventLoop, seen: _Stamp, *, changed: bool) -> None:
        self._looks[loop] = loop.call_later(LOOK_EVERY, self._look, loop, seen, changed)

    def _look(self, loop: asyncio.AbstractEventLoop, seen: _Stamp, changed: bool) -> None:
        """Ring where something was committed since the last look, or just before it: a clock of files that
        ticks every few milliseconds gives two commits the same time."""
        assert self._wal is not None
        now = _stamp(self._wal)
        if changed or now != seen:
            self.ring()
        self._look_later(loop, now, changed=now != seen)


def _stamp(wal: str) -> _Stamp:
    """Return what every commit changes of the write-ahead log."""
    try:
        found = os.stat(wal)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


async def until(
    read: Callable[[Callable[[apsw.Connection], Any]], Awaitable[Any]],
    bell: Bell,
    look: Callable[[apsw.Connection], T | None],
    timeout: float,
    *,
    longest: float,
    by_time: bool = False,
) -> T | None:
    """Look now and after every change, until there is something to see or the time is over. What may come
    about `by_time`, without a change, is looked for at every poll. `longest` is the pause between two polls
    of a file in which nothing happens."""
    deadline = time.monotonic() + timeout
    pause = SHORTEST
    version = -1

    def look_again(connection: apsw.Connection) -> tuple[int, T | None]:
        now = int(connection.pragma("data_version")) + connection.total_changes()
        return now, look(connection) if now != version or by_time else None

    with bell.listening() as event:
        while True:
            event.clear()  # before looking, so that no ring is lost
            seen, found = await read(look_again)
            left = deadline - time.monotonic()
            if found is not None or left <= 0:
                return found  # type: ignore[no-any-return]
            pause = SHORTEST if seen != version else min(pause * 2, longest)
            version = seen
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, pause)):
                    await event.wait()


async def until_more(
    read: Callable[[Callable[[apsw.Connection], Any]], Awaitable[Any]],
    bell: Bell,
    look: Callable[[apsw.Connection], Set[str]],
    known: Set[str],
    timeout: float,
) -> None:
    """Wait until there is something to see that was not known, or the time is over. Looks only where the bell
    rings, and not more often than it is worth: who waits here looks for himself now and then."""
    with contextlib.suppress(TimeoutError), bell.listening() as event:
        async with asyncio.timeout(timeout):
            while (seen := await read(look)) <= known:
                known = seen  # what has gone may come again
                await event.wait()
                await asyncio.sleep(LOOK_AGAIN)
                event.clear()  # before looking, so that no ring is lost


async def watch(
    read: Callable[[Callable[[apsw.Connection], Any]], Awaitable[Any]],
    bell: Bell,
    look: Callable[[apsw.Connection], T],
    tell: Callable[[T], None],
) -> None:
    """Tell what there is to see, and again whenever a commit that others are told of has changed it, until
    cancelled. Looks at once where the bell was silent, and not more often than it is worth."""
    seen: T | None = None
    with bell.listening() as event:
        while True:
            event.clear()  # before looking, so that no ring is lost
            found = await read(look)
            if found != seen:
                tell(found)
            seen = found
            await asyncio.sleep(LOOK_AGAIN)
            await event.wait()
