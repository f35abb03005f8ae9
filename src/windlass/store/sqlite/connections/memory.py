"""A database in memory, for tests: one private connection, used in the thread of whoever calls.

It lives as long as its store, whose `close` keeps it. A fork copies it, and from then on the two differ.
There is no second connection, and so no transaction to lend. Threads, as a file has them, would cost a test
more than what it asks for. So would migrating: every new database is a copy of one that was migrated.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import apsw

from windlass.store.records import Migration
from windlass.store.sqlite.connections.connection import MEMORY
from windlass.store.sqlite.connections.errors import translate
from windlass.store.sqlite.connections.threads import Shortcut, watch_forks
from windlass.store.sqlite.connections.writer import Run

T = TypeVar("T")
Migrate = Callable[[apsw.Connection], Migration]


class MemoryDatabase:
    """The connection, and the lock that keeps its users apart."""

    def __init__(self, migrate: Migrate) -> None:
        self.connection: Final = _connect()
        self.connection.deserialize("main", _migrated(migrate))
        self.lock: threading.Lock = threading.Lock()
        watch_forks(self)

    def before_fork(self) -> None:
        """Wait for the call under way."""
        self.lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self.lock.release()

    def after_fork_in_child(self) -> None:
        """Go on with the copy: no file and no lock of the operating system is behind it."""
        self.lock = threading.Lock()


class MemoryWriter:
    """Runs each call in a transaction of its own, at once."""

    def __init__(self, database: MemoryDatabase, run: Run, committed: Callable[[], None]) -> None:
        self._database = database
        self._run = run
        self._committed = committed

    async def submit(self, work: Callable[[Any], T], shortcut: Shortcut | None = None) -> T:
        """Do it and return the answer. The shortcut of a file's writer saves nothing here."""
        connection = self._database.connection
        with self._database.lock:
            try:
                with connection:
                    answer, changed = self._run(connection, work)
            except apsw.Error as error:
                raise translate(error, MEMORY) from error
        if changed:
            self._committed()
        return answer  # type: ignore[no-any-return]


class MemoryReader:
    """Runs each call at once."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database

    async def submit(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do it and return the answer."""
        with self._database.lock:
            try:
                return work(self._database.connection)
            except apsw.Error as error:
                raise translate(error, MEMORY) from error


def _connect() -> apsw.Connection:
    connection = apsw.Connection(MEMORY, statementcachesize=200)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # see `connection`
    return connection


@functools.cache
def _migrated(migrate: Migrate) -> bytes:
    """An empty database with the schema in it."""
    connection = _connect()
    migrate(connection)
    return connection.serialize("main")
