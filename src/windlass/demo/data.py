"""The data of the demo: a file of JSON lines, the same each time, and what must be true of its records.

Ids go from 0 without a gap in the order of the file. So the imported table itself can tell where each run of
a part began and where it stopped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_NOTE: Final = (
    "Delivered to the side door, since nobody answered at the front one; the parcel is dry, the neighbour "
    "has signed for it, and the key is where it always is. Ring twice."
)
BLOCK: Final = 1_000
"""Lines that are made at a time: those of a block differ from those of another in the block's number only,
so they are made from one text, a hundred times as fast as one by one."""
_MARK: Final = "#"


class Record(msgspec.Struct, gc=False):
    """One line of the file."""

    id: int
    customer: str
    amount: int
    currency: str
    at: str
    note: str


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """The file, and the figures that the imported table must show."""

    path: str
    bytes: int
    records: int
    amount: int
    """The sum of all amounts: a record that was lost, doubled or changed shows in it."""


def generate(path: Path, size: int, tell: Callable[[float], None] = lambda fraction: None) -> Data:
    """Write whole lines until the file has at least this size. `tell` hears how far it is, from 0 to 1."""
    written = amount = records = 0
    with path.open("wb") as file:
        for block in itertools.count():
            if written >= size:
                break
            text, count = _first_lines(_block(block), size - written)
            written += file.write(text.encode("ascii"))
            amount += _amounts(block, count)
            records += count
            tell(min(written / size, 1.0))
    return Data(path=str(path), bytes=written, records=records, amount=amount)


def _amounts(block: int, count: int) -> int:
    """The sum of the amounts in the first lines of a block. Each is a number with the block's behind it."""
    shift = int(f"1{'0' * len(str(block))}")
    return sum(map(_scattered, range(count))) * shift + count * block


@cache
def _scattered(place: int) -> int:
    """From 1 on, and no two mistakes are likely to cancel each other out."""
    return place * 2_654_435_761 % 10_007 + 1


def _line(place: int, id: str) -> str:
    """A line of a block, with a mark where the block's number belongs."""
    return (
        f'{{"id":{id},"customer":"customer-{_scattered(place):05}-{_MARK}",'
        f'"amount":{_scattered(place)}{_MARK},"currency":"EUR",'
        f'"at":"2026-03-{place % 28 + 1:02}T{place % 24:02}:{place % 60:02}:00Z","note":"{_NOTE}"}}\n'
    )


_FIRST: Final = "".join(_line(place, str(place)) for place in range(BLOCK))
_OTHERS: Final = "".join(_line(place, f"{_MARK}{place:03}") for place in range(BLOCK))


def _block(block: int) -> str:
    return (_OTHERS if block else _FIRST).replace(_MARK, str(block))


def _first_lines(text: str, size: int) -> tuple[str, int]:
    """As many lines as it takes to fill this size, and how many those are."""
    if len(text) <= size:
        return text, BLOCK
    end = text.find("\n", max(size - 1, 0)) + 1
    return text[:end], text.count("\n", 0, end)
