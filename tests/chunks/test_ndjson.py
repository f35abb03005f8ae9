"""How NDJSON files are split [P1] and what becomes of those that are not as they should be [P2]."""

import logging
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.chunks.reading import Ranged, lines, parts, records, slices, spans, written
from windlass import SourceGone
from windlass.chunks import NDJSON
from windlass.chunks.records import NDJSONReader, NDJSONSlice
from windlass.errors import BadRecord, ConfigurationError, SourceChanged

GIB = 2**30
MIB = 2**20


class Row(msgspec.Struct):
    """A record with a shape."""

    id: int
    name: str = ""


def sparse(path: Path, size: int) -> dict[str, str]:
    """A file that has this size and takes no room."""
    path.touch()
    os.truncate(path, size)
    return {"path": str(path)}


@pytest.mark.parametrize(
    ("size", "count"),
    [(0, 0), (1, 1), (256 * MIB, 1), (512 * MIB, 1), (512 * MIB + 1, 3), (GIB, 4), (GIB + 1, 5)],
)
def test_p1_a_file_over_twice_the_chunk_size_is_split(tmp_path: Path, size: int, count: int) -> None:
    arguments = sparse(tmp_path / "dump.ndjson", size)
    planned = parts(NDJSON("256MiB"), arguments)
    assert len(planned) == count
    assert sum(part.size for part in planned) == size
    covered = [(span["start"], span["end"]) for span in spans(NDJSON("256MiB"), arguments)]
    assert [end for _, end in covered[:-1]] == [start for start, _ in covered[1:]]
    if covered:
        assert (covered[0][0], covered[-1][1]) == (0, size)


def test_p1_nothing_ends_well_with_no_records(tmp_path: Path) -> None:
    assert records(NDJSON(), {"path": written(tmp_path / "empty", b"")}) == []


def test_p1_planning_reads_the_first_bytes_alone() -> None:
    source = Ranged(b'{"id": 1}\n' * 10_000)
    assert len(parts(NDJSON("1kB"), {"source": source})) == 100
    assert source.asked <= 4


def test_p1_a_source_of_unknown_size_is_one_part() -> None:
    source = Ranged(b"1\n2\n3", size=None)
    (part,) = parts(NDJSON(1), {"source": source})
    assert part.size == 0
    assert records(NDJSON(1), {"source": source}) == [1, 2, 3]


def test_p1_a_pipe_is_one_part_and_planning_leaves_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    splitter = NDJSON(4)
    (span,) = spans(splitter, {"source": str(path)})
    writer = threading.Thread(target=path.write_bytes, args=(b"10\n20\n\n30\n40",))
    writer.start()
    assert lines(splitter, span, str(path), cursor=3, sizes=[1, 2]) == [b"20", b"30", b"40"]
    writer.join()


def test_p2_parts_inside_a_long_line_own_nothing() -> None:
    source = Ranged(b"1\n" + b'"' + b"x" * 50 + b'"\n2\n')
    splitter = NDJSON(10)
    found = [lines(splitter, span, source) for span in spans(splitter, {"source": source})]
    assert [len(part) for part in found] == [2, 0, 0, 0, 0, 1]


def test_p2_progress_ends_at_the_size_of_the_part(tmp_path: Path) -> None:
    arguments = {"path": written(tmp_path / "dump", b'{"id": 1}\n' * 100)}
    splitter = NDJSON(334)
    for part in parts(splitter, arguments):
        *_, last = slices(splitter, msgspec.json.decode(part.span), arguments, sizes=[7])
        assert last.done == part.size


def test_records_are_decoded_when_they_are_asked_for() -> None:
    arguments = {"source": Ranged(b'{"id": 1, "name": "a"}\n\r\n{"id": 2}\r\n')}
    (span,) = spans(NDJSON(), arguments)
    (found,) = slices(NDJSON(type=Row), span, arguments)
    assert len(found) == 2
    assert found.records == [Row(1, "a"), Row(2)]
    assert found.records is found.records
    assert cast(NDJSONSlice, found).lines == [b'{"id": 1, "name": "a"}', b'{"id": 2}']


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b'{"id": ', "truncated"),
        (b'{"id": 1} {"id": 2}', "trailing"),
        (b'{"id": "x"}', r"Expected `int`"),
        (b'{"id": 1, "name": "\xff"}', "invalid start byte"),
    ],
)
def test_p2_a_bad_line_says_where_it_is_and_what_is_wrong(tmp_path: Path, line: bytes, wrong: str) -> None:
    path = written(tmp_path / "dump.ndjson", b'{"id": 0}\n\n' + line + b'\n{"id": 3}\n')
    (span,) = spans(NDJSON(), {"path": path})
    (found,) = slices(NDJSON(type=Row), span, {"path": path})
    assert len(found) == 3
    with pytest.raises(BadRecord, match=rf"dump\.ndjson: the line at byte 11 .*{wrong}") as caught:
        _ = found.records
    assert caught.value.offset == 11


def test_p2_bad_lines_can_be_left_out_and_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    content = b"x\n{\n1\n2\ny\n\n3\nz\n"
    splitter = NDJSON(bad="skip")
    source = {"source": Ranged(content)}
    (span,) = spans(splitter, source)
    with caplog.at_level(logging.WARNING, "windlass.chunks"):
        found = cast(list[NDJSONSlice], list(slices(splitter, span, source, sizes=[2])))
    assert [(piece.records, piece.lines, piece.bad) for piece in found] == [
        ([1, 2], [b"1", b"2"], 2),
        ([3], [b"3"], 1),
    ]
    assert [record.getMessage().split(" is ")[0] for record in caplog.records] == [
        "Ranged: the line at byte 0"
    ]


