"""Every line exactly once: for any file, any chunk size, any batch sizes, and going on at any cursor [P2]."""

import gzip
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chunks.reading import Ranged, lines, slices, spans, written
from windlass.chunks import NDJSON, archives
from windlass.chunks import lines as steps
from windlass.chunks.records import NDJSONSlice

MARK = b"\xef\xbb\xbf"
TEXTS = (
    st.sampled_from([b"", b" ", b"\t", b"{}", b"1", b'{"a": "\xff"}', b"\r", MARK])
    | st.binary(max_size=8).map(lambda text: text.replace(b"\n", b""))
    | st.integers(10, 80).map(lambda length: b"x" * length)
)
FILES = st.builds(
    lambda ended, last: b"".join(text + end for text, end in ended) + last,
    st.lists(st.tuples(TEXTS, st.sampled_from([b"\n", b"\r\n"])), max_size=20),
    TEXTS,
).filter(lambda content: archives.compression(content[:4]) is None)
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=3)
STEPS = st.integers(1, 50)
CUTS = st.lists(st.integers(0, 200), max_size=3).map(sorted)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def small_steps() -> Iterator[Callable[[int], None]]:
    """Sets how much is read at once, so that small files have all the borders that large ones have."""
    with pytest.MonkeyPatch.context() as patch:

        def choose(step: int) -> None:
            patch.setattr(steps, "BLOCK", step)
            patch.setattr(steps, "STEP", step)
            patch.setattr(archives, "STEP", step)
            patch.setattr(archives, "ZSTD_STEP", step)

        yield choose


def naive(content: bytes) -> list[bytes]:
    """The lines of a whole file, as anybody would split it."""
    every = content.removeprefix(MARK).split(b"\n")
    return [line.removesuffix(b"\r") for line in every if line.strip()]


def check_every_cursor(splitter: NDJSON, span: Any, source: Any, sizes: list[int]) -> list[bytes]:
    """The lines of a part; reading it anew from behind each slice gives the lines that follow."""
    found = cast(list[NDJSONSlice], list(slices(splitter, span, {"source": source}, None, sizes)))
    every = [line for piece in found for line in piece.lines]
    seen = 0
    for piece in found:
        seen += len(piece)
        assert lines(splitter, span, source, piece.cursor, sizes[::-1]) == every[seen:]
    assert [piece.done for piece in found] == sorted(piece.done for piece in found)
    return every


@given(content=FILES, chunk=st.integers(1, 60), sizes=SIZES, step=STEPS, data=st.data())
@settings(max_examples=150)
def test_p2_every_line_once_over_all_parts(
    folder: Path,
    small_steps: Callable[[int], None],
    content: bytes,
    chunk: int,
    sizes: list[int],
    step: int,
    data: st.DataObject,
) -> None:
    small_steps(step)
    longest = max(map(len, content.split(b"\n"))) or 1
    splitter = NDJSON(
        chunk,
        max_line=data.draw(st.sampled_from([longest, 1 << 20]), "max_line"),
        max_batch=data.draw(st.integers(1, 100) | st.just(1 << 20), "max_batch"),
    )
    most = data.draw(st.integers(1, 100), "most")
    path = written(folder / "file", content)
    for source in (path, Ranged(content, most=most), Ranged(content, size=None, most=most)):
        found: list[bytes] = []
        for span in spans(splitter, {"source": source}):
            found += check_every_cursor(splitter, span, source, sizes)
        assert found == naive(content)


@given(content=FILES, chunk=st.integers(1, 60), step=STEPS)
@settings(max_examples=100)
def test_p2_a_part_owns_the_lines_that_begin_in_it(
    small_steps: Callable[[int], None], content: bytes, chunk: int, step: int
) -> None:
    small_steps(step)
    splitter = NDJSON(chunk)
    source = Ranged(content)
    for span in spans(splitter, {"source": source}):
        begins = [0] + [at + 1 for at, byte in enumerate(content) if byte == 10]
        owned = [
            content[at:].split(b"\n")[0].removeprefix(MARK if at == 0 else b"").removesuffix(b"\r")
            for at in begins
            if span["start"] <= at < span["end"]
        ]
        assert lines(splitter, span, source) == [line for line in owned if line.strip()]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@given(content=FILES, cuts=CUTS, sizes=SIZES, step=STEPS, most=st.integers(1, 100))
@settings(max_examples=75)
def test_p2_every_line_of_an_archive_once(
    folder: Path,
    small_steps: Callable[[int], None],
    compress: Callable[[bytes], bytes],
    content: bytes,
    cuts: list[int],
    sizes: list[int],
    step: int,
    most: int,
) -> None:
    """Also of one in many members or frames, whose borders are anywhere in the lines."""
    small_steps(step)
    borders = [0, *cuts, len(content)]
    members = [content[start:end] for start, end in pairwise(borders)]
    packed = b"".join(map(compress, members))
    splitter = NDJSON(8)
    unpacked = b"".join(members)
    for source in (written(folder / "packed", packed), Ranged(packed, most=most), Ranged(packed, size=None)):
        (span,) = spans(splitter, {"source": source})
        assert check_every_cursor(splitter, span, source, sizes) == naive(unpacked)
