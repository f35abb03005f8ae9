"""Compressed files as streams of what is in them: gzip and zstd, recognised by their first bytes [P2].

An archive is read from front to back; there is no way into its middle. Many members or frames in a row are
one stream, as the tools write them. What ends too early or is damaged raises BadArchive: a dump that was cut
short by a full disk must not pass for a short dump.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

from windlass.core.counts import plural
from windlass.errors import BadArchive, ConfigurationError

if TYPE_CHECKING:
    from windlass.chunks.sources import Stream

Compression = Literal["gzip", "zstd"]

MAGIC: Final = 4
"""How many bytes tell an archive from a plain file."""
GZIP: Final = b"\x1f\x8b\x08"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
SKIPPABLE: Final = b"\x2a\x4d\x18"
"""Bytes 2 to 4 of a frame of zstd that holds no data; some tools write one first."""

STEP: Final = 256 * 1024
"""How much is read at once, and how much gzip gives at once."""
ZSTD_STEP: Final = 2048
"""zstd gives all that a piece of input holds at once, up to 32,768 times its size. So pieces are small, and
memory stays below 64 MiB even for a file that was made to exhaust it."""


def compression(head: bytes) -> Compression | None:
    """How a file that begins with these bytes is compressed; None for a plain one."""
    if head.startswith(GZIP):
        return "gzip"
    if head.startswith(ZSTD) or (head[1:MAGIC] == SKIPPABLE and head[0] & 0xF0 == 0x50):
        return "zstd"
    return None


class Unpacked:
    """The content of an archive, as a stream that goes forward alone."""

    def __init__(self, stream: Stream, head: bytes, kind: Compression, name: str) -> None:
        self.packed: int = 0
        """How many bytes of the archive were read."""
        self._stream = stream
        self._head = head
        self._name = name
        self._contents = self._gunzip() if kind == "gzip" else self._unzstd()
        self._left = memoryview(b"")

    def read(self, length: int) -> bytes:
        """The next bytes: at least one, at most `length`; none at the end."""
        while not self._left:
            found = next(self._contents, None)
            if found is None:
                return b""
            self._left = memoryview(found)
        taken, self._left = bytes(self._left[:length]), self._left[length:]
        return taken

    def _gunzip(self) -> Iterator[bytes]:
        packed = self._pieces(STEP)
        data = next(packed, b"")
        while data:
            member = zlib.decompressobj(wbits=31)
            while not member.eof:
                if not data:
                    raise self._cut_short("gzip")
                try:
                    yield member.decompress(data, STEP)
                except zlib.error as error:
                    raise self._damaged("gzip", error) from error
                data = member.unused_data or member.unconsumed_tail or next(packed, b"")
            # Tapes and some tools pad the end with zeros, which is no member.
            data = data.lstrip(b"\0")
            while not data and (more := next(packed, b"")):
                data = more.lstrip(b"\0")

    def _unzstd(self) -> Iterator[bytes]:
        try:
            import zstandard
        except ImportError as error:
            raise ConfigurationError(
                f"{self._name} is compressed with zstd: pip install 'windlass[zstd]' where workers run"
            ) from error
        packed = self._pieces(ZSTD_STEP)
        data = next(packed, b"")
        while data:
            frame = zstandard.ZstdDecompressor().decompressobj()
            while not frame.eof:
                if not data:
                    raise self._cut_short("zstd")
                try:
                    yield frame.decompress(data)
                except zstandard.ZstdError as error:
                    raise self._damaged("zstd", error) from error
                data = frame.unused_data or next(packed, b"")

    def _pieces(self, size: int) -> Iterator[bytes]:
        block = self._head
        while block := block or self._stream.read(STEP):
            self.packed += len(block)
            for start in range(0, len(block), size):
                yield block[start : start + size]
            block = b""

    def _cut_short(self, kind: Compression) -> BadArchive:
        return BadArchive(
            f"{self._name} is cut short: the {kind} data ends after {plural(self.packed, 'byte')}, without "
            "its end mark; write the file again and enqueue the job anew"
        )

    def _damaged(self, kind: Compression, error: Exception) -> BadArchive:
        return BadArchive(
            f"{self._name} is damaged: the first {plural(self.packed, 'byte')} of {kind} data cannot be "
            f"unpacked ({error}); write the file again and enqueue the job anew"
        )
