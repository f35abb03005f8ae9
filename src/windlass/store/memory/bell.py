"""How waiters of the memory store hear of a change. No jobs live here."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field


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
