"""Where the imported records go, on SQLite and on PostgreSQL; no other module of the demo knows which.

The table has no key and no unique index: it would take a record twice, and that none came twice is what the
demo has to prove. Everything lives in a file or a schema of the demo's own; what it did not make itself it
does not remove.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from importlib import resources
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote

import apsw

from windlass.errors import ConfigurationError
from windlass.store.factory import POSTGRES, describe, is_in_memory, kind_of, require_asyncpg, sqlite_path
from windlass.store.sqlite.connections.connection import connect

SCHEMA: Final = "windlass_demo"
TABLE: Final = "windlass_demo_record"
COLUMNS: Final = ("id", "part", "worker", "customer", "amount", "at", "note")
Row: TypeAlias = tuple[int, int, int, str, int, str, str]
_BUSY: Final = 30.0


class Place(Protocol):
    """A database that holds the demo's table."""

    async def prepare(self, *, reset: bool) -> None:
        """Make room. Raises ConfigurationError where something is in the way; with `reset`, what an earlier
        demo has left is removed."""

    async def create(self) -> None:
        """Make the table."""

    async def ask(self, query: str) -> Sequence[Sequence[Any]]:
        """The answer to a query of `sql/`."""

    async def remove(self) -> None:
        """Remove everything that the demo has made."""


def place_of(url: str) -> Place:
    """The place behind a URL."""
    if kind_of(url) == POSTGRES:
        return OnPostgres(url)
    if is_in_memory(url):
        raise ConfigurationError(
            ":memory: lives in one process, and the demo has several; use sqlite:///path"
        )
    return OnSQLite(url)


def at_path(path: Path) -> str:
    """The URL of a SQLite file. It is absolute: the workers run in another directory."""
    return f"sqlite:///{quote(path.absolute().as_posix())}"


def statement(name: str, table: str) -> str:
    """A statement of `sql/`."""
    text = (resources.files("windlass.demo") / "sql" / f"{name}.sql").read_text("utf-8")
    return text.replace("{table}", table)


async def insert(opened: Any, rows: Sequence[Row]) -> None:
    """Insert the rows in the transaction that is open on this connection."""
    if isinstance(opened, apsw.Connection):
        opened.executemany(_INSERT, rows)
    else:
        await opened.copy_records_to_table(TABLE, schema_name=SCHEMA, columns=COLUMNS, records=rows)


_INSERT: Final = statement("insert", TABLE)


class OnSQLite:
    """A SQLite file that is all the demo's."""

    def __init__(self, url: str) -> None:
        self._path = Path(sqlite_path(url))
        self._shown = describe(url)

    async def prepare(self, *, reset: bool) -> None:
        """See `Place`."""
        if not self._path.exists():
            return
        if not self._is_ours():
            raise ConfigurationError(
                f"{self._shown} is there already and is no file of the demo's: name one that is not there"
            )
        if not reset:
            raise ConfigurationError(f"{self._shown} holds an earlier demo: --reset removes it")
        await self.remove()

    async def create(self) -> None:
        """See `Place`."""
        with closing(connect(str(self._path), _BUSY)) as opened:
            opened.execute(statement("create", TABLE))

    async def ask(self, query: str) -> Sequence[Sequence[Any]]:
        """See `Place`."""
        with closing(connect(str(self._path), _BUSY, reading=True)) as opened:
            return list(opened.execute(statement(query, TABLE)))

    async def remove(self) -> None:
        """See `Place`."""
        for end in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + end).unlink(missing_ok=True)

    def _is_ours(self) -> bool:
        try:
            with closing(apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)) as opened:
                return opened.table_exists(None, TABLE)
        except apsw.Error:  # it is no database at all
            return False


class OnPostgres:
    """A schema of the demo's own in a PostgreSQL database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._table = f"{SCHEMA}.{TABLE}"
        self._shown = describe(url)

    async def prepare(self, *, reset: bool) -> None:
        """See `Place`."""
        async with self._connected() as opened:
            if await opened.fetchval("SELECT to_regnamespace($1)", SCHEMA) is None:
                return
            if await opened.fetchval("SELECT to_regclass($1)", self._table) is None:
                raise ConfigurationError(
                    f"{self._shown} has a schema {SCHEMA} that is not the demo's; name another database"
                )
        if not reset:
            raise ConfigurationError(f"{self._shown} holds an earlier demo: --reset removes it")
        await self.remove()

    async def create(self) -> None:
        """See `Place`."""
        async with self._connected() as opened:
            await opened.execute(statement("create", self._table))

    async def ask(self, query: str) -> Sequence[Sequence[Any]]:
        """See `Place`."""
        async with self._connected() as opened:
            rows = await opened.fetch(statement(query, self._table))
        return [tuple(row) for row in rows]

    async def remove(self) -> None:
        """See `Place`."""
        async with self._connected() as opened:
            await opened.execute("SET client_min_messages = warning")  # not a line for each thing dropped
            await opened.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        require_asyncpg()
        import asyncpg

        from windlass.store.postgres.connections.errors import translated

        with translated():
            dsn = f"postgresql://{self._url.partition('://')[2]}"
            opened = await asyncpg.connect(dsn, server_settings={"application_name": "windlass demo"})
        try:
            yield opened
        finally:
            await opened.close()
