"""Transactions of users: a handler's own writes and the outcome or progress of its job in one commit [C5],
and enqueues and checkpoints in a caller's own transaction [E1] [P6].

A handler works on a connection of its own, opened for it and closed behind it (that costs an eighth of a
millisecond), since the writer's belongs to the writer's thread. Waiting for the write lock must not stop the
event loop, so `BEGIN IMMEDIATE` is tried again and again between naps of the loop. That ends: whoever holds
the lock, the store's own writer included, works in another thread or process and commits without our help.

From then on the handler holds the one write lock of the file. Until its block has ended, every other write to
this file waits for it, the store's own and its heartbeats included, and fails with StoreUnavailable after the
busy time-out. So the block must be short: compute first, then write. Within it, enqueue with `connection=`;
without it the call would wait for a lock that its own caller holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import apsw

from windlass.errors import ConfigurationError
from windlass.store.sqlite.connections.connection import MEMORY, BusyHandler, OpenedFile, connect
from windlass.store.sqlite.connections.errors import translate
from windlass.store.sqlite.connections.threads import leave_untouched, watch_forks
from windlass.store.sqlite.connections.writer import Run

T = TypeVar("T")


class UserTransactions:
    """The connections that handlers work on at the moment."""

    def __init__(self, file: OpenedFile, busy_timeout: float, run: Run, notify: Callable[[], None]) -> None:
        self._file = file
        self._busy_timeout = busy_timeout
        self._run = run
        self._notify = notify
        self._open: set[apsw.Connection] = set()
        self._inside: list[asyncio.Task[Any] | None] = []
        self._inherited = False
        watch_forks(self)

    @contextlib.asynccontextmanager
    async def begin(self) -> AsyncIterator[apsw.Connection]:
        """A connection inside a write transaction, which is rolled back unless it was committed."""
        self.check()
        connection = self._connect()
        self._open.add(connection)
        task = asyncio.current_task()
        self._inside.append(task)
        try:
            await self._lock(connection)
            yield connection
        finally:
            self._inside.remove(task)
            if not self._inherited:
                self._open.discard(connection)
                connection.close(True)  # undoes what was not committed

    def _connect(self) -> apsw.Connection:
        if self._file.path == MEMORY:
            raise ConfigurationError(
                "a database in memory has no transaction for a handler to work in: use an SQLite file or "
                "PostgreSQL, in a test app.testing(database=URL) or @pytest.mark.windlass(database=True)"
            )
        self._file.check()
        try:
            connection = connect(self._file.path, self._busy_timeout)
            # The writer's thread copies the WAL into the file; here that would stop the event loop.
            connection.execute("PRAGMA wal_autocheckpoint = 0")
        except apsw.Error as error:
            raise translate(error, self._file.path) from error
        return connection

    async def _lock(self, connection: apsw.Connection) -> None:
        connection.set_busy_handler(None)
        deadline = time.monotonic() + self._busy_timeout
        while not connection.in_transaction:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except apsw.BusyError as error:
                if time.monotonic() >= deadline:
                    raise translate(error, self._file.path) from error
                await asyncio.sleep(random.uniform(0.0005, 0.003))
            except apsw.Error as error:
                raise translate(error, self._file.path) from error
        connection.set_busy_handler(BusyHandler(self._busy_timeout))

    def commit(self, connection: apsw.Connection, job: int, write: Callable[[Any], object]) -> None:
        """Write the outcome of a job, or its checkpoint, and commit. Nothing is awaited between the two, so
        no cancel can part them."""
        if not connection.in_transaction:
            raise ConfigurationError(
                f"the transaction of job {job} was ended inside its block, before its outcome or checkpoint "
                "was written: leave BEGIN, COMMIT and ROLLBACK to Windlass, and raise to roll back"
            )
        try:
            self._run(connection, write)
            connection.execute("COMMIT")
        except apsw.Error as error:
            raise translate(error, self._file.path) from error
        self._notify()  # also for what the handler enqueued

    def join(self, connection: Any, work: Callable[[Any], T]) -> T:
        """Run an operation in the caller's own transaction, on the caller's thread."""
        joined = self._joinable(connection)
        try:
            with joined:  # a savepoint within the caller's transaction
                answer, _ = self._run(joined, work)
        except apsw.Error as error:
            raise translate(error, self._file.path) from error
        return answer  # type: ignore[no-any-return]

    def _joinable(self, connection: Any) -> apsw.Connection:
        """The caller's connection, if its transaction can be joined.

        Only apsw will do: the `sqlite3` module brings a second SQLite into the process, and two of them on
        one file break each other's locks."""
        if self._file.path == MEMORY:
            raise ConfigurationError(
                "a database in memory has no transaction to join: leave out connection=, or use a file"
            )
        if not isinstance(connection, apsw.Connection):
            raise ConfigurationError(
                f"connection= is a {type(connection).__module__}.{type(connection).__qualname__}: the SQLite "
                "store can only join the transaction of an apsw.Connection to its own file"
            )
        mine, theirs = os.path.realpath(self._file.path), os.path.realpath(connection.filename)
        if mine != theirs:
            raise ConfigurationError(f"connection= is open on {theirs}, and the store on {mine}")
        if not connection.in_transaction:
            raise ConfigurationError("connection= is not in a transaction: execute BEGIN IMMEDIATE first")
        return connection

    def refuse_inside(self) -> None:
        """Raise where a write would wait for the very transaction that it is called in."""
        if self._inside and asyncio.current_task() in self._inside:
            raise ConfigurationError(
                "this is called inside a transaction on the file that it writes to, and would wait for its "
                "end: enqueue with .using(connection=connection), or do it after the block"
            )

    # -- forks: see `threads` ------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise where a connection came across a fork."""
        if self._inherited:
            raise ConfigurationError(
                f"this process was forked inside a transaction on {self._file.path}. SQLite cannot be used "
                "here: fork after the block has ended"
            )

    def before_fork(self) -> None:
        """A handler is at work on each of these: nothing can be closed."""

    def after_fork_in_parent(self) -> None:
        """Nothing was closed."""

    def after_fork_in_child(self) -> None:
        """A connection that came across must stay untouched for ever."""
        for connection in self._open:
            leave_untouched(connection)
            self._inherited = True
