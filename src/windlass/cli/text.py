"""How things are shown on a terminal: JSON and tables. Their text is harmless, see `windlass.words`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from windlass.words.text import one_line


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
