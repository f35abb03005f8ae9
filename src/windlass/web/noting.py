"""What operators did, told to the timeline by one call after another [M2].

The store drops what a source tells under a number that is not higher than the last one it heard from it, and
calls of one moment may overtake each other on their way. So only one is under way at a time; what is done
meanwhile goes with the next.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Final, TypeAlias

from windlass.errors import WindlassError
from windlass.store.measures import Event, News

Tell: TypeAlias = Callable[[int, int, News], Awaitable[object]]
logger = logging.getLogger("windlass.web")
PATIENCE: Final = 1.0
"""Seconds that whoever did something waits for it to be told; it is told in any case."""
MOST: Final = 100
"""How many deeds are told in one call."""
MOST_WAITING: Final = 10_000


class Notes:
    """The deeds of one loop that are not told yet."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._source = secrets.randbits(62) | 1
        self._numbers = count(1)
        self._waiting: list[tuple[Sequence[Event], asyncio.Event]] = []
        self._telling: asyncio.Task[None] | None = None

    async def add(self, events: Sequence[Event]) -> None:
        """Tell these. Who leaves before that takes nothing back."""
        if len(self._waiting) >= MOST_WAITING:
            logger.warning("what an operator did is not in the timeline: %s wait already", MOST_WAITING)
            return
        told = asyncio.Event()
        self._waiting.append((events, told))
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._drain())
        await _within(told.wait(), PATIENCE)

    async def close(self) -> None:
        """Wait for what is not told yet, but not for long."""
        if self._telling is not None:
            await asyncio.wait([self._telling], timeout=PATIENCE)

    async def _drain(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            try:
                news = News(events=[event for events, _ in batch for event in events])
                await self._tell(self._source, next(self._numbers), news)
            except WindlassError as error:
                logger.warning("what an operator did is not in the timeline: %s", type(error).__name__)
            except Exception:
                # Nobody awaits this task, and those who come later want their turn.
                logger.exception("what an operator did is not in the timeline")
            finally:
                for _, told in batch:
                    told.set()


async def _within(waiting: Awaitable[object], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        logger.info("the timeline is slow; what an operator did follows")
