"""Small drawings that need no script: the strip of a parent's parts [P10]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from windlass.web.shapes import ParentView

_PLAIN: Final = frozenset({"succeeded", "waiting"})
"""States that say nothing more on a closer look; of a long strip most cells have one of them."""
_SHORT: Final = 400


class Cell(NamedTuple):
    """A cell of a strip: its state, and which parts it stands for, where that is worth telling."""

    state: str
    name: str


def cells(parent: ParentView) -> Iterator[Cell]:
    """The strip, cell by cell."""
    short = len(parent.strip) <= _SHORT
    for at, letter in enumerate(parent.strip):
        state = parent.letters.get(letter, "waiting")
        yield Cell(state, _name(at, state, parent) if short or state not in _PLAIN else "")


def _name(at: int, state: str, parent: ParentView) -> str:
    first = at * parent.strip_each
    last = min(first + parent.strip_each, parent.total) - 1
    return f"part {first:,}: {state}" if first >= last else f"parts {first:,} to {last:,}: worst is {state}"
