"""A set of rows that is kept equal to a source, batch by batch and then by one replacement [P6] [P11].

Each row carries two columns of ours: `hash`, what its content was made from, and `run`, the last run that saw
it. The rules of `run` are all there is to it:

- what is stored with the same hash is touched (its run becomes this one) and need not be made again;
- what is written or touched by a newer run is left alone by an older one;
- the replacement removes what is older than the run, and nothing else.

So rows of an attempt that was killed stay, parts of one run may write at the same time, and of two runs that
overlap the one with the higher number wins. One thing is left: a row that the older run adds after the newer
one has made its replacement stays until the next run.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from windlass.errors import ConfigurationError, EmptyRun
from windlass.sets import on_postgres, on_sqlite
from windlass.sets.gone import SourceKeys
from windlass.sets.shape import Shape
from windlass.sets.values import as_json

logger: Final = logging.getLogger("windlass.sets")
K = TypeVar("K", bound=Hashable)


class RowSet:
    """Rows of a table of yours that together mirror one source.

    `key` names the columns that find a row and `columns` what is written besides. `scope` is a column that
    tells which set a row belongs to, where several share the table. The table needs a primary key or unique
    constraint over exactly (scope, key) and the columns of `ddl()`. Names are taken as they are, in quotes,
    so on PostgreSQL upper and lower case matter.

    `source_key` names foreign keys of the table that lead to the source of a row. Where a row is written
    whose source has vanished meanwhile, `upsert` raises SourceGone instead of the driver's error, and a job
    ends well [O1]. SQLite does not say which foreign key failed: there it works where the table has just one.

    Methods that begin with `a` take connections of asyncpg, psycopg's AsyncConnection, apsw and sqlite3;
    their plain twins those of psycopg, apsw and sqlite3.
    """

    def __init__(
        self,
        table: str,
        *,
        key: str | Sequence[str],
        columns: Sequence[str],
        scope: str | None = None,
        hash: str = "hash",
        run: str = "run",
        source_key: str | Sequence[str] = (),
    ) -> None:
        if isinstance(columns, str):
            raise ConfigurationError(f"columns={columns!r}: write ({columns!r},) for a single column")
        self._shape = Shape(table, (key,) if isinstance(key, str) else key, columns, scope, hash, run)
        self._postgres = on_postgres.Statements(self._shape)
        self._sqlite = on_sqlite.Statements(self._shape)
        self._sources = SourceKeys(self._shape.table, source_key)

    def __repr__(self) -> str:
        return f"<RowSet of {self._shape.table} by {', '.join(self._shape.identity)}>"

    def ddl(self) -> tuple[str, str]:
        """The two columns of ours, for your CREATE TABLE or ALTER TABLE … ADD COLUMN."""
        hash, run = self._shape.hash, self._shape.run
        return f"\"{hash}\" text NOT NULL DEFAULT ''", f'"{run}" bigint NOT NULL DEFAULT 0'

    # -- missing ----------------------------------------------------------------------------------------

    async def amissing(
        self,
        connection: Any,
        run: int,
        records: Mapping[K, str] | Iterable[tuple[K, str]],
        *,
        scope: Any = None,
        force: bool = False,
    ) -> dict[K, str]:
        """Return the keys that have to be made and written [P11].

        What is stored with the same hash counts as seen by this run and is left out, unless `force`. What a
        newer run has seen is left out as well."""
        hashes, asked = self._asked(run, records, scope)
        if _is_sqlite(connection):
            return _at(hashes, self._sqlite.missing(connection, run, asked, force))
        rows = await _afetch(connection, self._postgres.missing, as_json(asked), run, force)
        return _at(hashes, [row[0] for row in rows])

    def missing(
        self,
        connection: Any,
        run: int,
        records: Mapping[K, str] | Iterable[tuple[K, str]],
        *,
        scope: Any = None,
        force: bool = False,
    ) -> dict[K, str]:
        """Return the keys that have to be made and written; see `amissing`."""
        hashes, asked = self._asked(run, records, scope)
        if _is_sqlite(connection):
            return _at(hashes, self._sqlite.missing(connection, run, asked, force))
        rows = _fetch(connection, self._postgres.missing, as_json(asked), run, force)
        return _at(hashes, [row[0] for row in rows])

    # -- upsert -----------------------------------------------------------------------------------------

    async def aupsert(
        self, connection: Any, run: int, rows: Iterable[Mapping[str, Any]], *, scope: Any = None
    ) -> int:
        """Write rows, each a mapping of key, columns and hash; of the same key the last one counts. [P6]

        Returns how many were written: fewer than given where a newer run has been here. Lists and objects are
        written as what the column is on PostgreSQL and as JSON text on SQLite."""
        written = self._shape.written(self._shape.check_run(run), rows, scope)
        with self._sources.watched(connection):
            if _is_sqlite(connection):
                return self._sqlite.upsert(connection, written)
            answer = await _afetch(connection, self._postgres.upsert, as_json(written))
            return int(answer[0][0])

    def upsert(
        self, connection: Any, run: int, rows: Iterable[Mapping[str, Any]], *, scope: Any = None
    ) -> int:
        """Write rows, each a mapping of key, columns and hash; see `aupsert`."""
        written = self._shape.written(self._shape.check_run(run), rows, scope)
        with self._sources.watched(connection):
            if _is_sqlite(connection):
                return self._sqlite.upsert(connection, written)
            return int(_fetch(connection, self._postgres.upsert, as_json(written))[0][0])

    # -- replace ----------------------------------------------------------------------------------------

    async def areplace(self, connection: Any, run: int, *, scope: Any = None, empty: bool = False) -> int:
        """Remove every row of the set that neither this run nor a newer one has seen; returns how many. [P6]

        For the end of the run, when all its parts have ended. A run that has seen nothing raises EmptyRun,
        since that is nearly always a broken source; `empty=True` says that the source is empty indeed."""
        at = self._shape.scope_of(scope)
        self._shape.check_run(run)
        if _is_sqlite(connection):
            return self._judged(run, scope, empty, self._sqlite.replace(connection, run, at, empty))
        (seen,) = await _afetch(connection, self._postgres.replace, as_json(at), run, empty)
        return self._judged(run, scope, empty, seen)

    def replace(self, connection: Any, run: int, *, scope: Any = None, empty: bool = False) -> int:
        """Remove every row of the set that neither this run nor a newer one has seen; see `areplace`."""
        at = self._shape.scope_of(scope)
        self._shape.check_run(run)
        if _is_sqlite(connection):
            return self._judged(run, scope, empty, self._sqlite.replace(connection, run, at, empty))
        (seen,) = _fetch(connection, self._postgres.replace, as_json(at), run, empty)
        return self._judged(run, scope, empty, seen)

    # -- what the twins share ---------------------------------------------------------------------------

    def _asked(
        self, run: int, records: Mapping[K, str] | Iterable[tuple[K, str]], scope: Any
    ) -> tuple[dict[K, str], list[dict[str, Any]]]:
        self._shape.check_run(run)
        hashes = dict(records)
        return hashes, self._shape.asked(hashes, scope)

    def _judged(self, run: int, scope: Any, empty: bool, seen: Sequence[Any]) -> int:
        own, newer, gone = seen
        whose = self._shape.table if scope is None else f"{self._shape.table}, set {scope!r}"
        if not own and newer:
            logger.warning(
                "%s: run %d removes nothing, because a newer run has seen all of its rows. If this run is in "
                "fact the later one, give it a higher number: see windlass.sets.run_number",
                whose,
                run,
            )
        elif not own and not empty:
            raise EmptyRun(
                f"run {run} has seen no row of {whose}, so its replacement would leave the set empty. "
                "Nothing was removed. Look at the source, and whether all batches used this number; if the "
                "source is empty indeed, pass empty=True"
            )
        return int(gone)


def _at(hashes: Mapping[K, str], places: Iterable[int]) -> dict[K, str]:
    keys = list(hashes)
    return {keys[place - 1]: hashes[keys[place - 1]] for place in places}


# -- recognising, by the names of classes: no driver is imported that the caller does not use ----------------


def _is_sqlite(connection: Any) -> bool:
    return any(name in on_sqlite.DRIVERS for name in _names(connection))


def _fetch(connection: Any, sql: str, *args: Any) -> on_postgres.Rows:
    for name in _names(connection):
        if name in on_postgres.SYNC:
            return on_postgres.SYNC[name](connection, sql, args)
    raise ConfigurationError(
        f"{_shown(connection)} cannot be used here: pass a connection (not a pool) of psycopg, apsw or "
        "sqlite3, or await the method that begins with a"
    )


async def _afetch(connection: Any, sql: str, *args: Any) -> on_postgres.Rows:
    for name in _names(connection):
        if name in on_postgres.ASYNC:
            return await on_postgres.ASYNC[name](connection, sql, args)
    raise ConfigurationError(
        f"{_shown(connection)} cannot be awaited: pass a connection (not a pool) of asyncpg, psycopg's "
        "AsyncConnection, apsw or sqlite3, or call the method without the a"
    )


def _names(connection: Any) -> list[str]:
    return [f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(connection).__mro__]


def _shown(connection: Any) -> str:
    return f"a {type(connection).__module__}.{type(connection).__qualname__}"
