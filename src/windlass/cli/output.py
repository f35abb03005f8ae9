"""How things are shown on a terminal: JSON, tables, bars and strips, and screens that are drawn live.
`windlass.presentation` chooses the words and makes text from outside harmless."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

import click
import msgspec
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from windlass.core.states import State
from windlass.errors import StoreUnavailable
from windlass.presentation.parents import drawn_state, strip_of
from windlass.presentation.text import one_line

T = TypeVar("T")


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a JSON document: plain ASCII, so that no terminal and no encoding gets in its way. Shapes in it
    become objects."""
    click.echo(json.dumps(msgspec.to_builtins(value), indent=indent, allow_nan=False))


def print_answer(as_json: bool, shape: Any, text: str, *, ok: bool = True) -> None:
    """Print what was done, as JSON or in words; exit code 1 where it is not what was asked for."""
    if as_json:
        print_json(shape)
    else:
        click.echo(text)
    if not ok:
        raise SystemExit(1)


@contextlib.contextmanager
def progress(label: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal's stderr, which is told how much is done and how much there is; else nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def tell(done: int, total: int) -> None:
            bar.length = max(total, 1)
            bar.update(done - bar.pos)

        yield tell


# -- tables ---------------------------------------------------------------------------------------------

_GAP: Final = 2
"""Columns of the screen between two columns of a table."""
_LEAST: Final = (16, 10)
"""No column of text becomes narrower than the first while one that may go is there, nor than the second while
others are wider: names that are folded more often are hard to read."""
_NOTHING: Final = frozenset({"", "0", "–", "default"})
"""Cells that say nothing: of columns that may go, those that are all like this go first."""


def console(*, stderr: bool = False) -> Console:
    """Where tables go: as wide as the terminal. Into a pipe or a file they are as wide as they need to be, or
    as COLUMNS says. With NO_COLOR there are no codes at all, neither for colours nor for bold."""
    stream = sys.stderr if stderr else sys.stdout
    asked = os.environ.get("COLUMNS", "")
    wide = None if stream.isatty() else int(asked) if asked.isdecimal() and int(asked) else 1000
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(
        stderr=stderr, highlight=False, markup=False, emoji=False, width=wide, color_system=colours
    )


class Column(NamedTuple):
    """A column of a table, by how its name is written: `>` before it puts it to the right, `!` keeps what
    people copy in one piece, and `?` says that it may go where the terminal is narrow: those with most of
    them go first."""

    name: str
    right: bool
    whole: bool
    spare: int

    @classmethod
    def read(cls, written: str) -> Column:
        """A column, as it is written."""
        name = written.lstrip("?!>")
        marks = written[: len(written) - len(name)]
        return cls(name, ">" in marks, "!" in marks, marks.count("?"))


class Listing:
    """A table that fits where it is drawn. Where there is too little room, columns that may go do so, and a
    line below names them; long texts are wrapped, and none is cut."""

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        self._columns = [Column.read(column) for column in columns]
        self._rows = [[_cell(value) for value in row] for row in rows]
        self._natural = [
            max([cell_len(column.name), *(row[place].cell_len for row in self._rows)])
            for place, column in enumerate(self._columns)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._chosen(options.max_width)
        widths = self._widths(shown, options.max_width)
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for place, width in zip(shown, widths, strict=True):
            column = self._columns[place]
            side: Literal["left", "right"] = "right" if column.right else "left"
            table.add_column(column.name, justify=side, overflow="fold", width=width)
        for row in self._rows:
            table.add_row(*(row[place] for place in shown))
        yield table
        if gone := [column.name for place, column in enumerate(self._columns) if place not in shown]:
            yield Text(f"not shown: {', '.join(gone)}; a wider terminal or --json has them", style="dim")

    def _chosen(self, room: int) -> list[int]:
        """Which columns there is room for."""
        shown = list(range(len(self._columns)))
        spare = [place for place in shown if self._columns[place].spare]
        # By what they say, by what they are, and of equals the one to the right.
        spare.sort(key=lambda place: (not self._is_blank(place), -self._columns[place].spare, -place))
        while (
            spare and sum(self._least(place, _LEAST[0]) for place in shown) + _GAP * (len(shown) - 1) > room
        ):
            shown.remove(spare.pop(0))
        return shown

    def _widths(self, shown: Sequence[int], room: int) -> list[int]:
        """How wide they are: as they like, or the widest of them narrower, until all fit."""
        widths = [self._natural[place] for place in shown]
        over = sum(widths) + _GAP * (len(shown) - 1) - room
        for least in (*_LEAST, 1):  # the last for a terminal that is narrower than names
            bounds = [self._least(place, least) if least > 1 else 1 for place in shown]
            while over > 0:
                slack = [at for at, width in enumerate(widths) if width > bounds[at]]
                if not slack:
                    break
                widths[max(slack, key=lambda at: widths[at])] -= 1
                over -= 1
        return widths

    def _least(self, place: int, least: int) -> int:
        """How narrow a column may get: not so narrow that its name is broken."""
        column, natural = self._columns[place], self._natural[place]
        return natural if column.whole else max(cell_len(column.name), min(natural, least))

    def _is_blank(self, place: int) -> bool:
        return all(row[place].plain in _NOTHING for row in self._rows)


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> RenderableType:
    """A plain table; how columns are written, see `Column`."""
    return Listing(columns, rows)


def make_sheet(lines: Iterable[tuple[str | Text, str | Text]], gap: int = 2) -> Table:
    """Names to the left and what is said about them to the right."""
    grid = Table.grid(padding=(0, gap))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for line in lines:
        grid.add_row(*(part if isinstance(part, Text) else Text(part) for part in line))
    return grid


def _cell(value: object) -> Text:
    """A cell of a row, as harmless text; None is empty."""
    if isinstance(value, Text):
        return value
    return Text("" if value is None else one_line(str(value), 200))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table."""
    show(make_table(columns, rows))


def print_listing(
    as_json: bool,
    name: str,
    found: Iterable[T],
    shape: Callable[[T], object],
    columns: Sequence[str],
    row: Callable[[T], Sequence[object]],
) -> None:
    """Print records: their shapes below `name` in JSON, or their rows in a table."""
    if as_json:
        print_json({name: [shape(each) for each in found]})
    else:
        print_table(columns, [row(each) for each in found])


def show(what: RenderableType) -> None:
    """Print something laid out in columns; into a pipe or a file without trailing blanks."""
    shown = console()
    if shown.is_terminal:
        shown.print(what)
        return
    with shown.capture() as captured:
        shown.print(what)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


# -- parts ----------------------------------------------------------------------------------------------
#
# Each state has a mark that can be told from the others without colour [P10].

MARKS: Final[dict[State, tuple[str, str]]] = {
    State.DEAD: ("x", "bold white on red"),
    State.CANCELLED: ("-", "magenta"),
    State.RETRYING: ("~", "yellow"),
    State.RUNNING: ("▓", "cyan"),
    State.READY: ("░", "blue"),
    State.WAITING: ("·", "dim"),
    State.SUCCEEDED: ("█", "green"),
}
"""The mark and style of each state."""
_LEGEND: Final = {**dict.fromkeys(MARKS), State.READY: "ready or scheduled"}
LINES: Final = 8
WIDEST: Final = 120


def bar(fraction: float, width: int) -> Text:
    """A progress bar. It is full only where the fraction is whole."""
    full = min(int(fraction * width), width)
    return Text.assemble(("█" * full, "green"), ("░" * (width - full), "dim"))


def strip(
    states: Sequence[State], width: int, each: int = 1, counts: Counter[State] | None = None
) -> list[Text]:
    """Draw the parts by index as lines of at most `width` cells, and below them what the marks mean. A state
    may be that of `each` parts; `counts` tells then how many have which."""
    width = max(1, min(width, WIDEST))
    cells, folded = strip_of(states, width * LINES)
    marks = [MARKS[state] for state in cells]
    lines = [Text.assemble(*marks[at : at + width]) for at in range(0, len(marks), width)]
    counts = Counter(map(drawn_state, states)) if counts is None else counts
    return [*lines, legend(counts, each * folded)] if lines else []


def legend(shown: Counter[State], each: int) -> Text:
    """Return a line that says what the marks mean and how many parts have each."""
    line = Text()
    for state, (mark, style) in reversed(MARKS.items()):
        if shown[state]:
            line.append(mark, style)
            line.append(f" {_LEGEND[state] or state} {shown[state]:,}   ")
    line.rstrip()
    if each > 1:
        line.append(f"\n(a cell is {each:,} parts and shows the worst of them)")
    return line


# -- live screens ---------------------------------------------------------------------------------------

_QUIT = "q"


@contextlib.contextmanager
def keys() -> Iterator[asyncio.Event]:
    """Hear of q without Enter, where the terminal can do that; Ctrl-C works everywhere."""
    wanted = asyncio.Event()
    try:
        import termios
        import tty
    except ImportError:
        yield wanted
        return
    if not sys.stdin.isatty():
        yield wanted
        return
    keyboard, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(keyboard)

    def pressed() -> None:
        if sys.stdin.read(1).lower() == _QUIT:
            wanted.set()

    try:
        tty.setcbreak(keyboard)
        loop.add_reader(keyboard, pressed)
        yield wanted
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


async def watch(
    draw: Callable[[], RenderableType],
    look: Callable[[], Awaitable[None]],
    every: float,
    ended: Callable[[], bool] = lambda: False,
) -> None:
    """Draw on the whole screen, anew after each look, until q or the end. A look that finds no store says so
    above what was drawn: the next may come through."""
    with keys() as quit_wanted, Live(draw(), console=console(), screen=True) as live:
        while not ended() and not await _happens(quit_wanted, every):
            notice = Text()
            try:
                await look()
            except StoreUnavailable as error:
                notice = Text(one_line(f"no answer, trying again: {error}"), style="bold red")
            live.update(Group(notice, draw()) if notice else draw(), refresh=True)


async def _happens(event: asyncio.Event, within: float) -> bool:
    """Return whether it has happened within so many seconds; it returns as soon as it has."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within):
            await event.wait()
    return event.is_set()
