"""A database in memory, for tests: one private connection, used in the thread of whoever calls.

It lives as long as its store, whose `close` keeps it. A fork copies it, and from then on the two differ.
There is no second connection, and so no transaction to lend. Threads, as a file has them, would cost a test
more than what it asks for. So would migrating, and preparing the same statements again: a new database is a
copy of one that was migrated, or an old one that nobody holds any more, emptied.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections import deque
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
KEPT: Final = 4
MAX_PAGES: Final = 1000
"""A database that has grown beyond this is not kept."""


class MemoryDatabase:
    """The connection, and the lock that keeps its users apart."""

    def __init__(self, migrate: Migrate) -> None:
        template = _template(migrate)
        self.connection: Final = template.connection()
        weakref.finalize(self, template.recycle, self.connection).atexit = False
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


class _Template:
    """The content of every new database."""

    def __init__(self, migrate: Migrate) -> None:
        first = _connect()
        migrate(first)
        self._image = first.serialize("main")
        tables = [name for (name,) in first.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows = {name: first.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}  # noqa: S608
        self._empty = [f'DELETE FROM "{name}"' for name in tables]  # noqa: S608
        self._fill = [
            (f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(found[0]))})', found)  # noqa: S608
            for name, found in rows.items()
            if found
        ]
        self._unused: deque[apsw.Connection] = deque(maxlen=KEPT)

    def connection(self) -> apsw.Connection:
        """A connection to a database of its own."""
        try:
            return self._unused.pop()
        except IndexError:
            made = _connect()
            made.deserialize("main", self._image)
            return made

    def recycle(self, connection: apsw.Connection) -> None:
        """Keep the connection of a database that is gone, unless there is something odd about it."""
        with contextlib.suppress(apsw.Error):
            if connection.in_transaction or connection.pragma("page_count") > MAX_PAGES:
                return
            with connection:
                for statement in self._empty:
                    connection.execute(statement)
                for statement, rows in self._fill:
                    connection.executemany(statement, rows)
            self._unused.append(connection)


def _connect() -> apsw.Connection:
    connection = apsw.Connection(MEMORY, statementcachesize=200)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # see `connection`
    return connection


_template = functools.cache(_Template)
