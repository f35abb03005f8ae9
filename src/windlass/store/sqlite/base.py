"""What the SQLite store stands on: its file, its two lines (one that writes, one that reads), and how work is
handed to them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import TypeVar

import apsw

from windlass.errors import StoreError
from windlass.store.records import Migration
from windlass.store.settings import StoreSettings
from windlass.store.sqlite import schema
from windlass.store.sqlite.connection import check_version, connect
from windlass.store.sqlite.joint import Joint
from windlass.store.sqlite.place import Place
from windlass.store.sqlite.reader import Reader
from windlass.store.sqlite.transaction import Transaction
from windlass.store.sqlite.trouble import translate
from windlass.store.sqlite.wake import Bell
from windlass.store.sqlite.writer import Writer

T = TypeVar("T")
DEFAULTS = StoreSettings()


class Base:
    """A file, open or closed."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: StoreSettings = DEFAULTS,
        clock: Callable[[], float] = time.time,
        *,
        busy_timeout: float = 10.0,
    ) -> None:
        """`busy_timeout` is how many seconds a write waits for another process before StoreUnavailable."""
        self.path = os.fspath(path)
        self._settings = settings
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._bell = Bell()
        self._place = Place(self.path)
        self._joint = Joint(self._place, busy_timeout)
        self._lines: tuple[Writer, Reader] | None = None

    # -- life of the store ------------------------------------------------------------------------------

    @property
    def read_only(self) -> str | None:
        """See Store.read_only: this store is never so."""
        return None

    async def open(self) -> None:
        if self._lines is None:
            check_version(apsw.sqlite_lib_version())
            writer = Writer(
                self._place, self._migrated, self._transaction, self._bell.ring, self._busy_timeout
            )
            self._lines = writer, Reader(self._place, self._connect_reader)
        try:
            await self._write(lambda _: None)
            await self._read(lambda _: None)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        lines, self._lines = self._lines, None
        for line in lines or ():
            await asyncio.to_thread(line.stop)
        self._place.forget()

    async def migrate(self) -> Migration:
        def work() -> Migration:
            try:
                connection = connect(self.path, self._busy_timeout)
                try:
                    return schema.migrate(connection)
                finally:
                    connection.close()
            except apsw.Error as error:
                raise translate(error, self.path) from error

        return await asyncio.to_thread(work)

    def _migrated(self) -> apsw.Connection:
        connection = connect(self.path, self._busy_timeout)
        try:
            schema.migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_reader(self) -> apsw.Connection:
        return connect(self.path, self._busy_timeout, reading=True)

    def _transaction(self, connection: apsw.Connection) -> Transaction:
        return Transaction(connection, self._clock(), self._settings)

    async def _write(
        self, work: Callable[[Transaction], T], alone: Callable[[apsw.Connection], bool] | None = None
    ) -> T:
        writer, _ = self._opened()
        self._joint.refuse_within()
        return await writer.submit(work, alone)  # type: ignore[no-any-return]

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._opened()[1].submit(work)  # type: ignore[no-any-return]

    def _opened(self) -> tuple[Writer, Reader]:
        if self._lines is None:
            raise StoreError(f"the store at {self.path} is not open: await store.open() first")
        self._joint.check()
        return self._lines
