"""Small drawings that need no script: the strip of a parent's parts [P10]."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup, escape

from windlass.web.service.shapes import ParentView

_PLAIN: Final = frozenset({"succeeded", "waiting"})
"""States that say nothing more on a closer look; of a long strip most cells have one of them."""
_SHORT: Final = 400


def cells(parent: ParentView) -> Markup:
    """The strip, cell by cell. Put together here: a template takes ten times as long for two thousand.
    Nothing
    in it comes from jobs; states are words of ours."""
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
    return Markup(drawn)  # noqa: S704 - numbers, and states, escaped


def _name(at: int, state: str, parent: ParentView) -> str:
    first = at * parent.strip_each
    last = min(first + parent.strip_each, parent.total) - 1
    return f"part {first:,}: {state}" if first >= last else f"parts {first:,} to {last:,}: worst is {state}"
