"""One parent with its parts, as `windlass parent show` draws it and `windlass parents` lists it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from windlass.cli.output import bar, make_sheet, make_table, strip
from windlass.core.counts import plural
from windlass.core.states import FINISHED, State
from windlass.operations.parents import ParentShape, ParentView, PartView, rate_in_words
from windlass.presentation.parents import NEEDING, drawn_state
from windlass.presentation.retries import RetryingShape
from windlass.presentation.text import local_of, one_line, parts_at_a_time, span

COLUMNS: Final = ("!id", "task", "state", ">parts", "progress", "??>rate", "?>left", "??>age")
PARTS: Final = (">part", "!job", "state", ">attempt", "?>progress", "??>records", "error")
_BAR: Final = 30


def row(parent: ParentShape) -> Sequence[object]:
    """Return a parent as a line of a listing."""
    current, failed = parent.progress, parent.dead + parent.cancelled
    return (
        parent.id,
        parent.task,
        parent_in_words(parent) + (f", {parent.retrying.text}" if parent.retrying else ""),
        f"{parent.succeeded:,}/{parent.total:,}" + (f", {failed:,} failed" if failed else ""),
        Text.assemble(bar(current.fraction, 10), f" {current.percent} %"),
        rate_in_words(parent),
        None if current.seconds_left is None else span(current.seconds_left),
        span(time.time() - _seconds(parent.created_at)),
    )


def part_row(part: PartView) -> Sequence[object]:
    """Return a part as a line of a listing."""
    share = f"{min(part.done / part.size, 1):.0%}" if part.size > 0 else "–"
    error = None if part.error is None else one_line(part.error, 120)
    return part.index, part.job, part.state_text, part.attempt, share, f"{part.records:,}", error


def draw(parent: ParentView, width: int, most: int = 20) -> RenderableType:
    """Draw everything about a parent: the sheet, the strip of its parts, those that need attention, at most
    `most` of them."""
    drawn: list[RenderableType] = [make_sheet(_lines(parent))]
    counts: Counter[State] = Counter()
    for state, count in parent.states.items():
        counts[drawn_state(State(state))] += count
    cells = [State(parent.letters[letter]) for letter in parent.strip]
    if lines := strip(cells, width, parent.strip_each, counts):
        drawn += [Text(), *lines]
    if parent.needing and most > 0:
        drawn += [Text(), _table(parent, most)]
    if advice := next_step(parent):
        drawn += [Text(), Text(advice)]
    return Group(*drawn)


def parent_in_words(parent: ParentShape) -> str:
    """Return its state, and whether it is being cancelled."""
    asked = parent.cancel_requested and parent.state not in FINISHED
    return f"{parent.state} (cancel requested)" if asked else parent.state


def retrying_in_words(retrying: RetryingShape) -> str:
    """How many parts are tried again, and what the last one failed with [M4]."""
    return one_line(f"{retrying.text}, last: {retrying.error}" if retrying.error else retrying.text, 300)


def next_step(parent: ParentShape) -> str | None:
    """Return what can be done about a parent that did not end well."""
    failed = parent.total - parent.succeeded
    if parent.state not in (State.DEAD, State.CANCELLED) or not failed:
        return None
    parts = "part that has" if failed == 1 else f"{failed:,} parts that have"
    return (
        f"`windlass parent redrive {parent.id}` runs the {parts} not succeeded, from where each has stopped"
    )


def _lines(parent: ParentView) -> Iterator[tuple[str, str | Text]]:
    yield "parent", parent.id
    yield "task", f"{one_line(parent.task)}, queue {one_line(parent.queue)}"
    yield "state", parent_in_words(parent)
    if parent.reason:
        yield "why", one_line(parent.reason)
    yield "progress", _progress(parent)
    failed = parent.dead + parent.cancelled
    yield (
        "parts",
        f"{parent.succeeded:,} of {parent.total:,} succeeded, {failed:,} failed, {parent.out:,} out",
    )
    if parent.retrying is not None:
        yield "retrying", retrying_in_words(parent.retrying)
    if parent.size or parent.records:
        yield "done", f"{parent.done:,} of {plural(parent.size, 'unit')}, {plural(parent.records, 'record')}"
    yield "parallel", parts_at_a_time(parent.parallel)
    yield "tolerated", f"{parent.tolerated:,} of its parts may fail"
    if parent.final is not None:
        yield "finalizer", f"job {parent.final}, {parent.final_state or 'gone'}"
    if parent.created_at is not None:
        yield "split", local_of(parent.created_at)
    if parent.finished_at is not None:
        yield "finished", local_of(parent.finished_at)
        yield "took", span(_seconds(parent.finished_at) - _seconds(parent.created_at))


def _progress(parent: ParentShape) -> Text:
    current, rate = parent.progress, rate_in_words(parent)
    line = Text.assemble(bar(current.fraction, _BAR), f" {current.percent} %")
    if rate is not None:
        line.append(f", {rate}")
    if current.seconds_left is not None:
        line.append(f", about {span(current.seconds_left)} left")
    return line


def _table(parent: ParentView, most: int) -> RenderableType:
    shown = parent.needing[:most]
    table = make_table(PARTS, map(part_row, shown))
    more = sum(parent.states.get(state, 0) for state in NEEDING) - len(shown)
    return Group(table, Text(f"and {more:,} more")) if more > 0 else table


def _seconds(moment: str | None) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else time.time()
