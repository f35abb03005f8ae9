"""Reads that many viewers share: one answer is kept for a moment, and whoever asks meanwhile gets it [M3].

While a read is under way, others who want the same wait for it instead of asking again. It belongs to none of
them: it goes on when the one who began it leaves, and ends when the last one has left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

T = TypeVar("T")
MOST: Final = 64
"""How many answers are kept at most; some hold a megabyte."""


class Flight:
    """A read under way, and how many wait for it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.waiting = 0


class Memo:
    """Answers by key. Errors are not kept: the next one asks anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[Hashable, tuple[float, Any]] = {}
        self._flights: dict[tuple[asyncio.AbstractEventLoop, Hashable], Flight] = {}

    async def get(self, key: Hashable, ttl: float, read: Callable[[], Awaitable[T]]) -> T:
        """The answer, at most `ttl` seconds old."""
        found = self._kept.get(key)
        if found is not None and self._clock() < found[0]:
            kept: T = found[1]
            return kept
        place = (asyncio.get_running_loop(), key)
        flight = self._flights.get(place)
        if flight is None:
            flight = self._flights[place] = Flight(asyncio.create_task(self._read(place, ttl, read)))
        flight.waiting += 1
        try:
            answer: T = await asyncio.shield(flight.task)
            return answer
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                flight.task.cancel()
                # Whoever asks now must not wait for what is being given up.
                if self._flights.get(place) is flight:
                    del self._flights[place]

    def forget(self, key: Hashable) -> None:
        """The next one who asks for this reads anew."""
        self._kept.pop(key, None)

    def clear(self) -> None:
        """Something was changed: whoever asks next, for whatever, reads anew. What is under way may have been
        read before the change, so nobody else shall wait for it."""
        self._kept.clear()
        self._flights.clear()

    async def _read(
        self, place: tuple[asyncio.AbstractEventLoop, Hashable], ttl: float, read: Callable[[], Awaitable[T]]
    ) -> T:
        mine = asyncio.current_task()
        try:
            answer = await read()
            if self._is_mine(place, mine):
                self._keep(place[1], self._clock() + ttl, answer)
            return answer
        finally:
            if self._is_mine(place, mine):
                del self._flights[place]

    def _is_mine(
        self, place: tuple[asyncio.AbstractEventLoop, Hashable], task: asyncio.Task[Any] | None
    ) -> bool:
        flight = self._flights.get(place)
        return flight is not None and flight.task is task

    def _keep(self, key: Hashable, until: float, answer: Any) -> None:
        """Keep an answer, and nothing that has grown old meanwhile; of too many, what would go first goes."""
        now = self._clock()
        self._kept = {key: found for key, found in self._kept.items() if now < found[0]}
        self._kept[key] = (until, answer)
        if len(self._kept) > MOST:
            del self._kept[min(self._kept, key=lambda each: self._kept[each][0])]
