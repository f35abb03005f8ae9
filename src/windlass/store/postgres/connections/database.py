"""A database: opening it, noticing a pooler, and running statements with a deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

from windlass.core.counts import plural
from windlass.errors import ConfigurationError, StoreForbidden, StoreReadOnly, StoreUnavailable
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections import url
from windlass.store.postgres.connections.connect import Loan, connect
from windlass.store.postgres.connections.encoding import Fit
from windlass.store.postgres.connections.errors import LATE, READ_ONLY, translated
from windlass.store.postgres.connections.pool import GONE, PATIENCE, THRIFTY, Pool
from windlass.store.postgres.connections.pooler import TOO_SMALL, Pooling, pooling_of

DEADLINE: Final = 30.0
"""Seconds after which any statement is given up: a half-open connection must not hang a worker [fault 9]."""

SETTINGS: Final = {
    "default_transaction_isolation": "read committed",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
}
"""The settings that our sessions need, whatever role and database say: most functions want a snapshot per
statement, and how long a call may take is ours to say. A URL that sets one of them itself has its way."""

KEEPALIVES: Final = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
"""How soon the server gives up on a client that vanished, and releases the locks of a handler's transaction:
in a minute, where most systems take two hours. On our side no call waits that long."""

NAME: Final = {"application_name": "windlass"}
"""So that an operator can tell whose sessions these are."""

CLOSE: Final = 2.0
"""Seconds that closing may take."""

CALL_OFF: Final = CLOSE / 2
"""Seconds that the server has to confirm that a statement was cancelled."""

SPARE: Final = 3
"""How many of the connections that a pool may have are never lent to handlers."""

NOT_ADOPTED: Final = "WL013"
NO_EPOCH: Final = (NOT_ADOPTED, "0A000")
"""Answers of a standby where the epoch matters: tables that are not logged cannot be read there."""
ADOPT_TRIES: Final = 100
ADOPT_PAUSE: Final = 0.05

logger: Final = logging.getLogger("windlass.store")


async def _taken(pool: Pool, *, lend: bool = False) -> Any:
    """A connection from the pool. A server that accepted us before and refuses us now counts as unavailable:
    somebody may have closed or renamed the database, or be changing a password [fault 8]."""
    if (connection := pool.take_free(lend=lend)) is not None:
        return connection  # without a timer for a wait that there is not
    try:
        async with asyncio.timeout(DEADLINE):
            return await pool.take(lend=lend)
    except (asyncpg.PostgresError, ConfigurationError) as error:
        raise StoreUnavailable(f"PostgreSQL refuses connections at the moment: {error}") from error


class Database:
    """A pool of connections to one schema. Every statement has a deadline and every error is typed.

    `deadline` bounds a whole call of a worker, from asking for a connection to the answer."""

    def __init__(self, dsn: str, schema: str, pool_size: int, deadline: float = DEADLINE) -> None:
        self.address: Final = url.read(dsn)
        self.schema: Final = schemas.check_schema_name(schema)
        self.deadline: Final = min(deadline, DEADLINE)
        self._pool_size = pool_size
        self._pool: Pool | None = None
        self._thrifty = False
        self._rehearsal: Callable[[Any], Awaitable[None]] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._loans = asyncio.Semaphore(max(pool_size - SPARE, 1))
        self._settings: Any = None
        self.pooling: Pooling = Pooling.NONE
        self.fit: Fit = Fit()
        self.must_adopt: bool = False
        """True if the server refused something because it was not adopted yet: the next call adopts it."""

    @property
    def pooled(self) -> bool:
        """Return whether each transaction may be another session's: nothing lasts from one to the next
        then."""
        return self.pooling is Pooling.TRANSACTION

    @property
    def standby(self) -> bool:
        """Return whether the session that was used last is one of a standby."""
        return bool(getattr(self._settings, "in_hot_standby", "off") == "on")

    @property
    def read_only(self) -> str | None:
        """Why nothing can be written, as the session said that was used last; None where it can."""
        if self.standby:
            return "this is a read-only standby: it shows what the primary has sent it, and changes nothing"
        if getattr(self._settings, "default_transaction_read_only", "off") == "on":
            return "this database can only be read here: default_transaction_read_only is on for this session"
        return None

    async def connect(self) -> Any:
        """One connection outside the pool, for migrating and listening."""
        with translated():
            return await self._connect(statement_cache_size=0)

    async def _connect(self, **options: Any) -> Any:
        """Settings of a session are sent with the first message. A pooler would refuse most of them; where it
        lends the session for good they are set afterwards."""
        sent = (
            NAME
            if self._pool is None or self.pooling is not Pooling.NONE
            else {**SETTINGS, **KEEPALIVES, **NAME}
        )
        connection = await connect(self.address, sent, self.deadline, command_timeout=DEADLINE, **options)
        if self.pooling is Pooling.SESSION:
            wanted = {name: value for name, value in SETTINGS.items() if not self.address.sets(name)}
            await connection.execute(";".join(f"SET {name} = '{value}'" for name, value in wanted.items()))
        return connection

    async def open(self) -> None:
        """Check the schema, find out whether there is a pooler in between, and open the pool."""
        if self._pool is not None:
            return
        self.pooling = Pooling.NONE
        connection = await self.connect()
        try:
            with translated():
                self.pooling = await pooling_of(connection, self.connect)
                await schemas.check(connection, self.schema)
                self._settings = connection.get_settings()
                self.fit = Fit(self._settings.server_encoding)
                await connection.close(timeout=self.deadline)
        finally:
            connection.terminate()

        self._pool = Pool(self._connect_for_calls, self._pool_size)
        self.share(self._thrifty)
        self.rehearse(self._rehearsal)

    def share(self, thrifty: bool = True) -> None:
        """Return whether this process is one of many of a worker, which should leave connections to the
        others."""
        self._thrifty = thrifty
        if self._pool is not None:
            self._pool.patience = THRIFTY if thrifty else PATIENCE

    def rehearse(self, rehearsal: Callable[[Any], Awaitable[None]] | None) -> None:
        """Set the rehearsal of new connections that nobody waits for."""
        self._rehearsal = rehearsal
        if self._pool is not None:
            self._pool.rehearse = rehearsal

    async def _connect_for_calls(self) -> Any:
        return await self._connect(statement_cache_size=0 if self.pooled else 100)

    async def close(self) -> None:
        """Close the pool; connections that do not answer are cut after a moment."""
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(CLOSE):
                    await asyncio.gather(*self._leaving, return_exceptions=True)
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    @asynccontextmanager
    async def connection(self, within: float | None = None) -> AsyncIterator[Any]:
        """A connection from the pool, for a block that must end `within` so many seconds, whatever the
        network does. Without a number, each statement has its own deadline.

        Where no answer came in time, the connection is closed at once, and so are the idle ones: whatever
        swallowed the answer may have cut them off, too [fault 9]. An orderly close would have to wait until
        the server confirms a cancellation."""
        pool = self._opened()
        with translated(self._late(), self.address.place):
            async with asyncio.timeout(within) as timing:
                if self.must_adopt:
                    await self.adopt()
                connection = await _taken(pool)
                self._settings = connection.get_settings()
                left = False
                try:
                    yield connection
                except asyncpg.PostgresError as error:
                    # A standby cannot be adopted, nor asked for its epoch: so that is what it may say first.
                    if error.sqlstate == READ_ONLY or (self.standby and error.sqlstate in NO_EPOCH):
                        connection.terminate()  # there may be a primary by now, here or elsewhere
                        pool.cut_idle()
                        raise StoreReadOnly(self._refusal()) from None
                    self.must_adopt |= error.sqlstate == NOT_ADOPTED
                    raise
                except asyncpg.InternalClientError:
                    connection.terminate()  # the driver has lost track of it, see `errors`
                    raise
                except TimeoutError:
                    connection.terminate()
                    pool.cut_idle()
                    raise
                except asyncio.CancelledError:
                    left = not timing.expired()
                    if not left:
                        connection.terminate()  # it is in the middle of a statement
                        pool.cut_idle()
                    raise
                finally:
                    if left:
                        self._call_off(pool, connection)
                    else:
                        pool.give(connection)

    async def adopt(self) -> None:
        """Begin a new epoch where the server was promoted, restored or has recovered [S3]. A role that may
        not do so leaves it to the workers. It only tries for locks that a worker may hold while it waits for
        another, so it may take several attempts."""
        self.must_adopt = False
        for left in reversed(range(ADOPT_TRIES)):
            try:
                async with self.connection() as connection:
                    why = await connection.fetchval(schemas.call("must_adopt", 0, self.schema))
                    if why is None:
                        return
                    again = await connection.fetchval(schemas.call("adopt", 1, self.schema), False)
            except (StoreForbidden, StoreReadOnly):
                return
            except StoreUnavailable:
                if not left:
                    raise
                await asyncio.sleep(ADOPT_PAUSE)
            else:
                level = logging.INFO if why == "copy" and not again else logging.WARNING
                message = plural(again, "job is", "jobs are")
                logger.log(level, "the store begins a new epoch after a %s; %s offered again", why, message)
                return

    @asynccontextmanager
    async def moment(self) -> AsyncIterator[Any]:
        """A connection from the pool whose statements share one snapshot: with one each, a job that moves
        from one table to another between two statements would be in neither [S5]. Keep the block short: while
        it lasts, the server cannot remove dead rows that the snapshot sees."""
        async with self.connection() as connection:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                yield connection
            except TimeoutError:
                raise  # it is cut off
            except Exception:
                await connection.execute("ROLLBACK")
                raise
            await connection.execute("COMMIT")

    def _late(self) -> str:
        """The message where no answer came in time: behind a pooler, clients wait for a free connection."""
        if self.pooling is Pooling.NONE:
            return LATE
        return f"no answer in time through the pooler; if the server is well, {TOO_SMALL}"

    def _refusal(self) -> str:
        why = self.read_only or "this session can only read"
        if not self.standby:
            return f"{why}; set it off for the role or the database, or in the URL"
        if len(self.address.hosts) > 1 and self.address.wanted in ("any", "prefer-standby"):
            return f"{why}; add target_session_attrs=read-write to the URL to find the primary"
        return f"{why}; write to the primary"

    def _call_off(self, pool: Pool, connection: Any) -> None:
        """The caller was cancelled: cancel the statement on the server, too, so that it does not go on
        waiting for a lock for nobody. The caller does not wait for that."""

        async def release() -> None:
            try:  # either waits until the server has confirmed that it was cancelled
                in_transaction = connection.is_in_transaction()
                await connection.execute("ROLLBACK" if in_transaction else "SELECT", timeout=CALL_OFF)
            except GONE:
                connection.terminate()  # the server finds out by itself
            finally:
                pool.give(connection)

        task = asyncio.create_task(release())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Any]:
        """A connection for a handler's block: what the block raises stays as it is. Whoever keeps it longer
        finds that it works no more, since calls of ours use it then."""
        pool = self._opened()
        async with self._loans:
            with translated():
                connection = await _taken(pool, lend=True)
            loan = Loan(connection)
            try:
                yield loan
            except asyncio.CancelledError:
                connection.terminate()  # it may be in the middle of a statement
                raise
            finally:
                loan.end()
                pool.give(connection)

    def pool(self) -> tuple[int, int]:
        """How many connections the pool holds, and how many of them are idle."""
        pool = self._opened()
        return pool.size, pool.idle

    def _opened(self) -> Pool:
        if self._pool is None:
            raise StoreUnavailable("the store is not open; call `await store.open()` first")
        return self._pool

    async def call(self, function: str, *args: Any) -> Any:
        """Call one of the schema's functions: the row it returns."""
        async with self.connection(self.deadline) as connection:
            return await connection.fetchrow(schemas.call(function, len(args), self.schema), *args)

    async def value(self, function: str, *args: Any) -> Any:
        """Call one of the schema's functions: the value it returns."""
        async with self.connection(self.deadline) as connection:
            return await connection.fetchval(schemas.call(function, len(args), self.schema), *args)

    async def rows(self, function: str, *args: Any) -> list[Any]:
        """Call one of the schema's functions: all rows it returns."""
        async with self.connection(self.deadline) as connection:
            rows: list[Any] = await connection.fetch(schemas.call(function, len(args), self.schema), *args)
            return rows

    async def query(self, name: str, *args: Any) -> list[Any]:
        """The rows of a named statement."""
        async with self.connection(self.deadline) as connection:
            rows: list[Any] = await connection.fetch(schemas.query(name, self.schema), *args)
            return rows
