"""Figures that a run shows: kept with the test's report, and in a file where WINDLASS_FIGURES names one.

A figure is for reading. What a test asserts has a wide margin, since the machine is shared; the figure says
how wide it was.
"""

import json
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Figure = Callable[[str, float | int | str], None]
FILE = "WINDLASS_FIGURES"


def recorder(request: pytest.FixtureRequest) -> Figure:
    """A function that notes a figure of this test."""

    def note(name: str, value: float | int | str) -> None:
        shown = f"{value:,.3g}" if isinstance(value, float) and abs(value) < 1000 else value
        shown = f"{shown:,.0f}" if isinstance(shown, float) else shown
        request.node.user_properties.append(("figure", f"{name}: {shown}"))
        if os.environ.get(FILE):
            with Path(os.environ[FILE]).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"test": request.node.nodeid, "figure": name, "value": value}) + "\n")

    return note


def median(values: Sequence[float]) -> float:
    """The middle value; of no value there is none, and that is an error of the test."""
    assert values, "nothing was measured"
    return statistics.median(values)


def high(values: Sequence[float]) -> float:
    """The value that 99 of 100 do not exceed."""
    return sorted(values)[min(len(values) - 1, len(values) * 99 // 100)]
