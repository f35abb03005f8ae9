"""Which file a path leads to. A file that is renamed, removed or replaced stays open for whoever has opened
it, and takes their writes, which nobody will ever find again: so it is looked at before each of them. (SQLite
itself looks only where it keeps a rollback journal, and when it closes: then it leaves a WAL that is not its
own alone.)"""

from __future__ import annotations

import os

from windlass.errors import StoreUnavailable


class Place:
    """A path, and the file that it led to when it was first opened."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: tuple[int, int] | None = None

    def note(self) -> None:
        """The file has been opened: from now on it must be that one."""
        if self._file is None:
            self._file = self._found()

    def forget(self) -> None:
        """The store was closed: whatever is there when it is opened again will do."""
        self._file = None

    def check(self) -> None:
        """Raise StoreUnavailable where the path leads elsewhere by now, or nowhere."""
        if self._file is not None and (found := self._found()) != self._file:
            told = (
                "is not there any more" if found is None else "is another file than the one that was opened"
            )
            raise StoreUnavailable(
                f"{self.path} {told}: it was renamed, removed or replaced under this process; nothing was "
                "written. Put it back, or restart this process to use what is there now"
            )

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino
