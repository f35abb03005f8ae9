"""Lines of a stream in slices, in constant memory [P2]. What a line means is not known here.

A part owns every line whose first byte lies in its range [start, end). So a reader that begins in the middle
of a file first looks for the line end that comes before its first line, and one whose last line runs over its
end reads on to the end of that line. So nobody needs to know where lines begin when a file is split.

Blank lines are no records. They count in offsets, and nowhere else.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Final, Protocol

from windlass.core.counts import plural
from windlass.errors import BadRecord, SourceChanged, SourceError

BLOCK: Final = 256 * 1024
"""Read at once. Larger ones fall out of the processor's cache before they are decoded: 1 MiB was slower."""
STEP: Final = 64 * 1024
"""Read at once while the end of one line is looked for: beyond it nothing is wanted."""
MARK: Final = b"\xef\xbb\xbf"
"""Some tools begin a file of UTF-8 with this, which is no part of the first line."""


class Readable(Protocol):
    """Bytes from front to back: at least one at a time, none at the end."""

    def read(self, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of lines and slices."""

    line: int
    """Bytes of one line; more is an error."""
    batch: int
    """Bytes of one slice; it ends early, but has at least one record."""


@dataclass(slots=True)
class Lines:
    """Some lines in a row."""

    start: int
    """Where the first one begins."""
    end: int
    """Right behind the last one: where the next one begins."""
    every: list[bytes]
    """With blank ones, each with its newline; the last one of a file may have none."""
    records: list[bytes]
    """Without blank ones."""


class LineReader:
    """Reads the lines that begin in [position, end); all that follow where `end` is None.

    `stream` stands at `position`, where a line begins.
    """

    def __init__(self, stream: Readable, name: str, position: int, end: int | None, limits: Limits) -> None:
        self.position: int = position
        """Where the next line begins."""
        self._stream = stream
        self._name = name
        self._end = end
        self._limits = limits
        # A block is no longer than the longest line, so only a line that was begun before it can be too long.
        self._block = min(BLOCK, limits.line)
        self._read = position
        self._lines: list[bytes] = []
        self._next = 0
        self._begun: list[bytes] = []
        self._begun_size = 0
        self._has_blank = False
        """True if a line is blank, of those that were read last."""
        self._failure: SourceError | None = None

    def take(self, n: int) -> Lines | None:
        """The next lines with at least one and at most n records; None at the end."""
        taken = Lines(self.position, self.position, [], [])
        full = False
        while not full and len(taken.records) < n and self._more(taken):
            if not taken.records:
                # Any number of blank lines may come first, and they are not worth keeping.
                taken.every.clear()
                taken.start = self.position
            lines = self._lines[self._next : self._next + n - len(taken.records)]
            size = sum(map(len, lines))
            room = self._limits.batch - (self.position - taken.start)
            if size > room:
                full = _shorten(lines, room, bool(taken.records))
                size = sum(map(len, lines))
            self._next += len(lines)
            self.position += size
            taken.every += lines
            taken.records += filter(bytes.strip, lines) if self._has_blank else lines
        taken.end = self.position
        return taken if taken.records else None

    def _more(self, taken: Lines) -> bool:
        """Return whether there is a line to take. What stands before a fault is given out first, so that it
        is done and saved when the fault ends the attempt."""
        if self._next < len(self._lines):
            return True
        try:
            if self._failure is not None:
                raise self._failure
            return self._fill()
        except SourceError as error:
            self._failure = error
            if not taken.records:
                raise
            return False

    def _fill(self) -> bool:
        """Read until there is a whole line; False where the last one was taken."""
        while True:
            inside = self._block if self._end is None else min(self._block, self._end - self._read)
            if inside <= 0 and not self._begun_size:
                return False
            block = self._stream.read(inside if inside > 0 else min(STEP, self._block))
            self._read += len(block)
            if not block:
                return self._last_line()
            # Twice as fast as to split the block, which looks at each byte by itself.
            lines = io.BytesIO(block).readlines()
            rest = b"" if block.endswith(b"\n") else lines.pop()
            if inside <= 0 and lines:
                # The line that ran over the part's end is whole; the next one is somebody else's.
                del lines[1:]
                rest = b""
            if self._keep(lines, rest):
                return True

    def _keep(self, lines: list[bytes], rest: bytes) -> bool:
        self._begun_size += len(lines[0]) - 1 if lines else len(rest)
        if self._begun_size > self._limits.line:
            raise BadRecord(
                f"{self._name}: the line at byte {self.position} is longer than {self._limits.line:,} bytes; "
                "raise max_line if that is right, and look for missing line ends if not",
                self.position,
            )
        if not lines:
            self._begun.append(rest)
            return False
        if self._begun:
            lines[0] = b"".join((*self._begun, lines[0]))
        self._begun = [rest] if rest else []
        self._begun_size = len(rest)
        return self._offer(lines)

    def _last_line(self) -> bool:
        if self._end is not None and self._read < self._end:
            raise SourceChanged(
                f"{self._name} ends at byte {self._read:,}, and was longer when the job was split: it has "
                "changed; enqueue the job anew"
            )
        if not self._begun_size:
            return False
        last = b"".join(self._begun)
        self._begun, self._begun_size = [], 0
        return self._offer([last])

    def _offer(self, lines: list[bytes]) -> bool:
        if self.position == 0 and lines[0].startswith(MARK):
            lines[0] = lines[0][len(MARK) :]
            self.position = len(MARK)
        self._lines, self._next = lines, 0
        self._has_blank = not lines[0] or any(map(bytes.isspace, lines))
        return True


def _shorten(lines: list[bytes], room: int, has_records: bool) -> bool:
    """Cut off the lines with which a slice would be larger than it may be, but leave it one record. Whether
    it is full now."""
    for index, line in enumerate(lines):
        room -= len(line)
        if room < 0 and has_records:
            del lines[index:]
            return True
        has_records = has_records or bool(line.strip())
    return has_records


def skip(stream: Readable, count: int, name: str) -> None:
    """Read over so many bytes of a stream that cannot be told to go there."""
    left = count
    while left:
        found = len(stream.read(min(BLOCK, left)))
        if not found:
            raise SourceChanged(
                f"{name} ends after {plural(count - left, 'byte')} and was read to byte {count:,} before: "
                "it has changed; enqueue the job anew"
            )
        left -= found


def first_line(stream: Readable, start: int, end: int, name: str) -> int:
    """Where the first line of the part [start, end) begins; `end` where none does. The stream stands one byte
    before the part: its first line begins behind the first newline from there on."""
    position = start - 1
    while position < end - 1:
        block = stream.read(min(STEP, end - 1 - position))
        if not block:
            raise SourceChanged(
                f"{name} ends at byte {position:,}, and was longer when the job was split: it has changed; "
                "enqueue the job anew"
            )
        found = block.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(block)
    return end
