"""Which tasks and queues have limits among their settings [F3] [F4] [F5]. Every enqueue has to know, so it is
one statement over what is mostly nothing, and asked once an operation."""

from __future__ import annotations

from collections.abc import Collection

import apsw

from windlass.store.sqlite.rows import decode_names, fetch
from windlass.store.sqlite.statements import Statements

_SQL = Statements("limits")
TaskLimits = dict[str, tuple[int | None, int | None]]


class Limits:
    """The limits as they are while an operation lasts."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._tasks: TaskLimits | None = None
        self._queues: set[str] = set()
        self._paused: set[str] = set()
        self._served: list[Collection[str]] | None = None

    @property
    def tasks(self) -> TaskLimits:
        """Task → its settings `concurrency` and `key_concurrency`, for those that have one."""
        return self._load() if self._tasks is None else self._tasks

    @property
    def queues(self) -> set[str]:
        """The queues that may refuse or shed a job."""
        if self._tasks is None:
            self._load()
        return self._queues

    def is_shut(self, queue: str) -> bool:
        """Whether nobody runs jobs of a queue: it is paused, or none of those who work serves it. A worker
        that names no queue may serve any; where nobody works at all, nobody is kept from anything [F3]."""
        if self._served is None:
            self._paused = {name for (name,) in fetch(self._connection, _SQL["paused"])}
            self._served = [decode_names(names) for (names,) in fetch(self._connection, _SQL["served"])]
        unserved = bool(self._served) and all(names and queue not in names for names in self._served)
        return queue in self._paused or unserved

    def _load(self) -> TaskLimits:
        self._tasks = {}
        for what, name, own, key in fetch(self._connection, _SQL["all"]):
            if what == "task":
                self._tasks[name] = (own, key)
            else:
                self._queues.add(name)
        return self._tasks
