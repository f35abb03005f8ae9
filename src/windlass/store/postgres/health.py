"""How a PostgreSQL store is doing: sizes, dead tuples, write-ahead log, connections, what holds it up [M3].

Statistics that the server keeps anyway, and sizes of files. None of it needs a right beyond those of a
reader; what this role may not read is None.
"""

from __future__ import annotations

from typing import Any

from windlass.errors import StoreForbidden
from windlass.store.measures import Health, Segment, Table
from windlass.store.postgres.database import Database
from windlass.store.postgres.diagnosis import HELD
from windlass.store.telling import NEWS_COUNTED


async def health(database: Database) -> Health:
    """See Measures.health."""
    (row,) = await database.query("health", NEWS_COUNTED, database.unread.after())
    database.unread.none_below(row["lowest"])
    parts = await database.query("tables")
    held = await database.query("hold_ups", HELD)
    pool, idle = database.pool()
    return Health(
        store=f"PostgreSQL {row['version'].split()[0]}",
        bytes=sum(part["bytes"] or 0 for part in parts),
        tables=_tables(parts),
        segments=_segments(await database.query("segments"), parts),
        wal=await _wal(database),
        connections=row["connections"],
        most_connections=row["most_connections"],
        pool=pool,
        pool_idle=idle,
        oldest_snapshot=row["oldest_snapshot"],
        locks_held=held[0]["seconds"] if held else 0.0,
        blocked=row["blocked"],
        blocked_since=row["blocked_since"],
        coordinator_until=row["coordinator_until"],
        news=row["news"],
    )


async def _wal(database: Database) -> int | None:
    """Asked for by itself: some that run servers for others take the right to ask for it away."""
    try:
        (row,) = await database.query("wal")
    except StoreForbidden:
        return None
    return None if row["bytes"] is None else int(row["bytes"])


def _tables(parts: list[Any]) -> tuple[Table, ...]:
    """A table, or a log over all of its segments; a size is None where the table went just then."""
    names = dict.fromkeys(part["name"] for part in parts)
    return tuple(
        Table(
            name=name,
            bytes=sum(part["bytes"] or 0 for part in parts if part["name"] == name),
            rows=sum(part["rows"] for part in parts if part["name"] == name),
            dead=sum(part["dead"] for part in parts if part["name"] == name),
        )
        for name in names
    )


def _segments(rows: list[Any], parts: list[Any]) -> tuple[Segment, ...]:
    return tuple(
        Segment(
            no=row["no"],
            bytes=sum(part["bytes"] or 0 for part in parts if part["segment"] == row["no"]),
            state=row["state"],
            opened_at=row["opened_at"],
        )
        for row in rows
    )
