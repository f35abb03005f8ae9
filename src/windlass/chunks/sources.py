"""Where the bytes of a file come from: a local path, a URL through fsspec, or an object of the user's.

A `Source` is opened into a `Stream`, which reads forward in steps, can be told to go on elsewhere where its
source allows that, and carries a **stamp**: what was known of the file when it was opened (size, and time of
change or etag). Parts are cut for one stamp, so a file with another one is not the file that was split.

An object of the user's needs two things, and may have a third:

    size        bytes, or None where that is not known; an attribute, or a method without arguments
    read(start, length) -> bytes      up to length bytes from there on; none at or behind the end
    etag        a text that changes with the content (optional, attribute or method)
"""

from __future__ import annotations

import importlib
import io
import os
import re
import stat
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from windlass.core.counts import plural
from windlass.errors import ConfigurationError

SECRETS: Final = re.compile(r"(?<=://)[^/@]*@|\?.*")
"""User and password of a URL, and its query, which may be a signature."""
STAMPS_OF_INFO: Final = ("ETag", "etag", "md5Hash", "mtime", "LastModified")
"""Names that file systems of fsspec give the thing that changes with a file; the first that is there
counts."""


class Stamp(msgspec.Struct, frozen=True):
    """The mark that tells a file from a later one of the same name. All None: nothing is known, as of a
    pipe."""

    size: int | None = None
    mtime_ns: int | None = None
    etag: str | None = None


class Stream(Protocol):
    """Bytes from front to back."""

    @property
    def stamp(self) -> Stamp:
        """Return the stamp of what is being read."""

    @property
    def seekable(self) -> bool:
        """Return whether `seek` works."""

    def seek(self, offset: int) -> None:
        """Go on from this byte of the file."""

    def read(self, length: int) -> bytes:
        """The next bytes: at least one, at most `length`; none at the end."""

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""


class Source(Protocol):
    """Something that can be opened for reading, any number of times."""

    @property
    def name(self) -> str:
        """For messages."""

    def stamp(self) -> Stamp:
        """Return the stamp of the file as it is now. Raises FileNotFoundError where there is none."""

    def open(self) -> Stream:
        """Open the file at its start."""


class FileStream:
    """A stream over a binary file object."""

    def __init__(self, file: Any, stamp: Stamp, *, seekable: bool) -> None:
        self.stamp = stamp
        self.seekable = seekable
        self._file = file
        self.read: Final = file.read

    def seek(self, offset: int) -> None:
        """Go on from this byte of the file."""
        self._file.seek(offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class LocalFile:
    """A file of this machine. What is not a regular file, such as a pipe, has no size and is read once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name: Final = os.fspath(path)

    def stamp(self) -> Stamp:
        """Size and time of change."""
        return self._stamp(os.stat(self.name))

    def open(self) -> FileStream:
        """Open the file. The stamp is of what was opened, whatever the name means by then."""
        file = io.FileIO(self.name)
        stamp = self._stamp(os.fstat(file.fileno()))
        return FileStream(file, stamp, seekable=stamp.size is not None)

    def _stamp(self, found: os.stat_result) -> Stamp:
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(f"{self.name} is a directory; enqueue one job for each file in it")
        return Stamp(found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else Stamp()


class RemoteFile:
    """A file behind a URL, read through fsspec."""

    def __init__(self, url: str) -> None:
        # Messages end up in logs and pages, so what may be a secret stays out of them.
        self.name: Final = SECRETS.sub("", url)
        try:
            fsspec = importlib.import_module("fsspec")
        except ImportError as error:
            raise ConfigurationError(
                f"reading {self.name} needs fsspec: pip install 'windlass[fsspec]', with the package of the "
                "file system if it has one (s3fs, gcsfs, …)"
            ) from error
        self._system, self._path = fsspec.core.url_to_fs(url)

    def stamp(self) -> Stamp:
        """Size and etag, as far as the file system tells them."""
        # Listings are cached by fsspec for good, and a cached one would hide that the file has changed.
        self._system.invalidate_cache(self._path)
        info = self._system.info(self._path)
        if info.get("type") == "directory":
            raise IsADirectoryError(f"{self.name} is a directory; enqueue one job for each file in it")
        marks = (str(info[key]) for key in STAMPS_OF_INFO if info.get(key) is not None)
        return Stamp(info.get("size"), etag=next(marks, None))

    def open(self) -> FileStream:
        """Open the file; fsspec reads ahead as suits the file system."""
        stamp = self.stamp()
        return FileStream(self._system.open(self._path, "rb"), stamp, seekable=stamp.size is not None)


class RangedSource:
    """An object of the user's with `size` and `read(start, length)`."""

    def __init__(self, origin: Any) -> None:
        self._origin = origin
        self.name: Final = str(getattr(origin, "name", None) or type(origin).__qualname__)

    def stamp(self) -> Stamp:
        """Size and etag, as the object tells them."""
        size, etag = self._stat("size"), self._stat("etag")
        if size is not None and (type(size) is not int or size < 0):
            raise ConfigurationError(
                f"{self.name}: its size is {size!r}; it must be a number of bytes, or None"
            )
        return Stamp(size, etag=None if etag is None else str(etag))

    def open(self) -> RangedStream:
        """Begin at byte 0."""
        return RangedStream(self._origin, self.name, self.stamp())

    def _stat(self, what: str) -> Any:
        value = getattr(self._origin, what, None)
        return value() if callable(value) else value


class RangedStream:
    """A stream over an object that reads ranges."""

    seekable = True

    def __init__(self, origin: Any, name: str, stamp: Stamp) -> None:
        self.stamp = stamp
        self._origin = origin
        self._name = name
        self._position = 0

    def seek(self, offset: int) -> None:
        """Go on from this byte."""
        self._position = offset

    def read(self, length: int) -> bytes:
        """The next bytes. Past a known size none are asked for: object stores answer that with an error."""
        size = self.stamp.size
        if size is not None:
            length = min(length, size - self._position)
        if length <= 0:
            return b""
        found = bytes(self._origin.read(self._position, length))
        if len(found) > length:
            raise ConfigurationError(
                f"{self._name}: read({self._position}, {length}) gave {plural(len(found), 'byte')}; it may "
                "give fewer than asked for, never more"
            )
        self._position += len(found)
        return found

    def close(self) -> None:
        """The object stays with its owner."""


Origin: TypeAlias = str | os.PathLike[str] | Any
"""A path, a URL, or an object with `size` and `read(start, length)`."""


def source(origin: Origin) -> Source:
    """Where to read this from. Raises ConfigurationError for what is nothing to read."""
    if isinstance(origin, str) and "://" in origin:
        return RemoteFile(origin)
    if isinstance(origin, str | os.PathLike):
        return LocalFile(origin)
    if hasattr(origin, "size") and callable(getattr(origin, "read", None)):
        return RangedSource(origin)
    raise ConfigurationError(
        f"{origin!r} is nothing to read lines from: give a path, a URL, or an object with `size` and "
        "`read(start, length)`"
    )
