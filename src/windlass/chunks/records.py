"""The records of NDJSON: lines, and what msgspec makes of them [P2]. Which bytes are read, `ndjson` says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias

from windlass.chunks.lines import LineReader, Lines
from windlass.core.read_errors import READ_ERRORS
from windlass.errors import BadRecord
from windlass.running.encoding import Decoder

logger: Final = logging.getLogger("windlass.chunks")
Bad: TypeAlias = Literal["raise", "skip"]


class NDJSONSlice:
    """Some records in a row. The cursor is the offset of the line that follows, in decompressed bytes."""

    __slots__ = ("_decode", "_lines", "_name", "_records", "bad", "cursor", "done", "fault")

    def __init__(self, lines: Lines, done: int, decode: Callable[[bytes], Any], name: str) -> None:
        self.cursor: Final = lines.end
        self.done: Final = done
        self.bad: int = 0
        """How many lines since the slice before were left out, being no records."""
        self.fault: BadRecord | None = None
        """The fault of the first of them."""
        self._lines = lines
        self._decode = decode
        self._name = name
        self._records: list[Any] | None = None

    def __len__(self) -> int:
        return len(self._lines.records)

    @property
    def lines(self) -> list[bytes]:
        """The records as they stand in the file, without line ends."""
        return [line.removesuffix(b"\n").removesuffix(b"\r") for line in self._lines.records]

    @property
    def records(self) -> list[Any]:
        """The records, decoded. Raises BadRecord for the first line that is none."""
        if self._records is None:
            self._records = self._decoded("raise")
        return self._records

    def __iter__(self) -> Iterator[Any]:
        """The records one at a time. None is kept, so that memory and the processor's cache hold one."""
        return iter(self._records) if self._records is not None else self._streamed()

    def _streamed(self) -> Iterator[Any]:
        try:
            yield from map(self._decode, self._lines.records)
        except READ_ERRORS:
            self._decoded_with_care("raise")
            raise

    def leave_out_bad(self) -> None:
        """Decode at once, and forget the lines that are no records."""
        self._records = self._decoded("skip")

    def _decoded(self, bad: Bad) -> list[Any]:
        # Line by line, since `decode_lines` looks at no line ends: "1 2" would be two records.
        try:
            return list(map(self._decode, self._lines.records))
        except READ_ERRORS:
            return self._decoded_with_care(bad)

    def _decoded_with_care(self, bad: Bad) -> list[Any]:
        good: list[bytes] = []
        records: list[Any] = []
        for offset, line in self._offsets():
            try:
                records.append(self._decode(line))
                good.append(line)
            except READ_ERRORS as error:
                fault = BadRecord(f"{self._name}: the line at byte {offset} is no record: {error}", offset)
                if bad == "raise":
                    raise fault from None
                self.bad += 1
                self.fault = self.fault or fault
        self._lines.records = good
        return records

    def _offsets(self) -> Iterator[tuple[int, bytes]]:
        """Every record with its place. It costs time, so that only faults are looked for with it."""
        offset = self._lines.start
        for line in self._lines.every:
            if line.strip():
                yield offset, line
            offset += len(line)


class NDJSONReader:
    """Reads the records of one part. `progress` tells how much is done from where the next line begins."""

    def __init__(
        self,
        lines: LineReader,
        close: Callable[[], None],
        progress: Callable[[int], int],
        decoder: Decoder,
        bad: Bad,
        name: str,
    ) -> None:
        self.close = close
        self.bad: int = 0
        """How many lines were left out so far."""
        self._lines = lines
        self._progress = progress
        self._decode = decoder.decode
        self._skips = bad == "skip"
        self._name = name

    def take(self, n: int) -> NDJSONSlice | None:
        """The next records. With bad="skip" they are decoded at once: only then is it known how many there
        are. A slice of bad lines alone is not given out; the next one counts them."""
        bad = 0
        while True:
            lines = self._lines.take(n)
            if lines is None:
                return None
            found = NDJSONSlice(lines, self._progress(lines.end), self._decode, self._name)
            if self._skips:
                found.leave_out_bad()
                self._note(found)
                found.bad = bad = bad + found.bad
            if found:
                return found

    def _note(self, found: NDJSONSlice) -> None:
        """Say once that lines are being left out: there may be millions of them."""
        if found.fault is not None and not self.bad:
            logger.warning("%s. It is skipped, as are others like it, because of bad='skip'", found.fault)
        self.bad += found.bad
