"""Reads that many viewers share: an answer is kept for a moment, and all who ask meanwhile get it [M3].

While a read is under way, others who want the same wait for it. The read goes on when the one who began it
leaves, and is cancelled when the last one has left.

Operations read on the store's loop while the server's own says that something was changed, so a lock is held
for as long as it takes to look and to keep.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

T = TypeVar("T")
MAX_ENTRIES: Final = 64
"""Answers kept at most; some hold a megabyte."""


class PendingRead:
    """A read under way, and how many wait for it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.waiting = 0


class ReadCache:
    """Answers by key. Errors are not kept."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[float, Any]] = {}
        self._pending: dict[tuple[asyncio.AbstractEventLoop, Hashable], PendingRead] = {}

    async def get(self, key: Hashable, ttl: float, read: Callable[[], Awaitable[T]]) -> T:
        """The answer, at most `ttl` seconds old."""
        found = self._kept.get(key)
        if found is not None and self._clock() < found[0]:
            kept: T = found[1]
            return kept
        place = (asyncio.get_running_loop(), key)
        pending = self._pending.get(place)
        if pending is None:
            pending = self._pending[place] = PendingRead(asyncio.create_task(self._read(place, ttl, read)))
        pending.waiting += 1
        try:
            answer: T = await asyncio.shield(pending.task)
            return answer
        finally:
            pending.waiting -= 1
            if not pending.waiting and not pending.task.done():
                pending.task.cancel()
                # The next caller must not wait for a read that is being cancelled.
                with self._lock:
                    if self._pending.get(place) is pending:
                        del self._pending[place]

    def forget(self, key: Hashable) -> None:
        """Drop one answer."""
        with self._lock:
            self._kept.pop(key, None)

    def clear(self) -> None:
        """Drop all answers. Reads under way may have begun before a change, so nobody else may join them."""
        with self._lock:
            self._kept.clear()
            self._pending.clear()

    async def _read(
        self, place: tuple[asyncio.AbstractEventLoop, Hashable], ttl: float, read: Callable[[], Awaitable[T]]
    ) -> T:
        mine = asyncio.current_task()
        try:
            answer = await read()
            with self._lock:
                if self._is_mine(place, mine):
                    self._keep(place[1], self._clock() + ttl, answer)
            return answer
        finally:
            with self._lock:
                if self._is_mine(place, mine):
                    del self._pending[place]

    def _is_mine(
        self, place: tuple[asyncio.AbstractEventLoop, Hashable], task: asyncio.Task[Any] | None
    ) -> bool:
        pending = self._pending.get(place)
        return pending is not None and pending.task is task

    def _keep(self, key: Hashable, until: float, answer: Any) -> None:
        """Keep an answer and drop expired ones; of too many, the one that would expire first."""
        now = self._clock()
        self._kept = {key: found for key, found in self._kept.items() if now < found[0]}
        self._kept[key] = (until, answer)
        if len(self._kept) > MAX_ENTRIES:
            del self._kept[min(self._kept, key=lambda each: self._kept[each][0])]
