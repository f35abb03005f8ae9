"""Where bytes come from: archives [P2], URLs, and objects of the user's."""

import gzip
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from tests.chunks.reading import Ranged, parts, records, slices, spans, written
from windlass.chunks import NDJSON
from windlass.chunks.archives import compression
from windlass.chunks.sources import RemoteFile
from windlass.errors import BadArchive, ConfigurationError, SourceChanged

CONTENT = b"".join(
    b'{"id": %d, "noise": "%s"}\n' % (number, os.urandom(8).hex().encode()) for number in range(5000)
)
EXPECTED = [msgspec.json.decode(line) for line in CONTENT.splitlines()]
ZSTD = zstandard.ZstdCompressor(write_checksum=True)
ARCHIVES = pytest.mark.parametrize("compress", [gzip.compress, ZSTD.compress], ids=["gzip", "zstd"])


@ARCHIVES
def test_p2_an_archive_is_one_part_whatever_its_name(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    packed = compress(CONTENT)
    arguments = {"path": written(tmp_path / "dump.ndjson", packed)}
    splitter = NDJSON("1kB")
    (part,) = parts(splitter, arguments)
    assert part.size == len(packed)
    *_, last = slices(splitter, msgspec.json.decode(part.span), arguments)
    assert (last.cursor, last.done) == (len(CONTENT), len(packed))
    assert records(splitter, arguments) == EXPECTED


@ARCHIVES
def test_p2_an_archive_that_is_cut_short_is_an_error(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    """What was whole before the cut is given out first."""
    packed = compress(CONTENT) + compress(CONTENT)
    for length, least in ((len(packed) - 1, 5000), (len(packed) // 2 + 5, 5000), (20, 0)):
        arguments = {"path": written(tmp_path / "dump.ndjson", packed[:length])}
        pieces = slices(NDJSON(), spans(NDJSON(), arguments)[0], arguments)
        found: list[Any] = []
        with pytest.raises(BadArchive, match=r"dump\.ndjson is cut short: .* after [\d,]+ bytes"):
            found.extend(record for piece in pieces for record in piece.records)
        assert len(found) >= least
        assert found == (EXPECTED * 2)[: len(found)]


@ARCHIVES
def test_p2_a_damaged_archive_is_an_error(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    packed = bytearray(compress(CONTENT))
    packed[-1] ^= 0xFF
    for content in (bytes(packed), compress(CONTENT) + b"rubbish at the end"):
        with pytest.raises(BadArchive, match=r"dump is damaged: .* enqueue the job anew"):
            records(NDJSON(), {"path": written(tmp_path / "dump", content)})


def test_p2_zeros_behind_gzip_and_frames_without_data_of_zstd_are_fine() -> None:
    assert records(NDJSON(), {"source": Ranged(gzip.compress(b"1\n") + bytes(600_000))}) == [1]
    note = b"\x5a\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert records(NDJSON(), {"source": Ranged(note + zstandard.compress(b"1\n") + note)}) == [1]


def test_p2_what_only_looks_like_an_archive_is_none() -> None:
    assert [compression(head) for head in (b"", b"\x1f", b"\x1f\x8b", b"{}\n", b"\x50", b"\x50\x2a\x4d")] == [
        None
    ] * 6


@ARCHIVES
def test_p2_an_archive_that_was_exchanged_cannot_be_resumed(compress: Callable[[bytes], bytes]) -> None:
    source = Ranged(compress(b"1\n2\n"), size=None)
    (span,) = spans(NDJSON(), {"source": source})
    with pytest.raises(SourceChanged, match="ends after 4 bytes and was read to byte 10 before"):
        NDJSON().read(span, {"source": source}, 10)


def test_a_url_is_read_in_parts_through_fsspec() -> None:
    system: Any = importlib.import_module("fsspec").filesystem("memory")
    system.pipe("/windlass/dump.ndjson", CONTENT)
    arguments = {"url": "memory://windlass/dump.ndjson"}
    splitter = NDJSON("10kB")
    planned = parts(splitter, arguments)
    assert len(planned) == -(-len(CONTENT) // 10_000)
    assert records(splitter, arguments, sizes=[7, 100]) == EXPECTED
    system.pipe("/windlass/dump.ndjson", CONTENT + b"{}\n")
    with pytest.raises(SourceChanged, match=r"memory://windlass/dump\.ndjson has changed"):
        splitter.read(msgspec.json.decode(planned[0].span), arguments, None)
    system.rm("/windlass/dump.ndjson")
    with pytest.raises(FileNotFoundError):
        splitter.plan(arguments)


def test_messages_tell_no_secrets_of_a_url() -> None:
    assert RemoteFile("memory://user:word@host/a/b@c.json?signature=1").name == "memory://host/a/b@c.json"


def test_a_url_may_be_of_an_archive_and_notes_when_the_file_was_written(tmp_path: Path) -> None:
    path = tmp_path / "dump.zst"
    path.write_bytes(zstandard.compress(CONTENT))
    arguments = {"url": path.as_uri()}
    (span,) = spans(NDJSON(), arguments)
    assert span["stamp"]["etag"] == str(path.stat().st_mtime)
    assert records(NDJSON(), arguments) == EXPECTED
    os.utime(path, (1, 1))
    with pytest.raises(SourceChanged, match="written again"):
        NDJSON().read(span, arguments, None)


@pytest.mark.parametrize(
    ("module", "path", "advice"),
    [
        ("fsspec", "s3://bucket/dump", r"s3://bucket/dump needs fsspec: pip install 'windlass\[fsspec\]'"),
        ("zstandard", "{folder}/dump", r"dump is compressed with zstd: pip install 'windlass\[zstd\]'"),
    ],
)
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, path: str, advice: str
) -> None:
    written(tmp_path / "dump", zstandard.compress(CONTENT))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=advice):
        records(NDJSON(), {"path": path.format(folder=tmp_path)})


class WithMethods:
    """Another way to write a source: size and etag are asked for."""

    def __init__(self) -> None:
        self.name = "bucket/dump"
        self.tag = "a"

    def size(self) -> int:
        """How many bytes there are."""
        return len(CONTENT)

    def etag(self) -> str:
        """What they are."""
        return self.tag

    def read(self, start: int, length: int) -> bytearray:
        """Some of them."""
        return bytearray(CONTENT[start : start + length])


def test_an_object_is_read_by_ranges_and_may_have_an_etag() -> None:
    source = WithMethods()
    splitter = NDJSON("10kB", source=lambda: source)
    assert records(splitter, {}) == EXPECTED
    span = spans(splitter, {})[1]
    source.tag = "b"
    with pytest.raises(
        SourceChanged, match="bucket/dump has changed since the job was split: it was written again"
    ):
        splitter.read(span, {}, None)


def test_an_object_that_does_not_keep_to_its_word_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="its size is 'big'; it must be a number of bytes, or None"):
        NDJSON().plan(
            {"source": type("Big", (Ranged,), {"__init__": lambda self: setattr(self, "size", "big")})()}
        )
    chatty = type("Chatty", (Ranged,), {"read": lambda self, start, length: b"x" * (length + 1)})(b"1\n2\n")
    with pytest.raises(ConfigurationError, match="it may give fewer than asked for, never more"):
        NDJSON().plan({"source": chatty})


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    for path in (str(tmp_path), tmp_path.as_uri()):
        with pytest.raises(IsADirectoryError, match="enqueue one job for each file in it"):
            NDJSON().plan({"path": path})
