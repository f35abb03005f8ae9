"""Reading through splitters as a worker does: plan, then parts in slices, with spans and cursors as JSON."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import msgspec

from windlass.chunks.records import NDJSONSlice
from windlass.chunks.splitter import Slice, Splitter
from windlass.store.records import PartPlan


def parts(splitter: Splitter, arguments: Mapping[str, Any]) -> list[PartPlan]:
    """The plan of a splitter that needs no loop."""
    return list(cast(Iterable[PartPlan], splitter.plan(arguments)))


def spans(splitter: Splitter, arguments: Mapping[str, Any]) -> list[Any]:
    """What the parts cover."""
    return [msgspec.json.decode(part.span) for part in parts(splitter, arguments)]


def slices(
    splitter: Splitter,
    span: Any,
    arguments: Mapping[str, Any],
    cursor: Any = None,
    sizes: Iterable[int] = (1000,),
) -> Iterator[Slice]:
    """The slices of one part, with batch sizes that change from one to the next."""
    kept = msgspec.json.decode(msgspec.json.encode(cursor))
    reader = splitter.read(span, arguments, kept)
    try:
        for size in cycle(sizes):
            found = reader.take(size)
            if found is None:
                return
            assert 1 <= len(found) <= size
            yield found
    finally:
        reader.close()


def lines(
    splitter: Splitter, span: Any, source: Any, cursor: Any = None, sizes: Iterable[int] = (1000,)
) -> list[bytes]:
    """The raw lines of one part of an NDJSON file."""
    found = cast(Iterable[NDJSONSlice], slices(splitter, span, {"source": source}, cursor, sizes))
    return [line for piece in found for line in piece.lines]


def records(splitter: Splitter, arguments: Mapping[str, Any], sizes: Iterable[int] = (1000,)) -> list[Any]:
    """The records of all parts, in order."""
    return [
        record
        for span in spans(splitter, arguments)
        for piece in slices(splitter, span, arguments, sizes=sizes)
        for record in piece.records
    ]


class Ranged:
    """A source of the user's that is in memory, and gives at most `most` bytes at a time."""

    def __init__(self, content: bytes, size: int | None = -1, most: int = 1 << 30) -> None:
        self.size = len(content) if size == -1 else size
        self.content = content
        self.most = most
        self.asked = 0

    def read(self, start: int, length: int) -> bytes:
        """Some bytes from there on."""
        self.asked += length
        return self.content[start : start + min(length, self.most)]


def written(path: Path, content: bytes) -> str:
    """The file's path, as an argument of a job has it."""
    path.write_bytes(content)
    return str(path)
