"""The file that is imported: NDJSON as people dump it from a database, written for one run and removed after
it.

A record has 500 to 700 bytes: a nested object, lists, numbers, and text with some escapes and some letters
beyond ASCII. No two lines are equal, but their bodies repeat, since writing must not take longer than
reading.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

BODIES: Final = 2000
WRITE_AT_ONCE: Final = 2000
_TEXT: Final = """
    anchor barrel cable deck engine ferry gauge harbour inlet jetty keel lantern mast net oar pier quay rope
    sail tide under vessel winch yard zone größe köpfe señal été the of and to in is with for on from
"""
_WORDS: Final = tuple(_TEXT.split())


class Dump(msgspec.Struct, frozen=True):
    """A file of records."""

    path: Path
    size: int
    records: int


@contextmanager
def dumps(*sizes: int) -> Iterator[list[Dump]]:
    """Files of at most so many bytes each, for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="bench-dump-") as folder:
        yield [write(Path(folder, f"{number}.ndjson"), size) for number, size in enumerate(sizes)]


def write(path: Path, size: int) -> Dump:
    """Fill a file with whole records up to this size. It is on disk when this returns, so that no scenario
    shares the disk with what the system still has to write."""
    bodies = _bodies()
    written = records = 0
    with path.open("wb") as file:
        full = False
        while not full:
            lines = []
            for number in range(records, records + WRITE_AT_ONCE):
                line = b'{"id":%d,%b\n' % (number, bodies[number % BODIES])
                full = written + len(line) > size
                if full:
                    break
                written += len(line)
                lines.append(line)
            file.writelines(lines)
            records += len(lines)
        file.flush()
        os.fsync(file.fileno())
    return Dump(path, written, records)


def _bodies() -> list[bytes]:
    """Records without their brace and id; the same ones in every run."""
    chance = random.Random(20)
    return [msgspec.json.encode(_record(chance))[1:] for _ in range(BODIES)]


def _record(chance: random.Random) -> dict[str, Any]:
    name = "-".join(chance.choices(_WORDS, k=2))
    return {
        "kind": chance.choice(("article", "comment", "review")),
        "created_at": f"20{chance.randrange(10, 26)}-{chance.randrange(1, 13):02}-03T10:15:00Z",
        "author": {
            "id": chance.randrange(10**9),
            "name": name,
            "verified": chance.random() < 0.3,
            "address": {"city": chance.choice(_WORDS), "zip": str(chance.randrange(10**5)), "geo": None},
        },
        "tags": chance.choices(_WORDS, k=chance.randrange(2, 6)),
        "score": round(chance.uniform(-5, 5), 4),
        "counts": [chance.randrange(1000) for _ in range(4)],
        "url": f"https://example.org/{name}?page={chance.randrange(500)}",
        "text": _text(chance),
    }


def _text(chance: random.Random) -> str:
    words = chance.choices(_WORDS, k=chance.randrange(36, 54))
    words[chance.randrange(len(words))] = '"quoted"\n'
    return " ".join(words)