def test_p2_bad_lines_at_the_end_are_counted_by_the_reader() -> None:
    splitter = NDJSON(bad="skip")
    source = {"source": Ranged(b"1\nx\ny\n")}
    reader: NDJSONReader = splitter.read(spans(splitter, source)[0], source, None)
    assert [reader.take(1) is None, reader.take(1) is None, reader.bad] == [False, True, 2]


def test_p2_a_line_that_is_too_long_comes_after_those_before_it(tmp_path: Path) -> None:
    path = written(tmp_path / "dump", b"1\n2\n" + b"3" * 101 + b"\n4\n")
    splitter = NDJSON(max_line=100)
    reader = splitter.read(spans(splitter, {"path": path})[0], {"path": path}, None)
    found = reader.take(10)
    assert found is not None
    assert found.records == [1, 2]
    for _ in range(2):
        with pytest.raises(BadRecord, match=r"line at byte 4 is longer than 100 bytes; raise max_line"):
            reader.take(10)
    reader.close()
    assert records(NDJSON(max_line=101), {"path": path})[-1] == 4


def test_a_batch_ends_early_at_its_size() -> None:
    """Blank lines count in it, so that a slice has an end whatever the file is like."""
    source = {"source": Ranged(b"\n" * 50 + b'"12345678"\n' * 10)}
    splitter = NDJSON(max_batch=35)
    (span,) = spans(splitter, source)
    assert [len(piece) for piece in slices(splitter, span, source)] == [1, 3, 3, 3]
    tiny = NDJSON(max_batch=1)
    assert [len(piece) for piece in slices(tiny, span, source)] == [1] * 10


@pytest.mark.parametrize("what", ["lines", "a foreign line", "blank lines"])
def test_p2_memory_stays_the_same(tmp_path: Path, what: str) -> None:
    """8 MB are read with less in hand: as lines, over a line of another part, over blank lines."""
    count = 8_000_000
    content = {
        "lines": b'{"id": 1, "name": "somebody"}\n' * (count // 30),
        "a foreign line": b"x" * count + b"\n1\n",
        "blank lines": b"1\n" + b"\n" * count + b"2",
    }[what]
    arguments = {"path": written(tmp_path / "dump", content)}
    size = len(content)
    del content
    splitter = NDJSON("1MiB", max_batch="100kB")
    stamp = spans(splitter, arguments)[0]["stamp"]
    start = 1 if what == "a foreign line" else 0
    tracemalloc.start()
    try:
        found = slices(splitter, {"start": start, "end": size, "stamp": stamp}, arguments)
        assert sum(map(len, found)) == {"lines": count // 30, "a foreign line": 1, "blank lines": 2}[what]
        assert tracemalloc.get_traced_memory()[1] < 7_000_000
    finally:
        tracemalloc.stop()


def test_a_file_that_has_changed_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "dump.ndjson"
    source = {"path": written(path, b"1\n2\n")}
    (span,) = spans(NDJSON(), source)
    path.write_bytes(b"1\n2\n3\n")
    with pytest.raises(
        SourceChanged, match=r"dump.ndjson has changed .*had 4 bytes and has 6; enqueue the job anew"
    ):
        NDJSON().read(span, source, None)
    path.write_bytes(b"3\n4\n")
    os.utime(path, ns=(0, span["stamp"]["mtime_ns"] + 1))
    with pytest.raises(SourceChanged, match="written again; enqueue the job anew"):
        NDJSON().read(span, source, 2)
    os.utime(path, ns=(0, span["stamp"]["mtime_ns"]))
    assert lines(NDJSON(), span, str(path)) == [b"3", b"4"]


def test_a_file_that_shrinks_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    source = {"path": written(path, b"1\n" * 1_000_000)}
    reader = NDJSON().read(spans(NDJSON(), source)[0], source, None)
    assert reader.take(10) is not None
    os.truncate(path, 1000)
    with pytest.raises(SourceChanged, match="was longer when the job was split"):
        list(iter(lambda: reader.take(100_000), None))
    reader.close()


def test_a_missing_file_fails_or_ends_the_job(tmp_path: Path) -> None:
    source = {"path": written(tmp_path / "dump", b"1\n")}
    (span,) = spans(NDJSON(), source)
    (tmp_path / "dump").unlink()
    for splitter, error in ((NDJSON(), FileNotFoundError), (NDJSON(missing="end"), SourceGone)):
        with pytest.raises(error, match="dump"):
            splitter.plan(source)
        with pytest.raises(error, match="dump"):
            splitter.read(span, source, None)


def test_which_argument_is_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "dump", b"1\n")
    assert records(NDJSON(), {"path": path, "other": 5}) == [1]
    assert records(NDJSON(source="path"), {"other": 5, "path": path}) == [1]
    assert records(NDJSON(source=lambda day: tmp_path / day), {"day": "dump"}) == [1]
    with pytest.raises(ConfigurationError, match=r"no such argument \(it has: a, b\)"):
        NDJSON(source="path").plan({"a": 1, "b": 2})
    with pytest.raises(ConfigurationError, match=r"it has: none"):
        NDJSON().plan({})
    with pytest.raises(ConfigurationError, match=r"5 is nothing to read lines from: give a path, a URL"):
        NDJSON().plan({"a": 5})


async def later() -> str:
    return ""


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"chunk": "12 parsecs"}, "chunk='12 parsecs'.*256MiB"),
        ({"chunk": 0}, "at least one byte"),
        ({"max_line": "x"}, "max_line='x'"),
        ({"max_batch": -1}, "max_batch=-1"),
        ({"bad": "ignore"}, "write 'raise' or 'skip'"),
        ({"missing": "skip"}, "write 'fail' or 'end'"),
        ({"source": 5}, "name of the argument"),
        ({"source": later}, "plain function"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        NDJSON(**options)
