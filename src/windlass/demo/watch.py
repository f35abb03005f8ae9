"""The demo's display while it plays: bars on a terminal, a line every two seconds elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

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


class Show:
    """Tells what happens in the play: in lines, and with a live display in bars, one for the whole and one
    for each part."""

    def __init__(self, write: Callable[[Text], None], live: Live | None = None) -> None:
        self._write = write
        self._live = live
        self._looks: deque[Look] = deque(maxlen=100)
        self._due = 0.0

    def say(self, text: str, style: str = "") -> None:
        """Something has happened."""
        self._write(Text(text, style))

    def making(self, fraction: float) -> None:
        """The data is being made, and so far it is."""
        if self._live is not None:
            whole = Text.assemble("making the data  ", bar(fraction, _WIDTH), f" {fraction:4.0%}")
            self._live.update(whole if fraction < 1 else Text())

    def step(self, parent: ParentRecord, parts: Sequence[PartRecord]) -> None:
        """The import has come so far."""
        current = self._progress(parent)
        if self._live is not None:
            whole = Text.assemble("import   ", bar(current.fraction, _WIDTH), f" {current.percent:3} %")
            lines = [whole, Text(_in_words(parent, current)), *_parts(parts, self._live.console.width)]
            self._live.update(Group(*lines), refresh=True)
        elif time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY
            self.say(f"{current.percent:3} %  {_in_words(parent, current)}")

    def _progress(self, parent: ParentRecord) -> Progress:
        """How far it is now, with the rate of the last seconds."""
        now = time.time()
        while self._looks and now - self._looks[0][0] > 5.0:
            self._looks.popleft()
        self._looks.append((now, parent))
        return progress(list(self._looks))


@contextmanager
def showing(console: Console, *, quiet: bool) -> Iterator[Show]:
    """The way to show it that suits the console; bars vanish when the block ends. `quiet`: say nothing."""
    if quiet:
        yield Show(lambda text: None)
    elif console.is_terminal:
        with Live(console=console, transient=True, auto_refresh=True, refresh_per_second=8) as live:
            yield Show(console.print, live)
    else:
        yield Show(lambda text: console.print(text, soft_wrap=True))


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
