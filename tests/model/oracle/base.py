"""What every part of the oracle stands on: settings, clock, tables, the lock, and waiting."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from tests.model.oracle.admission import watch
from tests.model.oracle.followers import follow
from tests.model.oracle.tables import Tables
from tests.model.oracle.turns import admit_new
from windlass.store.settings import StoreSettings

B = TypeVar("B", bound="Base")
P = ParamSpec("P")
R = TypeVar("R")
DEFAULTS = StoreSettings()


@dataclass(frozen=True, eq=False)
class Listener:
    """One who waits, with the loop it waits in: an event belongs to a single loop."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    event: asyncio.Event = field(default_factory=asyncio.Event)


class Bell:
    """Wakes everybody who listens, in whatever loop and thread they wait. The store's lock guards it."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    def listen(self) -> Listener:
        """Begin to listen, under the lock of the look that found nothing, so that no change is missed."""
        listener = Listener()
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """Stop listening, rung or not."""
        self._listeners.discard(listener)

    def ring(self) -> None:
        """Something changed: everybody should look."""
        for listener in self._listeners:
            with contextlib.suppress(RuntimeError):  # a loop that closed has nobody left to wake
                listener.loop.call_soon_threadsafe(listener.event.set)


class Base:
    """The state of an oracle."""

    def __init__(self, settings: StoreSettings = DEFAULTS, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._tables = Tables()
        # One store may serve a test's own loop and the thread that runs the synchronous calls.
        self._lock = threading.RLock()
        self._bell = Bell()

    async def _until(self, look: Callable[[], R | None], timeout: float) -> R | None:
        """Look now and after every change, until there is something to see or the time is over."""
        deadline = time.monotonic() + timeout
        while True:
            with self._lock:
                found, listener = look(), self._bell.listen()
            try:
                left = deadline - time.monotonic()
                if found is not None or left <= 0:
                    return found
                async with asyncio.timeout(left):
                    await listener.event.wait()
            except TimeoutError:
                continue  # for one last look
            finally:
                with self._lock:
                    self._bell.leave(listener)


def atomic(
    operation: Callable[Concatenate[B, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[B, P], Coroutine[Any, Any, R]]:
    """Run an operation under the store's lock from its first line to its last, then wake who waits.

    No operation awaits anything inside, so holding a thread's lock over it blocks nobody for long.
    """

    @wraps(operation)
    async def locked(self: B, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            try:
                answer = await operation(self, *args, **kwargs)
                follow(self._tables, self._clock())
                admit_new(self._tables)
                watch(self._tables)
                return answer
            finally:
                self._bell.ring()

    return locked
