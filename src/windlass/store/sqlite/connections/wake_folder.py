"""The folder `<file>-wake` beside a SQLite file, in which the sockets of those who wait are.

Folder and sockets have the group of the file, and can be written by those who may write the file: SQLite does
the same for its `-wal` and `-shm`. A folder that anybody else made or may write is not used, nor is a link.
All that happens in it goes through one descriptor: its name may lead elsewhere by then.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import tempfile
from typing import Final

OPEN_FILES: Final = "/proc/self/fd"
_GROUP: Final = 0o020
_OTHERS: Final = 0o002

logger: Final = logging.getLogger("windlass.store")


class NotTrusted(OSError):
    """The thing under the folder's name is not trusted, and not used."""


class WakeFolder:
    """The folder of one database file, which need not be there."""

    def __init__(self, file: str) -> None:
        self._file = os.path.realpath(file)
        self.path: Final = f"{self._file}-wake"
        self._warned = False

    def open(self) -> int:
        """Return a descriptor of it. Raises FileNotFoundError where it is not there, and NotTrusted, with a
        warning the first time, where strangers may have a hand in it."""
        try:
            opened = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                self._check(os.fstat(opened))
            except BaseException:
                os.close(opened)
                raise
        except FileNotFoundError:
            raise
        except OSError as error:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "%s is not used to wake other processes, which poll instead: %s. Remove it; how users "
                    'share a file is told in the guide on deploying, under "SQLite"',
                    self.path,
                    error.strerror or error,
                )
            raise NotTrusted(str(error)) from error
        return opened

    def make(self) -> None:
        """Make it, if nothing is there. It appears with its owner and rights: nobody finds it half made."""
        if os.path.lexists(self.path):
            return
        made = tempfile.mkdtemp(prefix=f"{os.path.basename(self.path)}-", dir=os.path.dirname(self.path))
        try:
            opened = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if not os.listdir(opened):  # else another folder of ours was put in its place
                    self._share(opened)
            finally:
                os.close(opened)
            os.rename(made, self.path)  # in the place of an empty folder, or of none
        except OSError:
            os.rmdir(made)
            if not os.path.lexists(self.path):
                raise

    def remove(self, name: str) -> None:
        """Remove a socket of this process, and the folder with the last."""
        with contextlib.suppress(OSError):
            opened = self.open()
            try:
                os.unlink(name, dir_fd=opened)
            finally:
                os.close(opened)
            os.rmdir(self.path)

    def share_socket(self, folder: int, name: str) -> None:
        """Let those who may write the file send to a socket that this process has made."""
        opened = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
        try:
            if stat.S_ISSOCK(os.fstat(opened).st_mode):
                self._share(opened)
        finally:
            os.close(opened)

    def _share(self, made: int) -> None:
        """Give what this process made the group of the file, and its owner where root is at work for him; and
        the right to write to those who may write the file."""
        file, reached = os.stat(self._file), f"{OPEN_FILES}/{made}"
        with contextlib.suppress(PermissionError):  # not in that group: then it stays ours alone
            os.chown(reached, file.st_uid if os.geteuid() == 0 else -1, file.st_gid)
        found = os.fstat(made)
        shared = _writers(file, found.st_gid)
        if stat.S_ISDIR(found.st_mode):
            handed_down = stat.S_ISGID if shared & _GROUP else 0  # the group, to the sockets in it
            os.chmod(reached, stat.S_IRWXU | shared << 1 | shared | shared >> 1 | handed_down)
        else:
            os.chmod(reached, stat.S_IRUSR | stat.S_IWUSR | shared)

    def _check(self, found: os.stat_result) -> None:
        """Raise where somebody who may not write the file has made the folder, or may write there."""
        file = os.stat(self._file)
        writers = _writers(file, found.st_gid)
        if found.st_mode & (_GROUP | _OTHERS) & ~writers:
            raise NotTrusted(
                f"more users may write there (mode {stat.S_IMODE(found.st_mode):04o}, group {found.st_gid}) "
                f"than may write the file (mode {stat.S_IMODE(file.st_mode):04o}, group {file.st_gid})"
            )
        if found.st_uid not in (0, os.geteuid(), file.st_uid) and not writers:
            raise NotTrusted(f"user {found.st_uid} made it, who may not write the file")


def _writers(file: os.stat_result, group: int) -> int:
    """Return who may write the file beside its owner, this group and others, as bits of a mode."""
    return file.st_mode & (_OTHERS | (_GROUP if group == file.st_gid else 0))


def is_socket(name: str, folder: int) -> bool:
    """Tell whether there is a socket of that name in the folder, and no link to one."""
    try:
        return stat.S_ISSOCK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
