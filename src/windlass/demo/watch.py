"""What the demo shows while it plays: bars on a terminal, a line every two seconds elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from windlass.cli.output import MARKS, bar, strip
from windlass.core.counts import plural
from windlass.core.progress import Look, Progress, progress
from windlass.core.states import State
from windlass.presentation.text import span
from windlass.store.records import ParentRecord, PartRecord

EVERY: Final = 2.0
_MAX_SHOWN: Final = 24
"""Parts that have a line each; more are drawn as a strip."""
_WIDTH: Final = 40


class Show(Protocol):
    """Whom the play tells what happens."""

    def say(self, text: str, style: str = "") -> None:
        """Something has happened."""

    def making(self, fraction: float) -> None:
        """The data is being made, and so far it is."""

    def step(self, parent: ParentRecord, parts: Sequence[PartRecord]) -> None:
        """The import has come so far."""


class Looks:
    """The last seconds of a parent, for its rate."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=100)

    def note(self, parent: ParentRecord) -> Progress:
        """How far it is now."""
        now = time.time()
        while self._looks and now - self._looks[0][0] > 5.0:
            self._looks.popleft()
        self._looks.append((now, parent))
        return progress(list(self._looks))


class Lines:
    """Plain lines, for a pipe or a file."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._looks = Looks()
        self._due = 0.0

    def say(self, text: str, style: str = "") -> None:
        """See `Show`."""
        self._write(text)

    def making(self, fraction: float) -> None:
        """See `Show`."""

    def step(self, parent: ParentRecord, parts: Sequence[PartRecord]) -> None:
        """See `Show`."""
        current = self._looks.note(parent)
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        self._write(f"{current.percent:3} %  {_in_words(parent, current)}")


class Bars:
    """Bars on a terminal: one for the whole, one for each part."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live
        self._looks = Looks()

    def say(self, text: str, style: str = "") -> None:
        """See `Show`."""
        self._console.print(Text(text, style))

    def making(self, fraction: float) -> None:
        """See `Show`."""
        whole = Text.assemble("making the data  ", bar(fraction, _WIDTH), f" {fraction:4.0%}")
        self._live.update(whole if fraction < 1 else Text())

    def step(self, parent: ParentRecord, parts: Sequence[PartRecord]) -> None:
        """See `Show`."""
        current = self._looks.note(parent)
        whole = Text.assemble("import   ", bar(current.fraction, _WIDTH), f" {current.percent:3} %")
        lines = [whole, Text(_in_words(parent, current)), *_parts(parts, self._console.width)]
        self._live.update(Group(*lines), refresh=True)


@contextmanager
def showing(console: Console, *, quiet: bool) -> Iterator[Show]:
    """The way to show it that suits the console; bars vanish when the block ends. `quiet`: say nothing."""
    if quiet:
        yield Lines(lambda text: None)
    elif console.is_terminal:
        with Live(console=console, transient=True, auto_refresh=True, refresh_per_second=8) as live:
            yield Bars(console, live)
    else:
        yield Lines(lambda text: console.print(Text(text), soft_wrap=True))


def _parts(parts: Sequence[PartRecord], width: int) -> list[RenderableType]:
    if len(parts) > _MAX_SHOWN:
        return list(strip([part.state for part in parts], width))
    grid = Table.grid(padding=(0, 1))
    for part in parts:
        _, style = MARKS.get(part.state, ("", ""))
        fraction = 1.0 if part.state is State.SUCCEEDED else part.done / max(part.size, 1)
        message = plural(part.records, "record") if part.records else ""
        grid.add_row(
            f"part {part.index:>3}", bar(min(fraction, 1.0), _WIDTH), Text(str(part.state), style), message
        )
    return [grid]


def _in_words(parent: ParentRecord, current: Progress) -> str:
    words = [plural(parent.records, "record"), f"{parent.succeeded} of {plural(parent.total, 'part')}"]
    if current.records_rate:
        words.append(f"{current.records_rate:,.0f} records/s")
    if current.left is not None:
        words.append(f"about {span(current.left)} left")
    return ", ".join(words)
