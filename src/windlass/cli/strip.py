"""Parts drawn: a bar that shows how far a parent is, and a strip that shows how every part stands [P10].

Each state has a mark that can be told from the others without colour. Where there are more parts than cells,
a cell stands for several of them and shows the one that most needs looking at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from windlass.core.states import State

MARKS: Final[dict[State, tuple[str, str]]] = {
    State.DEAD: ("x", "bold white on red"),
    State.CANCELLED: ("-", "magenta"),
    State.RETRYING: ("~", "yellow"),
    State.RUNNING: ("▓", "cyan"),
    State.READY: ("░", "blue"),
    State.WAITING: ("·", "dim"),
    State.SUCCEEDED: ("█", "green"),
}
"""The mark and style of each state, the worst first."""
_RANK: Final = {state: rank for rank, state in enumerate(MARKS)}
_LEGEND: Final = {**dict.fromkeys(MARKS), State.READY: "ready or scheduled"}
LINES: Final = 8
WIDEST: Final = 120


def bar(fraction: float, width: int) -> Text:
    """A progress bar. It is full only where the fraction is whole."""
    full = min(int(fraction * width), width)
    return Text.assemble(("█" * full, "green"), ("░" * (width - full), "dim"))


def strip(states: Sequence[State], width: int) -> list[Text]:
    """The parts by index as lines of at most so many cells, and below them what the marks mean."""
    width = max(1, min(width, WIDEST))
    each = max(1, -(-len(states) // (width * LINES)))
    worst = [_worst(states[at : at + each]) for at in range(0, len(states), each)]
    lines = [_line(worst[at : at + width]) for at in range(0, len(worst), width)]
    return [*lines, legend(Counter(states), each)] if lines else []


def legend(counts: Counter[State], each: int) -> Text:
    """What the marks mean and how many parts have each."""
    told = Text()
    shown: Counter[State] = Counter()
    for state, count in counts.items():
        shown[_shown(state)] += count
    for state, (mark, style) in reversed(MARKS.items()):
        if shown[state]:
            told.append(mark, style)
            told.append(f" {_LEGEND[state] or state} {shown[state]:,}   ")
    told.rstrip()
    if each > 1:
        told.append(f"\n(a cell is {each:,} parts and shows the worst of them)")
    return told


def _worst(states: Sequence[State]) -> State:
    return min(map(_shown, set(states)), key=_RANK.__getitem__)


def _shown(state: State) -> State:
    """The state whose mark a part has: a part that is due later waits like one that is due now."""
    if state is State.SCHEDULED:
        return State.READY
    return state if state in MARKS else State.RUNNING


def _line(states: Sequence[State]) -> Text:
    return Text.assemble(*(MARKS[state] for state in states))
