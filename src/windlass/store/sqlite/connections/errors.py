"""SQLite's errors become Windlass's here, and nowhere else."""

from __future__ import annotations

import os

import apsw

from windlass import errors
from windlass.store.sqlite.connections.lock_holder import holder_of

# SQLite reports a disk that cannot take the shared-memory file as an I/O error, not as "full".
_NO_ROOM = frozenset({apsw.SQLITE_IOERR_SHMSIZE})


def translate(error: BaseException, path: str) -> BaseException:
    """Return what a caller should see for an error raised while the store at `path` was at work."""
    if not isinstance(error, apsw.Error):
        return error
    translated = _translated(error, path)
    translated.__cause__ = error
    return translated


def _translated(error: apsw.Error, path: str) -> Exception:  # noqa: PLR0911 - a table, one row per return
    match error:
        case apsw.BusyError() | apsw.LockedError():
            holder = holder_of(path)
            advice = "Try again, and look for a long transaction on this file"
            if holder is not None and holder.stopped:
                advice = f"Let it go on (kill -CONT {holder.pid}), or end it"
            return errors.StoreBusy(
                f"{path} is busy: {holder or 'another process'} has held its write lock for too long; "
                f"nothing was written. {advice}"
            )
        case apsw.FullError():
            return errors.StoreFull(
                f"{path} is full (the disk, or the file's max_page_count); nothing was written. "
                "Make room on the disk, shorten the retention, or raise the limit"
            )
        case apsw.IOError() if getattr(error, "extendedresult", 0) in _NO_ROOM:
            return errors.StoreFull(
                f"{path}-shm cannot grow: the disk is full; nothing was written. Make room"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return errors.StoreCorrupt(
                f"{path} is not a sound SQLite database ({error}): stop all workers and restore a backup, or "
                "save what is left with the sqlite3 shell's .recover"
            )
        case apsw.ConstraintError() if getattr(error, "extendedresult", 0) == apsw.SQLITE_CONSTRAINT_TRIGGER:
            return errors.StoreMoved(f"{path}: {str(error).removeprefix('ConstraintError: ')}")
        case apsw.ConstraintError():
            return errors.StoreCorrupt(f"an invariant of {path} does not hold ({error}); nothing was written")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return errors.ConfigurationError(
                f"{path} cannot be written ({error}): check the rights of file and folder"
            )
        case apsw.CantOpenError() if not os.path.isdir(folder := os.path.dirname(os.path.abspath(path))):
            return errors.ConfigurationError(
                f"{path} cannot be opened: there is no folder {folder}; make it, or give another path in the "
                "database URL (sqlite:///relative.db, sqlite:////absolute/path.db)"
            )
        case apsw.CantOpenError():
            return errors.StoreUnavailable(
                f"{path} cannot be opened: check that its folder may be written, and the limit of open files"
            )
        case apsw.IOError() | apsw.InterruptError() | apsw.ProtocolError():
            return errors.StoreUnavailable(f"{path}: {error}; nothing was written")
        case _:
            return errors.StoreError(f"{path}: {error}")
