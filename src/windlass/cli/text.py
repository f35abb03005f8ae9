"""How things are shown: hostile text made harmless, times, spans, JSON, tables.

Task names, payloads, errors and labels come from anywhere. They reach a terminal only through `harmless`, as
plain text and never as markup [M5].
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

import click
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from windlass.core.harmless import harmless

_UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
COUNTED: Final = 10_000
"""Jobs in a line are counted up to this."""


def one_line(text: str, most: int = 2000) -> str:
    """Harmless text on one line, cut to a length."""
    line = harmless(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def plural(count: int, noun: str) -> str:
    """So many of something: 1 job, 2,000 jobs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def capped(count: int, most: int = COUNTED) -> str:
    """A count that a store breaks off when it is large."""
    return f"{count:,}" if count < most else f"{most:,}+"


# -- times ----------------------------------------------------------------------------------------------


def span(seconds: float) -> str:
    """A span of time in its two largest units: 45 s, 3 min 20 s, 2 d 4 h."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s".replace(".0 ", " ")
    whole = int(seconds)
    largest = next(place for place, (_, size) in enumerate(_UNITS) if whole >= size)
    shown = []
    for unit, size in _UNITS[largest : largest + 2]:
        if whole >= size:
            shown.append(f"{whole // size} {unit}")
            whole %= size
    return " ".join(shown)


def iso(moment: float | None) -> str | None:
    """A time as JSON has it: ISO 8601, UTC."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(moment: float, now: float | None = None) -> str:
    """A time as people read it: local, with how far away it is."""
    shown = datetime.fromtimestamp(moment, UTC).astimezone()
    return f"{shown:%Y-%m-%d %H:%M:%S} ({_away(moment, time.time() if now is None else now)})"


def in_zone(moment: float, zone: tzinfo, now: float) -> str:
    """A time as people read it in another zone, with its weekday and how far away it is."""
    return f"{datetime.fromtimestamp(moment, zone):%a %Y-%m-%d %H:%M:%S %Z} ({_away(moment, now)})"


def _away(moment: float, now: float) -> str:
    away = moment - now
    return f"in {span(away)}" if away > 0 else f"{span(-away)} ago"


# -- JSON -----------------------------------------------------------------------------------------------


def parsed(text: str | None) -> Any:
    """A kept JSON text as part of a larger one. What cannot be read here is given as it stands."""
    if text is None:
        return None
    try:
        return json.loads(text, parse_float=_number, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def _number(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a JSON document: plain ASCII, so that no terminal and no encoding gets in its way."""
    click.echo(json.dumps(value, indent=indent, allow_nan=False))


# -- tables ---------------------------------------------------------------------------------------------


def console(*, stderr: bool = False) -> Console:
    """Where tables go. Into a pipe or a file they are as wide as they need to be."""
    stream = sys.stderr if stderr else sys.stdout
    wide = None if stream.isatty() else 1000
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=wide)


def make_table(*columns: str, title: str | None = None) -> Table:
    """A plain table. A column whose name begins with > stands to the right."""
    shown = Text(title) if title else None
    table = Table(box=box.SIMPLE_HEAD, title=shown, title_justify="left", pad_edge=False, show_edge=False)
    for column in columns:
        name = column.removeprefix(">")
        table.add_column(name, justify="right" if column != name else "left", overflow="fold")
    return table


def cells(*values: object) -> list[Text]:
    """The cells of a row, each as harmless text; None is empty."""
    return [
        value if isinstance(value, Text) else Text("" if value is None else one_line(str(value), 200))
        for value in values
    ]


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    table = make_table(*columns)
    for row in rows:
        table.add_row(*cells(*row))
    show(table)


def show(what: RenderableType) -> None:
    """Print something laid out in columns; into a pipe or a file without trailing blanks."""
    shown = console()
    if shown.is_terminal:
        shown.print(what)
        return
    with shown.capture() as captured:
        shown.print(what)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
