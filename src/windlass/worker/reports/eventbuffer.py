"""Events on their way to the store [M2]: a bounded buffer, and a count of what found no room in it."""

from __future__ import annotations

import logging
import time
from collections import deque
from itertools import islice
from typing import Final

import msgspec

from windlass.core.counts import plural
from windlass.settings import Events
from windlass.store.records import Event
from windlass.worker.reports.store_clock import StoreClock

logger: Final = logging.getLogger("windlass.worker")
BUFFER: Final = 50_000
WARN_EVERY: Final = 60.0


class EventBuffer:
    """The events of one process, oldest first. Their `at` is by the monotonic clock until they are
    reported."""

    def __init__(self, wanted: Events, most: int) -> None:
        self.wanted = wanted
        self._most = most
        self._events: deque[Event] = deque()
        self._dropped = 0
        self._unlogged = 0
        self._warned_at = float("-inf")

    def __len__(self) -> int:
        return len(self._events)

    def has_room(self) -> bool:
        """Return whether one more may be added; where it may not, it is counted as dropped. Asked before an
        event is made, so that a flood of them costs little."""
        if self.wanted == "off":
            return False
        if len(self._events) < self._most:
            return True
        self._dropped += 1
        self._unlogged += 1
        now = time.monotonic()
        if now - self._warned_at >= WARN_EVERY:
            message = "%s dropped: %d wait to be reported already (setting event_buffer)"
            logger.warning(message, plural(self._unlogged, "event is", "events are"), len(self._events))
            self._warned_at, self._unlogged = now, 0
        return False

    def add(self, event: Event) -> None:
        """Keep an event for which there is room."""
        self._events.append(event)

    def oldest(self, most: int, clock: StoreClock) -> list[Event]:
        """The oldest ones, by the store's clock. They stay here until they are `sent`."""
        return [msgspec.structs.replace(event, at=clock.at(event.at)) for event in islice(self._events, most)]

    def sent(self, n: int) -> None:
        """Drop the n oldest events, which are in the store."""
        for _ in range(n):
            self._events.popleft()

    def drop(self) -> int:
        """Give up on those that wait: how many they were."""
        n = len(self._events)
        self._events.clear()
        return n

    def dropped(self) -> int:
        """How many were dropped since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped
