"""Waking those who wait: at once for what this process commits, by a datagram for what others do (see
`datagrams`), and by polling where none arrives.

Polling asks for `data_version`, which costs a look into shared memory and changes with every commit of
another connection; only then is it worth asking what has changed. In memory there is no other connection, and
`total_changes` changes instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Set
from typing import Any, Final, TypeVar

import apsw

from windlass.store.sqlite.connections.datagrams import Datagrams

T = TypeVar("T")
SHORTEST: Final = 0.010
LOOK_AGAIN: Final = 0.020
"""Seconds between two looks for something new, at least."""


class Bell:
    """Wakes everybody who listens, in whatever loop, thread and process they wait."""

    def __init__(self, path: str | None = None) -> None:
        """`path` is that of the file; None: there are no other processes."""
        self._lock = threading.Lock()
        self._listeners: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._datagrams = Datagrams(path, self._ring_here) if path is not None else None

    @property
    def receives_others(self) -> bool:
        """Return whether other processes can ring it."""
        return self._datagrams is not None and self._datagrams.listens

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set by every ring from now on."""
        event, loop = asyncio.Event(), asyncio.get_running_loop()
        with self._lock:
            self._listeners[event] = loop
        if self._datagrams is not None:
            self._datagrams.join(loop)
        try:
            yield event
        finally:
            if self._datagrams is not None:
                self._datagrams.leave(loop)
            with self._lock:
                del self._listeners[event]

    def ring(self) -> None:
        """Something was committed that somebody may be waiting for. Called by the writer's thread."""
        self._ring_here()
        if self._datagrams is not None:
            self._datagrams.send()

    def close(self) -> None:
        """Hear other processes no more."""
        if self._datagrams is not None:
            self._datagrams.close()

    def _ring_here(self) -> None:
        with self._lock:
            listeners = list(self._listeners.items())
        for event, loop in listeners:
            with contextlib.suppress(RuntimeError):  # a loop that closed has nobody left to wake
                loop.call_soon_threadsafe(event.set)


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
