"""Small drawings that need no script: the strip of a parent's parts [P10]."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup, escape

from windlass.operations.parents import ParentView, PartView
from windlass.presentation.text import one_line

_PLAIN: Final = frozenset({"succeeded", "waiting"})
"""States that say nothing more on a closer look; of a long strip most cells have one of them."""
_SHORT: Final = 400


def cells(parent: ParentView) -> Markup:
    """The strip, cell by cell. Put together here: a template takes ten times as long for two thousand. Only
    the errors of parts that are tried again come from jobs, and they are escaped."""
    short = len(parent.strip) <= _SHORT
    states = {letter: str(escape(parent.letters.get(letter, "waiting"))) for letter in set(parent.strip)}
    plain = {letter: f'<i class="cell {state}"></i>' for letter, state in states.items()}
    named = {letter for letter, state in states.items() if short or state not in _PLAIN}
    drawn = "".join(
        f'<i class="cell {states[letter]}" title="{_name(at, states[letter], parent)}"></i>'
        if letter in named
        else plain[letter]
        for at, letter in enumerate(parent.strip)
    )
    return Markup(drawn)  # noqa: S704 - numbers; states and errors, escaped


def _name(at: int, state: str, parent: ParentView) -> str:
    first = at * parent.strip_each
    if parent.strip_each == 1 and state == "retrying":
        return next(
            (_retried(part) for part in parent.needing if part.index == first), f"part {first:,}: {state}"
        )
    last = min(first + parent.strip_each, parent.total) - 1
    return f"part {first:,}: {state}" if first >= last else f"parts {first:,} to {last:,}: worst is {state}"


def _retried(part: PartView) -> str:
    """A part that is tried again, with what it failed with last [M4]."""
    error = f": {one_line(part.error, 300)}" if part.error else ""
    return str(escape(f"part {part.index:,}: {part.state_text}{error}"))
