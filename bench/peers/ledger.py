"""What handlers wrote down: which job ran when, in which process. `kit/bench_kit.py` writes the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy
from numpy.typing import NDArray

HEADER: Final = 8
RECORD: Final = numpy.dtype([("at", "<f8"), ("number", "<i8")])
Records = NDArray[Any]


def records(folder: Path, kind: str = "runs") -> Records:
    """Every record of this kind so far, in the order of time."""
    found = [each for _, each in by_process(folder, kind)]
    joined = numpy.concatenate(found) if found else numpy.empty(0, RECORD)
    return joined[numpy.argsort(joined["at"], kind="stable")]


def by_process(folder: Path, kind: str = "runs") -> Iterator[tuple[int, Records]]:
    """The records of each process, by its id."""
    for path in sorted(folder.glob(f"*.{kind}")):
        with path.open("rb") as file:
            written = int.from_bytes(file.read(HEADER), "little")
            yield int(path.stem), numpy.fromfile(file, RECORD, written)


def counted(folder: Path) -> int:
    """How many runs were written down; cheap enough to ask all the time."""
    return sum(_counts(folder))


def begun(folder: Path) -> int:
    """How many processes have run something."""
    return sum(count > 0 for count in _counts(folder))


def _counts(folder: Path) -> Iterator[int]:
    for path in folder.glob("*.runs"):
        with path.open("rb") as file:
            yield int.from_bytes(file.read(HEADER), "little")
