"""Joint transactions: a handler's own writes and the outcome or progress of its job in one commit [C5], and
enqueues and checkpoints in a caller's own transaction [E1] [P6].

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
import ctypes
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import apsw

from windlass.errors import ClaimLost, ConfigurationError
from windlass.store.records import ClaimedJob, Outcome
from windlass.store.sqlite import fork
from windlass.store.sqlite.connection import Patience, connect
from windlass.store.sqlite.finish import finish
from windlass.store.sqlite.place import Place
from windlass.store.sqlite.settle import complete
from windlass.store.sqlite.transaction import Transaction
from windlass.store.sqlite.trouble import translate

T = TypeVar("T")


def end(tx: Transaction, worker: int, flush: int, outcome: Outcome) -> None:
    """Write the outcome of a handler's own transaction. Raises ClaimLost [C5]."""
    finished = finish(tx, worker, flush, [outcome])
    if finished.applied != 1:  # a flush sent before has committed its data then, and once is enough
        raise ClaimLost(
            f"job {outcome.job.id} is not, or no longer, running under claim {outcome.job.claim}; "
            "nothing of its transaction was kept"
        )


class Joint:
    """The connections that handlers work on at the moment."""

    def __init__(self, place: Place, busy_timeout: float) -> None:
        self._place = place
        self._path = place.path
        self._busy_timeout = busy_timeout
        self._open: set[apsw.Connection] = set()
        self._inside: list[asyncio.Task[Any] | None] = []
        self._inherited = False
        fork.watch(self)

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
        self._place.check()
        try:
            connection = connect(self._path, self._busy_timeout)
            # The writer's thread copies the WAL into the file; here that would stop the event loop.
            connection.execute("PRAGMA wal_autocheckpoint = 0")
        except apsw.Error as error:
            raise translate(error, self._path) from error
        return connection

    async def _lock(self, connection: apsw.Connection) -> None:
        connection.set_busy_handler(None)
        deadline = time.monotonic() + self._busy_timeout
        while not connection.in_transaction:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except apsw.BusyError as error:
                if time.monotonic() >= deadline:
                    raise translate(error, self._path) from error
                await asyncio.sleep(random.uniform(0.0005, 0.003))
            except apsw.Error as error:
                raise translate(error, self._path) from error
        connection.set_busy_handler(Patience(self._busy_timeout))

    def commit(self, tx: Transaction, job: ClaimedJob, write: Callable[[Transaction], object]) -> None:
        """Write the outcome, or the checkpoint, and commit. Nothing is awaited between the two, so no cancel
        can part them."""
        connection = tx.connection
        if not connection.in_transaction:
            raise ConfigurationError(
                f"the transaction of job {job.id} was ended inside its block, without what the job has to "
                "say: leave BEGIN, COMMIT and ROLLBACK to Windlass, and raise to roll back"
            )
        try:
            write(tx)
            complete(tx)
            connection.execute("COMMIT")
        except apsw.Error as error:
            raise translate(error, self._path) from error

    def within(self, tx: Transaction, work: Callable[[Transaction], T]) -> T:
        """Do something in the caller's own transaction, on the caller's thread."""
        try:
            with tx.connection:  # a savepoint within the caller's transaction
                answer = work(tx)
                complete(tx)
        except apsw.Error as error:
            raise translate(error, self._path) from error
        return answer

    def theirs(self, connection: Any) -> apsw.Connection:
        """The caller's connection, if its transaction can be joined.

        Only apsw will do: the `sqlite3` module brings a second SQLite into the process, and two of them on
        one file break each other's locks."""
        if not isinstance(connection, apsw.Connection):
            raise ConfigurationError(
                f"connection= is a {type(connection).__module__}.{type(connection).__qualname__}: the SQLite "
                "store can only join the transaction of an apsw.Connection to its own file"
            )
        mine, theirs = os.path.realpath(self._path), os.path.realpath(connection.filename)
        if mine != theirs:
            raise ConfigurationError(f"connection= is open on {theirs}, and the store on {mine}")
        if not connection.in_transaction:
            raise ConfigurationError("connection= is not in a transaction: execute BEGIN IMMEDIATE first")
        return connection

    def refuse_within(self) -> None:
        """Raise where a write would wait for the very transaction that it is called in."""
        task = asyncio.current_task()
        if task is not None and task in self._inside:
            raise ConfigurationError(
                "this is called inside a transaction on the file that it writes to, and would wait for its "
                "end: enqueue with .using(connection=connection), or do it after the block"
            )

    # -- forks: see `line` ------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise where a connection came across a fork."""
        if self._inherited:
            raise ConfigurationError(
                f"this process was forked inside a transaction on {self._path}. SQLite cannot be used here: "
                "fork after the block has ended"
            )

    def before_fork(self) -> None:
        """A handler is at work on each of these: nothing can be closed."""

    def after_fork_in_parent(self) -> None:
        """Nothing was closed."""

    def after_fork_in_child(self) -> None:
        """A connection that came across must stay untouched for ever."""
        for connection in self._open:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
            self._inherited = True
