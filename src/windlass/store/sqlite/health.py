"""How the store is doing: its file, its tables, and which tasks its ready jobs are of [M1]. Nothing here
writes."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import Final

import apsw

from windlass.store.measures import Health, Table, TaskDepth
from windlass.store.sqlite.rows import fetch
from windlass.store.sqlite.statements import Statements
from windlass.store.telling import NEWS_COUNTED

_SQL = Statements("health")
SMALL: Final = 64 * 1024 * 1024
"""Up to this size of the file the tables are told apart: SQLite keeps no statistics of them, and to ask for
their sizes is to read every page."""


def health(connection: apsw.Connection, path: str) -> Health:
    """What the file tells about itself."""
    size = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
    return Health(
        store=f"SQLite {apsw.sqlite_lib_version()}",
        bytes=size,
        tables=_tables(connection) if size <= SMALL else (),
        wal=_size_of(f"{path}-wal"),
        coordinator_until=connection.execute(_SQL["term"]).get or None,
        news=connection.execute(_SQL["news"], (NEWS_COUNTED,)).get,
    )


def _tables(connection: apsw.Connection) -> tuple[Table, ...]:
    if "ENABLE_DBSTAT_VTAB" not in apsw.compile_options:
        return ()
    return tuple(
        Table(name=name.removeprefix("windlass_"), bytes=size)
        for name, size in fetch(connection, _SQL["sizes"])
    )


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def task_depths(connection: apsw.Connection, most: int) -> list[TaskDepth]:
    """How many jobs of each task are ready, in lanes and aside, by queue."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    estimated: set[str] = set()
    aside: Counter[str] = Counter()
    for lane, queue, ready, held, cursor, end in fetch(connection, _SQL["lanes"]):
        counts[queue].update(dict(fetch(connection, _SQL["in_lane"], (cursor, end, most))))
        room = most - aside[queue]
        counts[queue].update(dict(fetch(connection, _SQL["aside"], (lane, room))))
        aside[queue] += min(held, room)
        if ready > most or held > room:
            estimated.add(queue)
    return [
        TaskDepth(queue=queue, task=task, ready=n, estimate=queue in estimated)
        for queue, mine in sorted(counts.items())
        for task, n in sorted(mine.items())
    ]
