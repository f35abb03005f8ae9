"""A row whose source has vanished: the violation of its foreign key becomes SourceGone [O1].

By SQLSTATE and the name of the constraint on PostgreSQL. SQLite tells neither the constraint nor the row, so
there it counts only where the table has a single foreign key: with several, nobody could say which failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from windlass.endings import SourceGone
from windlass.errors import ConfigurationError

_FOREIGN_KEY_VIOLATION: Final = "23503"
_SQLITE_CONSTRAINT_FOREIGNKEY: Final = 787


class SourceKeys:
    """The foreign keys of a table that lead to the source of its rows; none, unless they are named."""

    def __init__(self, table: str, names: str | Sequence[str]) -> None:
        self._table = table
        self._names = (names,) if isinstance(names, str) else tuple(names)
        if not all(self._names):
            raise ConfigurationError(f"source_key={names!r}: name foreign-key constraints of {table}")

    @contextmanager
    def watched(self, connection: Any) -> Iterator[None]:
        """Raise SourceGone for what violates one of them; any other error stays as it is."""
        try:
            yield
        except Exception as error:
            if not self._names:
                raise
            name = _postgres_constraint(error)
            if name in self._names or (_is_sqlite_violation(error) and self._is_single(connection)):
                raise SourceGone(
                    f"{self._table}: a row's source is gone, by foreign key {name or self._names[0]}"
                ) from error
            raise

    def _is_single(self, connection: Any) -> bool:
        schema, _, table = self._table.rpartition(".")
        found = connection.cursor().execute(
            "SELECT count(DISTINCT id) FROM pragma_foreign_key_list(?, ?)",
            (table.strip('"'), schema.strip('"') or "main"),
        )
        ((number,),) = found.fetchall()
        return bool(number == 1)


def _postgres_constraint(error: Exception) -> str | None:
    """The foreign key that was violated, as asyncpg and psycopg name it."""
    if getattr(error, "sqlstate", None) != _FOREIGN_KEY_VIOLATION:
        return None
    name = getattr(error, "constraint_name", None) or getattr(
        getattr(error, "diag", None), "constraint_name", None
    )
    return name if isinstance(name, str) else None


def _is_sqlite_violation(error: Exception) -> bool:
    """Return whether apsw or sqlite3 report a violated foreign key."""
    code = getattr(error, "extendedresult", None) or getattr(error, "sqlite_errorcode", None)
    return code == _SQLITE_CONSTRAINT_FOREIGNKEY
