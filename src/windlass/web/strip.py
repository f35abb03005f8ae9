"""The parts of a parent as a string, one letter a part; where there are more parts than cells, a letter
stands for several and is that of the one that most needs looking at [P10]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windlass.core.states import State

CELLS: Final = 2_000
"""How long a strip is at most."""

LETTERS: Final[dict[State, str]] = {
    State.DEAD: "d",
    State.CANCELLED: "c",
    State.RETRYING: "t",
    State.RUNNING: "r",
    State.READY: "q",
    State.WAITING: "w",
    State.SUCCEEDED: "s",
}
"""The letter of each state, the worst first. A part that is due later is `q` like one that is due now."""
_RANK: Final = {letter: rank for rank, letter in enumerate(LETTERS.values())}


def letter(state: State) -> str:
    """The letter of a part in this state."""
    if state is State.SCHEDULED:
        return LETTERS[State.READY]
    return LETTERS.get(state, LETTERS[State.RUNNING])


def strip(states: Sequence[State], cells: int = CELLS) -> tuple[str, int]:
    """The strip, and how many parts a letter stands for."""
    each = max(1, -(-len(states) // cells))
    letters = [letter(state) for state in states]
    if each == 1:
        return "".join(letters), 1
    worst = (min(set(letters[at : at + each]), key=_RANK.__getitem__) for at in range(0, len(letters), each))
    return "".join(worst), each
