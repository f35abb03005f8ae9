"""Opening a file: the settings every connection needs, the check of the SQLite version behind it, and the
check that a path still leads to the file that was opened."""

from __future__ import annotations

import os
import random
import time
import warnings
from typing import Final

import apsw

from windlass.errors import ConfigurationError, StoreUnavailable

MEMORY: Final = ":memory:"
"""The path of a database in memory, for tests; see `memory`."""

NEEDED: Final = (3, 51, 3)
"""The first SQLite without the WAL-reset bug, which could corrupt a file written by several processes."""

CHECKPOINT_PAGES: Final = 4000
"""How long the WAL grows before it is copied into the file: 16 MB. Hot pages are then copied once per many
commits; the default of 1000 costs a third of the claim rate."""

WAL_KEPT: Final = 64 * 1024 * 1024
"""The size, in bytes, that a WAL which a long reader made large is cut to, once the reader has gone."""


class LockWaits:
    """How often this process had to wait for the write of another one."""

    def __init__(self) -> None:
        self.n: int = 0


def connect(
    path: str, busy_timeout: float, *, reading: bool = False, waits: LockWaits | None = None
) -> apsw.Connection:
    """Open a connection: WAL, every commit synced to the disk, waiting for other processes up to a limit."""
    if path == "" or path.startswith("file:"):
        raise ConfigurationError(
            f"the SQLite store needs a plain file path, or :memory: for a test, not {path!r}"
        )
    connection = apsw.Connection(path, statementcachesize=200)
    try:
        # Plans must not hang on the values of a call: SQLite would prepare a statement anew whenever a value
        # changes that might make another index worth while, which takes ten times as long as to run it.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.set_busy_handler(BusyHandler(busy_timeout, waits))
        _enter_wal(connection, busy_timeout)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA temp_store = MEMORY")  # savepoints keep old pages there
        connection.execute("PRAGMA cache_size = -32000")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT}")
        if reading:
            connection.execute("PRAGMA query_only = 1")
    except BaseException:
        connection.close()
        raise
    return connection


class BusyHandler:
    """Waits for the lock of another process, with short pauses all along. SQLite's own busy time-out pauses
    longer and longer, up to 100 ms, and so loses the lock again and again to those that came later."""

    def __init__(self, timeout: float, waits: LockWaits | None = None) -> None:
        self._timeout = timeout
        self._waits = waits or LockWaits()
        self._until = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._until = now + self._timeout
            self._waits.n += 1
        if now >= self._until:
            return False
        time.sleep(random.uniform(0.0005, 0.003))
        return True


def _enter_wal(connection: apsw.Connection, busy_timeout: float) -> None:
    """Switch a new file to WAL. SQLite does not wait for a process that does the same, so this loop does."""
    deadline = time.monotonic() + busy_timeout
    mode = None
    while mode is None:
        try:
            mode = connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise ConfigurationError(
            f"{connection.filename} cannot use write-ahead logging (mode {mode!r}): put it on a local disk"
        )


def is_safe(version: str) -> bool:
    """Return whether this SQLite may write a file beside other processes."""
    return tuple(int(part) for part in version.split(".")[:3]) >= NEEDED


def needed() -> str:
    """The oldest safe version, in words."""
    return ".".join(map(str, NEEDED))


def check_version(version: str) -> None:
    """Warn where the linked SQLite is older than the one that is safe with several processes."""
    if not is_safe(version):
        warnings.warn(
            f"SQLite {version} can corrupt a file in WAL mode that several processes write; Windlass needs "
            f"{needed()} or newer. Install the apsw wheel, which brings its own SQLite: "
            "pip install --upgrade --force-reinstall apsw",
            RuntimeWarning,
            stacklevel=2,
        )


class OpenedFile:
    """A path, and the file that it led to when it was first opened.

    A file that is renamed, removed or replaced stays open for whoever has opened it, and takes their writes,
    which nobody will ever find again: so it is checked before each of them. (SQLite itself checks only where
    it keeps a rollback journal, and when it closes: then it leaves a WAL that is not its own alone.)"""

    def __init__(self, path: str) -> None:
        self.path = path
        self._opened: tuple[int, int] | None = None

    def opened(self) -> None:
        """From now on the path must lead to the file that is there now."""
        if self._opened is None:
            self._opened = self._found()

    def closed(self) -> None:
        """Note that it is closed: whatever is there when the path is opened again will do."""
        self._opened = None

    def check(self) -> None:
        """Raise StoreUnavailable where the path leads elsewhere by now, or nowhere."""
        if self._opened is not None and (found := self._found()) != self._opened:
            what = (
                "is not there any more" if found is None else "is another file than the one that was opened"
            )
            raise StoreUnavailable(
                f"{self.path} {what}: it was renamed, removed or replaced under this process; nothing was "
                "written. Put it back, or restart this process to use what is there now"
            )

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino
