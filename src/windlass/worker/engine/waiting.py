"""Waiting: for the first of several things without leaving the others behind, for something unless it is cut
short, for the answer to a call, for a store that cannot be reached, and for the end of one's own task."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from windlass.core.retry import Backoff
from windlass.errors import StoreError, StoreUnavailable
from windlass.store.protocol import Store

logger: Final = logging.getLogger("windlass.worker")
RECONNECT: Final = Backoff(0.2, 10.0, jitter=0.5)
"""Between tries to reach the store."""

ANSWER_TIME: Final = 1.0
"""Seconds that a task which is told to leave waits for the answer to a call."""

T = TypeVar("T")


class ChangeEvent(asyncio.Event):
    """An event that cuts short what tasks await meanwhile. `first` would need a task for each of the two, and
    several turns of the loop until the caller goes on: a worker that is woken has no time for that."""

    def __init__(self) -> None:
        super().__init__()
        self._scopes: set[asyncio.Timeout] = set()

    def set(self) -> None:
        """Set it, and cut short what is awaited."""
        super().set()
        while self._scopes:
            self._scopes.pop().reschedule(asyncio.get_running_loop().time())

    async def unless_set(self, doing: Coroutine[Any, Any, T]) -> T | None:
        """Await this in the caller's own task. None: it was cut short, or the event was set already."""
        if self.is_set():
            doing.close()
            return None
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes.add(scope)
                try:
                    return await doing
                finally:
                    self._scopes.discard(scope)
        except TimeoutError:
            if not scope.expired():
                raise
            return None


async def answered(call: Awaitable[T]) -> T:
    """Await a call of the store. A task that is cancelled meanwhile leaves once it is answered, or after a
    second: a statement that is broken off is an error in the server's log, with an unknown effect."""
    asking = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        try:
            await asyncio.wait({asking}, timeout=ANSWER_TIME)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        raise


async def sleep_until(moment: float) -> None:
    """Sleep until the monotonic clock has come so far. A timer may be early by a millisecond."""
    while (left := moment - time.monotonic()) > 0:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(left)


async def first(*things: Coroutine[Any, Any, Any] | asyncio.Task[Any]) -> None:
    """Wait until one of these is done. Coroutines among them are cancelled then; tasks are the caller's
    own."""
    own = [asyncio.ensure_future(thing) for thing in things if not isinstance(thing, asyncio.Task)]
    tasks = [thing for thing in things if isinstance(thing, asyncio.Task)]
    try:
        await asyncio.wait([*tasks, *own], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)


async def log_polling(store: Store, queues: Iterable[str]) -> None:
    """Say once what it costs the store that this host waits for work [K12]."""
    try:
        logger.info("%s", await store.polling(list(queues)))
    except StoreError as error:  # whoever claims says that, and goes on trying
        logger.debug("what polling costs could not be measured: %s", error)


async def wait_for_store(failures: int, error: StoreUnavailable) -> None:
    """The pause before the next try to open a store that cannot be reached."""
    pause = RECONNECT.delay(failures, random.random())
    logger.warning("cannot open the store, next try in %.1f s: %s", pause, error)
    await asyncio.sleep(pause)
