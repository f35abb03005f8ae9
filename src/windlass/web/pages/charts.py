"""Charts as data: what `static/charts.js` draws, the legend that tells the latest values, and the table that
says the same without a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from windlass.operations.measures import Point
from windlass.presentation.text import iso
from windlass.web.http.queries import choice
from windlass.web.pages import figures

RANGES: Final = {"1h": 3600.0, "6h": 6 * 3600.0, "24h": 86400.0, "7d": 7 * 86400.0, "30d": 30 * 86400.0}
FIRST: Final = "1h"
_ROWS: Final = 24
_YOUNG: Final = 20.0
"""A minute that began so many seconds ago says nothing yet: its reports are still on the way."""


class Series(NamedTuple):
    """One line: its name, its ink, its values, None where nothing was measured."""

    name: str
    ink: str
    values: list[float | None]
    area: bool = False


_TEXTS: Final[dict[str, Callable[[float], str]]] = {
    "ms": figures.milliseconds,
    "s": figures.seconds,
    "bytes": figures.size,
    "%": lambda value: f"{figures.number(value)} %",
}
"""How a value of a unit is written; others are plain numbers."""


class Line(NamedTuple):
    """A line as the legend has it."""

    name: str
    ink: str
    latest: str


class Row(NamedTuple):
    """A row of the table."""

    at: str
    values: list[str]


class Drawn(NamedTuple):
    """A chart."""

    name: str
    title: str
    data: str
    lines: list[Line]
    rows: list[Row]
    summary: str
    known: bool
    """True if there is any value in it."""


def range_named(word: str | None) -> str:
    """A range, the first where none is named. Raises Invalid for one that there is not."""
    return choice("range", word, RANGES) or FIRST


def measured(points: Sequence[Point], now: float) -> list[Drawn]:
    """Throughput, waits, run times, depth, and how long the oldest had waited."""
    while len(points) > 1 and now - _at(points[-1]) < _YOUNG:
        points = points[:-1]
    at = [_at(point) for point in points]
    rates = [
        Series("succeeded", "good", [round(point.per_second * 60, 1) for point in points], area=True),
        Series("failed", "bad", [round(point.failed_per_second * 60, 1) for point in points]),
    ]
    ready = Series("ready", "accent", [round(point.ready, 1) for point in points], area=True)
    oldest = Series("oldest", "warn", [round(point.oldest, 3) for point in points], area=True)
    return [
        draw("throughput", "Jobs a minute", "jobs", at, rates),
        draw("wait", "Wait before a run", "ms", at, _percentiles(points, "wait")),
        draw("run", "Run time", "ms", at, _percentiles(points, "run")),
        draw("depth", "Ready jobs", "jobs", at, [ready]),
        draw("oldest", "Oldest waiting", "s", at, [oldest]),
    ]


def draw(name: str, title: str, unit: str, at: Sequence[float], series: Sequence[Series]) -> Drawn:
    """One chart. A step between moments is as long as any other."""
    data = {
        "unit": unit,
        "at": [round(moment) for moment in at],
        "series": [
            {"name": each.name, "ink": each.ink, "area": each.area, "values": each.values} for each in series
        ],
    }
    lines = [Line(each.name, each.ink, _value_text(_latest(each.values), unit)) for each in series]
    every = max(1, -(-len(at) // _ROWS))
    rows = [
        Row(iso(at[place]) or "", [_value_text(each.values[place], unit) for each in series])
        for place in range(len(at) - 1, -1, -every)
    ]
    summary = "; ".join(f"{line.name} now {line.latest}" for line in lines) + "."
    known = any(value is not None for each in series for value in each.values)
    return Drawn(name, title, json.dumps(data, separators=(",", ":")), lines, rows, summary, known)


def _percentiles(points: Sequence[Point], what: str) -> list[Series]:
    return [
        Series(share, ink, [getattr(point, f"{what}_{share}") for point in points])
        for share, ink in (("p50", "accent"), ("p95", "late"), ("p99", "warn"))
    ]


def _latest(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values[-5:]) if value is not None), None)


def _value_text(value: float | None, unit: str) -> str:
    if value is None:
        return figures.NONE
    return _TEXTS.get(unit, figures.number)(value)


def _at(point: Point) -> float:
    return figures.moment(point.at) or 0.0
