"""The tables of these tests: one per driver, each in a real SQLite file or a real PostgreSQL schema.

A `Table` opens transactions in the way of its driver and calls the twin of a method that fits it, so that one
test speaks for all of them.
"""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import apsw
import psycopg
from psycopg.rows import dict_row

from tests.store.postgres.adapters.callers import asyncpg_connection, asyncpg_from_pool
from windlass.sets import RowSet

Transaction = Callable[[str, bool], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def _apsw(target: str, commit: bool) -> AsyncIterator[Any]:
    connection = apsw.Connection(target)
    connection.set_busy_timeout(5000)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT" if commit else "ROLLBACK")
    finally:
        connection.close(True)


@asynccontextmanager
async def _ended(connection: Any, commit: bool) -> AsyncIterator[Any]:
    try:
        yield connection
        (connection.commit if commit else connection.rollback)()
    finally:
        connection.close()


def _sqlite3(target: str, commit: bool) -> AbstractAsyncContextManager[Any]:
    connection = sqlite3.connect(target)
    connection.row_factory = sqlite3.Row  # a factory of the caller must not disturb us
    return _ended(connection, commit)


def _psycopg(target: str, commit: bool) -> AbstractAsyncContextManager[Any]:
    return _ended(psycopg.connect(target, row_factory=dict_row), commit)


@asynccontextmanager
async def _psycopg_async(target: str, commit: bool) -> AsyncIterator[Any]:
    connection = await psycopg.AsyncConnection.connect(target, row_factory=dict_row)
    try:
        yield connection
        await (connection.commit if commit else connection.rollback)()
    finally:
        await connection.close()


KINDS: dict[str, tuple[Transaction, bool]] = {
    "apsw": (_apsw, False),
    "apsw-awaited": (_apsw, True),
    "sqlite3": (_sqlite3, False),
    "psycopg": (_psycopg, False),
    "psycopg-async": (_psycopg_async, True),
    "asyncpg": (asyncpg_connection, True),
    "asyncpg-pool": (asyncpg_from_pool, True),
}
"""How to open a transaction, and whether the `a…` methods are called in it."""


@dataclass(frozen=True)
class Table:
    """Where tables are made, and how one of them is spoken to."""

    kind: str
    target: str
    prefix: str

    @property
    def is_sqlite(self) -> bool:
        return not self.target.startswith("postgresql:")

    def name(self, table: str) -> str:
        return f"{self.prefix}{table}"

    def transaction(self, commit: bool = True) -> AbstractAsyncContextManager[Any]:
        return KINDS[self.kind][0](self.target, commit)

    async def on(self, connection: Any, rows: RowSet, method: str, *args: Any, **options: Any) -> Any:
        """Call a method on a connection that is open."""
        answer = getattr(rows, f"a{method}" if KINDS[self.kind][1] else method)(connection, *args, **options)
        return await answer if inspect.isawaitable(answer) else answer

    async def call(self, rows: RowSet, method: str, *args: Any, commit: bool = True, **options: Any) -> Any:
        """Call a method in a transaction of its own."""
        async with self.transaction(commit) as connection:
            return await self.on(connection, rows, method, *args, **options)

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement of the test's own; {} is where the table's prefix goes."""
        sql = sql.replace("{}", self.prefix)
        if self.is_sqlite:
            with apsw.Connection(self.target) as connection:
                return list(connection.execute(sql))
        with psycopg.connect(self.target, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []
