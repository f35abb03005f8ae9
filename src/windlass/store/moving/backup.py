"""A backup of a file in use: a copy that opens as a store of its own, at rest.

SQLite's backup API copies page by page inside one read transaction: so it is one moment of the file, nobody's
write waits for it, and how far it is can be shown. (`VACUUM INTO` builds every table and index anew and says
nothing until its end.) The WAL grows meanwhile, since what the copy still reads must stay.

In the copy no worker is alive: those of the original work on the original. What they ran is offered again,
uncharged, as after a restore elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable
from typing import Final

import apsw
import msgspec

from windlass.errors import ConfigurationError, StoreCorrupt, StoreError
from windlass.store.sqlite.connections.connection import MEMORY, connect
from windlass.store.sqlite.connections.errors import translate
from windlass.store.sqlite.store import SQLiteStore

STEP: Final = 1000
"""Pages between two looks at the progress: 4 MB."""
_BUSY: Final = 10.0


class Backup(msgspec.Struct, frozen=True):
    """The result of a backup."""

    file: str
    bytes: int
    workers: int
    """How many were alive in the original and are not in the copy."""
    offered_again: int
    """Jobs that were running, and are ready in the copy."""


def back_up(
    source: str, file: str, *, force: bool = False, progress: Callable[[int, int], None] | None = None
) -> Backup:
    """Copy the store at `source` to `file`, which appears when it is whole. `progress` is told the pages done
    and in all. Not for a running event loop."""
    _refuse(source, file, force)
    with _private_folder(file) as folder:
        part = os.path.join(folder, "part")
        _copy_pages(source, part, progress)
        workers, offered = asyncio.run(_put_to_rest(part))
        _check(part)
        _give_rights(source, part)
        _sync(part)
        if not force and os.path.lexists(file):
            raise ConfigurationError(_exists(file))
        os.replace(part, file)
    _sync(os.path.dirname(os.path.abspath(file)))
    return Backup(file, os.path.getsize(file), workers, offered)


def _private_folder(file: str) -> tempfile.TemporaryDirectory[str]:
    """Make a folder beside the file which nobody else can look or put anything into."""
    folder, name = os.path.split(os.path.abspath(file))
    try:
        return tempfile.TemporaryDirectory(prefix=f"{name}.part-", dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}; name another file") from error


def _give_rights(source: str, part: str) -> None:
    """Let those read and write the copy who may do so with the original. Its group is let in only where the
    copy can have the same one."""
    original = os.stat(source)
    with contextlib.suppress(PermissionError):  # not in that group
        os.chown(part, -1, original.st_gid)
    foreign = 0o070 if os.stat(part).st_gid != original.st_gid else 0
    os.chmod(part, original.st_mode & 0o777 & ~foreign)


def _refuse(source: str, file: str, force: bool) -> None:
    if source == MEMORY:
        raise ConfigurationError("jobs in memory have no file to back up: use sqlite:///path")
    if not os.path.isdir(folder := os.path.dirname(os.path.abspath(file))):
        raise ConfigurationError(f"{file} cannot be written: make the folder {folder}, or name another file")
    if os.path.exists(file) and os.path.samefile(source, file):
        raise ConfigurationError(f"{file} is the store itself: name another file for the backup")
    if os.path.lexists(f"{file}-wal"):
        raise ConfigurationError(
            f"{file}-wal is there: a process has {file} open, or died with it. Write the backup to another "
            "file, or stop that process and remove both files"
        )
    if os.path.lexists(file) and not force:
        raise ConfigurationError(_exists(file))


def _exists(file: str) -> str:
    return f"{file} is there already: name another file, or add --force to replace it"


def _copy_pages(source: str, part: str, progress: Callable[[int, int], None] | None) -> None:
    at = source
    try:
        with contextlib.closing(connect(source, _BUSY, reading=True)) as original:
            # One snapshot for all steps: else each commit of another process would begin the copy anew.
            original.execute("BEGIN; SELECT count(*) FROM sqlite_schema")
            at = part  # what is only read is not full, nor write-protected
            with (
                contextlib.closing(apsw.Connection(part)) as copy,
                copy.backup("main", original, "main") as backup,
            ):
                while not backup.done:
                    backup.step(STEP)
                    if progress is not None:
                        progress(backup.page_count - backup.remaining, backup.page_count)
    except apsw.Error as error:
        raise translate(error, source if isinstance(error, apsw.CorruptError) else at) from error
    except OSError as error:
        raise StoreError(f"{part} cannot be written: {error}") from error


async def _put_to_rest(part: str) -> tuple[int, int]:
    """Retire the original's workers in the copy; how many there were, and what they ran."""
    store = SQLiteStore(part)
    await store.open()
    try:
        alive = await store.workers()
        return len(alive), sum([await store.retire(worker.id) for worker in alive])
    finally:
        await store.close()


def _check(part: str) -> None:
    with contextlib.closing(apsw.Connection(part)) as copy:
        found = [row[0] for row in copy.execute("PRAGMA integrity_check(3)")]
    if found != ["ok"]:
        raise StoreCorrupt(
            f"the backup does not pass SQLite's integrity_check ({'; '.join(map(str, found))}), so it was "
            "removed. Check the original in the same way, and its disk"
        )


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
