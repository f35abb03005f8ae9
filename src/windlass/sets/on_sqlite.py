"""The set on SQLite: a few prepared statements, run once for each row. Inside one process that costs some
microseconds a row, and no limit on the number of variables is ever met.

Works on connections of apsw and of the `sqlite3` module; both keep a statement prepared between its runs.
Never use `sqlite3` on the very file that holds the jobs: two copies of SQLite in one process break each
other's locks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.errors import ConfigurationError
from windlass.sets.shape import Shape, quoted
from windlass.sets.values import for_sqlite

DRIVERS: Final = ("apsw.Connection", "sqlite3.Connection")


class Statements:
    """The statements of one set, and how they are run."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        table, hash, run = shape.table, shape.hash, shape.run
        same = " AND ".join(f'"{name}" = ?' for name in shape.identity)
        content = ", ".join(f'"{name}" = excluded."{name}"' for name in shape.content)
        places = ", ".join("?" * len(shape.all))
        mine = f'"{shape.scope}" = ?' if shape.scope is not None else "true"
        # The names were checked and are quoted, hence all the S608.
        self._touch = (
            f'UPDATE {table} SET "{run}" = ? '  # noqa: S608
            f'WHERE "{run}" <= ? AND {same} AND "{hash}" = ? RETURNING 1'
        )
        self._newer = f'SELECT 1 FROM {table} WHERE "{run}" > ? AND {same}'  # noqa: S608
        self._upsert = (
            f"INSERT INTO {table} AS s ({quoted(shape.all)}) VALUES ({places}) "  # noqa: S608
            f"ON CONFLICT ({quoted(shape.identity)}) DO UPDATE SET {content} "
            f'WHERE s."{run}" <= excluded."{run}" RETURNING 1'
        )
        self._count = (
            f'SELECT count(*) FILTER (WHERE "{run}" = ?), count(*) FILTER (WHERE "{run}" > ?), '  # noqa: S608
            f'count(*) FILTER (WHERE "{run}" < ?) FROM {table} WHERE {mine}'
        )
        self._remove = f'DELETE FROM {table} WHERE "{run}" < ? AND {mine}'  # noqa: S608

    def missing(
        self, connection: Any, run: int, asked: Sequence[Mapping[str, Any]], force: bool
    ) -> list[int]:
        """Touch what is stored as asked; the places (from 1) of the rest. [P11]"""
        shape = self._shape
        cursor = _cursor(connection)
        missing = []
        for place, row in enumerate(asked, 1):
            key = _values(row, shape.identity)
            if not force and cursor.execute(self._touch, (run, run, *key, row[shape.hash])).fetchall():
                continue
            if not cursor.execute(self._newer, (run, *key)).fetchall():
                missing.append(place)
        return missing

    def upsert(self, connection: Any, rows: Sequence[Mapping[str, Any]]) -> int:
        """Write rows; how many were written."""
        ready = [_values(row, self._shape.all) for row in rows]
        cursor = _cursor(connection)
        return sum(len(cursor.execute(self._upsert, row).fetchall()) for row in ready)

    def replace(
        self, connection: Any, run: int, scope: Mapping[str, Any], empty: bool
    ) -> tuple[bool, bool, int]:
        """Remove what is older than the run: whether it has seen anything, whether a newer one has, and how
        many rows are gone."""
        cursor = _cursor(connection)
        mine = _values(scope, tuple(scope))
        ((own, newer, older),) = cursor.execute(self._count, (run, run, run, *mine)).fetchall()
        remove = own > 0 or empty
        if remove and older:
            cursor.execute(self._remove, (run, *mine))
        return own > 0, newer > 0, older if remove else 0


def _values(row: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(for_sqlite(row[name]) for name in names)


def _cursor(connection: Any) -> Any:
    """A cursor inside the caller's transaction.

    Without one every row would be a commit of its own. The `sqlite3` module begins one by itself before it
    writes; here that happens before the first read, so that what was counted is what is removed."""
    cursor = connection.cursor()
    if hasattr(cursor, "row_factory"):
        cursor.row_factory = None  # the connection's is the caller's business
    if not connection.in_transaction:
        if getattr(connection, "isolation_level", None) is None:
            raise ConfigurationError(
                "the connection is not in a transaction: execute BEGIN IMMEDIATE first, or work on the one "
                "that batch.transaction() gives you"
            )
        cursor.execute("BEGIN IMMEDIATE")
    return cursor
