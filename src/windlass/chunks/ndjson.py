"""NDJSON, a splitter for files with one JSON record per line, by byte range [P1] [P2].

    @app.chunked(split=NDJSON("256MiB"))
    async def load(part: Part, path: str) -> None: ...

A file over twice the chunk size is cut at multiples of it, without being read: a part owns the lines that
begin in its range, wherever they end (see `lines`). A smaller file, a compressed one and one of unknown size,
such as a pipe, are one part. Compressed files are recognised by their first bytes; going on in the middle of
one means to unpack it up to there again. A pipe can be read only once: an attempt after the first needs a
writer that sends everything again.

Memory is bounded by the blocks that are read and by one batch, whatever the file holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, Final, Literal, Self, TypeAlias

import msgspec

from windlass.chunks.archives import MAGIC, Unpacked, compression
from windlass.chunks.lines import Limits, LineReader, first_line, skip
from windlass.chunks.records import Bad, NDJSONReader
from windlass.chunks.sources import Origin, Source, Stamp, Stream, source
from windlass.chunks.splitter import Arguments, check_call
from windlass.core.durations import Size, size
from windlass.endings import SourceGone
from windlass.errors import ConfigurationError, SourceChanged
from windlass.running.encoding import decoder
from windlass.store.records import PartPlan

Which: TypeAlias = str | Callable[..., Origin] | None
SPLIT_ABOVE: Final = 2
"""Chunks. Below that a second part is not worth its overhead [P1]."""


class Span(msgspec.Struct, frozen=True):
    """The span of a part of a file: the lines that begin at a byte from `start` to before `end`. Without
    an end it is the whole file, read as a stream."""

    start: int
    end: int | None
    stamp: Stamp = Stamp()


class NDJSON:
    """Cuts a file of one JSON record per line into parts of `chunk` bytes [P1] [P2].

    - `source`: which argument of the job is the file, by name, or a function that takes the arguments by name
      and gives a path, a URL or an object (see `sources`); the first argument if not said.
    - `type`: what a record is, as an annotation. Anything JSON knows if not said.
    - `bad`: "raise" lets a line that is no record fail the part, "skip" leaves it out and counts it.
    - `missing`: "fail" lets a missing file fail the job, "end" lets it end well with nothing done.
    - `max_line`: a longer line is an error. `max_batch`: a batch with so many bytes is not filled further.
    """

    unit = "bytes"

    def __init__(
        self,
        chunk: Size = "256MiB",
        *,
        source: Which = None,
        type: Any = Any,
        bad: Bad = "raise",
        missing: Literal["fail", "end"] = "fail",
        max_line: Size = "64MiB",
        max_batch: Size = "16MiB",
    ) -> None:
        self._chunk = _bytes("chunk", chunk)
        self._limits = Limits(line=_bytes("max_line", max_line), batch=_bytes("max_batch", max_batch))
        self._which = _checked_source(source)
        self._decoder = decoder(type)
        if bad not in ("raise", "skip"):
            raise ConfigurationError(f"NDJSON(bad={bad!r}): write 'raise' or 'skip'")
        if missing not in ("fail", "end"):
            raise ConfigurationError(f"NDJSON(missing={missing!r}): write 'fail' or 'end'")
        self._bad = bad
        self._missing = missing

    def check(self, task: str, names: Sequence[str]) -> None:
        """See Checks."""
        if callable(self._which):
            check_call(task, "NDJSON(source=…)", self._which, names)
        elif not names or (self._which is not None and self._which not in names):
            raise ConfigurationError(
                f"task {task}: NDJSON(source={self._which!r}) finds no file among the job's arguments "
                f"({', '.join(names) or 'none'}): give the handler one, such as `path: str`, or name it"
            )

    def resized(self, size: int) -> Self:
        """See Resizable."""
        other = copy(self)
        other._chunk = size
        return other

    def plan(self, arguments: Arguments) -> Iterable[PartPlan]:
        """The parts of the file. No more of it is read than its first bytes, and nothing of a pipe."""
        with self._found(arguments) as file:
            stamp = file.stamp()
            if stamp.size is None:
                return [_part(Span(0, None, stamp), 0)]
            if stamp.size == 0:
                return []
            if _is_archive(file):
                return [_part(Span(0, None, stamp), stamp.size)]
        step = self._chunk if stamp.size > SPLIT_ABOVE * self._chunk else stamp.size
        starts = range(0, stamp.size, step)
        spans = (Span(start, min(start + step, stamp.size), stamp) for start in starts)
        # One by one: a chunk of a few bytes by mistake would make more parts than fit into memory.
        return (_part(span, span.end - span.start) for span in spans if span.end is not None)

    def read(self, span: Any, arguments: Arguments, cursor: Any) -> NDJSONReader:
        """The records of a part. Raises SourceChanged where the file is not the one that was split."""
        part = msgspec.convert(span, Span)
        with self._found(arguments) as file:
            stream = file.open()
            try:
                _check_stamp(file.name, part.stamp, stream.stamp)
                if part.end is None:
                    return self._read_stream(file.name, stream, cursor or 0)
                return self._read_range(file.name, stream, part.start, part.end, cursor)
            except BaseException:
                stream.close()
                raise

    def _read_range(
        self, name: str, stream: Stream, start: int, end: int, cursor: int | None
    ) -> NDJSONReader:
        position = start if cursor is None else cursor
        if cursor is None and start > 0:
            stream.seek(start - 1)
            position = first_line(stream, start, end, name)
        stream.seek(position)
        lines = LineReader(stream, name, position, end, self._limits)
        return self._reader(name, stream, lines, lambda position: min(position, end) - start)

    def _read_stream(self, name: str, stream: Stream, cursor: int) -> NDJSONReader:
        head = _head(stream)
        kind = compression(head)
        if kind is None:
            return self._read_plain_stream(name, stream, head, cursor)
        contents = Unpacked(stream, head, kind, name)
        skip(contents, cursor, name)
        lines = LineReader(contents, name, cursor, None, self._limits)
        packed = stream.stamp.size
        if packed is None:
            return self._reader(name, stream, lines, lambda position: position)
        # Nobody knows the unpacked size, so progress is of the archive: how much of it was read.
        return self._reader(name, stream, lines, lambda _: contents.packed)

    def _read_plain_stream(self, name: str, stream: Stream, head: bytes, cursor: int) -> NDJSONReader:
        contents = _Rejoined(head, stream)
        if stream.seekable:
            stream.seek(cursor)
            contents = _Rejoined(b"", stream)
        else:
            skip(contents, cursor, name)
        lines = LineReader(contents, name, cursor, None, self._limits)
        return self._reader(name, stream, lines, lambda position: position)

    def _reader(
        self, name: str, stream: Stream, lines: LineReader, progress: Callable[[int], int]
    ) -> NDJSONReader:
        return NDJSONReader(lines, stream.close, progress, self._decoder, self._bad, name)

    @contextmanager
    def _found(self, arguments: Arguments) -> Iterator[Source]:
        """The file of the job; where it is missing, what `missing` says."""
        try:
            yield source(self._origin(arguments))
        except FileNotFoundError as error:
            if self._missing == "fail":
                raise
            raise SourceGone(f"the file to read is gone: {error}") from error

    def _origin(self, arguments: Arguments) -> Origin:
        if callable(self._which):
            return self._which(**arguments)
        names = ", ".join(arguments) or "none"
        which = next(iter(arguments), None) if self._which is None else self._which
        if which is None or which not in arguments:
            raise ConfigurationError(
                f"NDJSON(source={self._which!r}): the job has no such argument (it has: {names}); name the "
                "one that is the file with NDJSON(source='path')"
            )
        return arguments[which]


class _Rejoined:
    """A stream of which some bytes were read already."""

    def __init__(self, head: bytes, stream: Stream) -> None:
        self._head = head
        self._stream = stream

    def read(self, length: int) -> bytes:
        """The next bytes: at least one, at most `length`; none at the end."""
        if not self._head:
            return self._stream.read(length)
        taken, self._head = self._head[:length], self._head[length:]
        return taken


def _part(span: Span, units: int) -> PartPlan:
    return PartPlan(msgspec.json.encode(span).decode(), units)


def _head(stream: Stream) -> bytes:
    """The first bytes of a file. A pipe may give them one by one."""
    head = b""
    while len(head) < MAGIC and (more := stream.read(MAGIC - len(head))):
        head += more
    return head


def _is_archive(file: Source) -> bool:
    stream = file.open()
    try:
        return compression(_head(stream)) is not None
    finally:
        stream.close()


def _check_stamp(name: str, split: Stamp, found: Stamp) -> None:
    if split == found:
        return
    change = "it was written again"
    if split.size != found.size:
        change = f"it had {split.size} bytes and has {found.size}"
    raise SourceChanged(f"{name} has changed since the job was split: {change}; enqueue the job anew")


def _checked_source(given: Which) -> Which:
    if inspect.iscoroutinefunction(given):
        raise ConfigurationError(
            "NDJSON(source=…): every part asks for the file again, from a thread: give a plain function, "
            "not an async one"
        )
    if given is None or isinstance(given, str) or callable(given):
        return given
    raise ConfigurationError(
        f"NDJSON(source={given!r}): give the name of the argument that is the file, or a function of the "
        "job's arguments that gives a path, a URL or an object to read from"
    )


def _bytes(name: str, value: Size) -> int:
    try:
        count = size(value)
    except ValueError as error:
        raise ConfigurationError(f"NDJSON({name}={value!r}): {error}") from error
    if count < 1:
        raise ConfigurationError(f"NDJSON({name}={value!r}): it must be at least one byte")
    return count
