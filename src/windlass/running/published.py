"""The queues of tasks whose code is elsewhere, as live workers publish them [E5]: kept for some seconds,
since those who enqueue by name do so again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from windlass.core.routing import DEFAULT_QUEUE

KEEP: Final = 5.0
"""Seconds for which an answer holds."""
MAX_NAMES: Final = 10_000


class PublishedQueues:
    """What the store has answered lately, by the name of the task."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, str]] = {}

    def get(self, task: str) -> str | None:
        """The queue of a task; None where the store must be asked."""
        until, queue = self._known.get(task, (0.0, ""))
        return queue if self._clock() < until else None

    def keep(self, task: str, found: str | None) -> str:
        """Keep an answer, and return the queue that it means: `default` where no worker knows the task."""
        if len(self._known) >= MAX_NAMES:  # names may come from outside
            self._known.clear()
        queue = DEFAULT_QUEUE if found is None else found
        self._known[task] = self._clock() + KEEP, queue
        return queue
