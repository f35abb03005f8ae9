"""The queues of tasks whose code is elsewhere, as live workers publish them [E5]: kept for some seconds,
since those who enqueue by name do so again and again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Final

from windlass.core.names import did_you_mean
from windlass.core.routing import DEFAULT_QUEUE

logger: Final = logging.getLogger("windlass")
KEEP: Final = 5.0
"""Seconds for which an answer holds."""
MAX_NAMES: Final = 10_000


class PublishedQueues:
    """Recent answers of the store, by the name of the task. `tasks` are those that the app knows: a
    name that is like one of them, and that no worker knows, may be misspelt."""

    def __init__(self, tasks: Collection[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._tasks = tasks
        self._warned: set[str] = set()
        self._clock = clock
        self._known: dict[str, tuple[float, str]] = {}

    def get(self, task: str) -> str | None:
        """The queue of a task; None where the store must be asked."""
        until, queue = self._known.get(task, (0.0, ""))
        return queue if self._clock() < until else None

    def keep(self, task: str, found: str | None, known: Collection[str] = ()) -> str:
        """Keep an answer, and return the queue that it means: `default` where no worker knows the task.
        `known` are those that live workers know, where they were asked."""
        if len(self._known) >= MAX_NAMES:  # names may come from outside
            self._known.clear()
        queue = DEFAULT_QUEUE if found is None else found
        if found is None and task not in self._warned:
            self._warn(task, did_you_mean(task, {*self._tasks, *known}))
        self._known[task] = self._clock() + KEEP, queue
        return queue

    def _warn(self, task: str, hint: str) -> None:
        if hint:
            self._warned = {task} if len(self._warned) >= MAX_NAMES else self._warned | {task}
            logger.warning("no task %s is known here or to a live worker%s", task, hint)
