"""The connection pool: opening it, telling a pooler from a server, and running statements with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

from windlass.errors import StoreUnavailable
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.faults import translated

DEADLINE: Final = 30.0
"""Seconds after which any statement is given up: a half-open connection must not hang a worker [fault 9]."""

SPARE: Final = 3
"""Connections that are never lent to handlers: claims, flushes and beats must not wait for their work."""


async def _leave_as_it_is(connection: Any) -> None:
    """Nothing here outlives its transaction in a session, so a connection needs no reset between two uses.

    The driver still rolls back a transaction left open. Its own reset costs a round trip for each statement:
    100 of the 200 µs that a bare one takes the client."""


class Database:
    """A pool of connections to one schema. Every statement has a deadline and every error is typed."""

    def __init__(self, dsn: str, schema: str, pool_size: int) -> None:
        self.dsn = dsn
        self.schema = schemas.check_schema_name(schema)
        self._pool_size = pool_size
        self._pool: asyncpg.Pool[Any] | None = None
        self._loans = asyncio.Semaphore(max(pool_size - SPARE, 1))
        self.pooled = False

    async def connect(self) -> Any:
        """One connection outside the pool, for migrating and listening."""
        with translated():
            return await asyncpg.connect(
                self.dsn, timeout=10, command_timeout=DEADLINE, statement_cache_size=0
            )

    async def open(self) -> None:
        """Check the schema, find out whether a pooler stands between, and open the pool."""
        if self._pool is not None:
            return
        connection = await self.connect()
        try:
            with translated():
                # A transaction pooler hands out process ids of its own.
                self.pooled = (
                    await connection.fetchval("SELECT pg_backend_pid()") != connection.get_server_pid()
                )
                await schemas.check(connection, self.schema)
        finally:
            await connection.close()
        with translated():
            self._pool = await asyncpg.create_pool(
                self.dsn,
                min_size=1,
                max_size=self._pool_size,
                timeout=10,
                command_timeout=DEADLINE,
                statement_cache_size=0 if self.pooled else 100,
                # Whatever the database's default is: most functions need a snapshot per statement. A pooler
                # would refuse the setting.
                server_settings=None if self.pooled else {"default_transaction_isolation": "read committed"},
                reset=_leave_as_it_is,
            )

    async def close(self) -> None:
        """Close the pool; connections that do not answer are cut after a moment."""
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(2):
                    await pool.close()
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """A connection from the pool."""
        if self._pool is None:
            raise StoreUnavailable("the store is not open; call `await store.open()` first")
        with translated():
            async with self._pool.acquire(timeout=DEADLINE) as connection:
                yield connection

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Any]:
        """A connection for a block that is not ours: what the block raises stays as it is."""
        if self._pool is None:
            raise StoreUnavailable("the store is not open; call `await store.open()` first")
        pool = self._pool
        async with self._loans:
            with translated():
                connection = await pool.acquire(timeout=DEADLINE)
            try:
                yield connection
            finally:
                with translated():
                    await pool.release(connection)

    async def call(self, function: str, *args: Any) -> Any:
        """Call one of the schema's functions: the row it answers with."""
        async with self.connection() as connection:
            return await connection.fetchrow(schemas.call(function, len(args), self.schema), *args)

    async def value(self, function: str, *args: Any) -> Any:
        """Call one of the schema's functions: the value it answers with."""
        async with self.connection() as connection:
            return await connection.fetchval(schemas.call(function, len(args), self.schema), *args)

    async def rows(self, function: str, *args: Any) -> list[Any]:
        """Call one of the schema's functions: all rows it answers with."""
        async with self.connection() as connection:
            rows: list[Any] = await connection.fetch(schemas.call(function, len(args), self.schema), *args)
            return rows

    async def query(self, name: str, *args: Any) -> list[Any]:
        """The rows of a statement from `queries/`."""
        async with self.connection() as connection:
            rows: list[Any] = await connection.fetch(schemas.query(name, self.schema), *args)
            return rows
