"""What a step found: a figure beside its bound, and whether it holds. Telling it to people lives here too."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SOURCE: Final = ROOT / "src" / "windlass"


class Verdict(StrEnum):
    """Whether a figure is within its bound. What could not be measured is neither passed nor failed."""

    PASSED = "passed"
    FAILED = "FAILED"
    UNCHECKED = "COULD NOT BE CHECKED"


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    step: str
    what: str
    figure: str
    bound: str
    verdict: Verdict


def judged(step: str, what: str, *, figure: str, bound: str, holds: bool) -> Figure:
    """A figure that was measured."""
    return Figure(step, what, figure, bound, Verdict.PASSED if holds else Verdict.FAILED)


def say(text: str) -> None:
    """A line for whoever watches, at once."""
    print(text, flush=True)  # noqa: T201 - this package is a command


def table(figures: Sequence[Figure]) -> str:
    """The figures in columns."""
    head = ("step", "what", "figure", "bound", "verdict")
    rows = [head, *((each.step, each.what, each.figure, each.bound, each.verdict) for each in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def exit_status(figures: Sequence[Figure]) -> int:
    """0 when every figure holds, 1 when one does not, 2 when nothing failed and something was not checked."""
    verdicts = {each.verdict for each in figures}
    if Verdict.FAILED in verdicts:
        return 1
    return 2 if Verdict.UNCHECKED in verdicts else 0
