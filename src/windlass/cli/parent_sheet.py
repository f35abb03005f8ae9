"""One parent on a page: what `windlass parent show` draws for people, and the cells of `windlass parents`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from windlass.cli.family import Family
from windlass.cli.strip import bar, strip
from windlass.cli.text import cells, make_table
from windlass.core.progress import Look, Progress, progress
from windlass.core.states import FINISHED, State
from windlass.store.records import ParentRecord, PartRecord
from windlass.words.parts import NEEDING
from windlass.words.text import local, one_line, span
from windlass.words.waiting import state_in_words

COLUMNS = ("id", "task", "state", ">parts", "progress", ">rate", ">left", ">age")
_NEEDING = (">part", "job", "state", ">attempt", ">progress", ">records", "error")
_BAR = 30


def row(parent: ParentRecord, now: float) -> Sequence[object]:
    """A parent as a line of a listing."""
    told, failed = progress([(now, parent)]), parent.dead + parent.cancelled
    return (
        str(parent.id),
        parent.task,
        parent_in_words(parent),
        f"{parent.succeeded:,}/{parent.total:,}" + (f", {failed:,} failed" if failed else ""),
        Text.assemble(bar(told.fraction, 10), f" {told.percent} %"),
        rate_in_words(parent, told),
        None if told.left is None else span(told.left),
        span(now - parent.created_at),
    )


def draw(family: Family, looks: Sequence[Look], width: int, most: int = 20) -> RenderableType:
    """Everything about a parent: the sheet, the strip of its parts, those that need attention, at most so
    many of them."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, told in _lines(family, looks):
        grid.add_row(Text(name), told if isinstance(told, Text) else Text(told))
    drawn: list[RenderableType] = [grid]
    lines = strip(family.states, width)
    if lines:
        drawn += [Text(), *lines]
    if family.needing and most > 0:
        drawn += [Text(), _table(family, most)]
    advice = next_step(family.parent)
    if advice:
        drawn += [Text(), Text(advice)]
    return Group(*drawn)


def parent_in_words(parent: ParentRecord) -> str:
    """Its state, and whether it is being cancelled."""
    asked = parent.cancel_requested and parent.state not in FINISHED
    return f"{parent.state} (cancel requested)" if asked else str(parent.state)


def rate_in_words(parent: ParentRecord, told: Progress) -> str | None:
    """In records where its parts count any; the store does not know what the unit of a size is."""
    if parent.records and told.records_rate is not None:
        return f"{_number(told.records_rate)} records/s"
    if told.rate is None:
        return None
    return f"{_number(told.rate)} {'units' if told.unit == 'size' else 'parts'}/s"


def next_step(parent: ParentRecord) -> str | None:
    """What can be done about a parent that did not end well."""
    failed = parent.total - parent.succeeded
    if parent.state not in (State.DEAD, State.CANCELLED) or not failed:
        return None
    parts = "part that has" if failed == 1 else f"{failed:,} parts that have"
    return (
        f"`windlass parent redrive {parent.id}` runs the {parts} not succeeded, from where each has stopped"
    )


def _lines(family: Family, looks: Sequence[Look]) -> Iterator[tuple[str, str | Text]]:
    parent, now = family.parent, looks[-1][0]
    told = progress(looks)
    yield "parent", str(parent.id)
    yield "task", f"{one_line(parent.task)}, queue {one_line(parent.queue)}"
    yield "state", parent_in_words(parent)
    if parent.reason:
        yield "why", one_line(parent.reason)
    yield "progress", _progress(parent, told)
    failed = parent.dead + parent.cancelled
    yield (
        "parts",
        f"{parent.succeeded:,} of {parent.total:,} succeeded, {failed:,} failed, {parent.out:,} out",
    )
    if parent.size or parent.records:
        yield "done", f"{parent.done:,} of {parent.size:,} units, {parent.records:,} records"
    yield "parallel", f"{parent.parallel:,} at a time"
    yield "tolerated", f"{parent.tolerated:,} of its parts may fail"
    if parent.final is not None:
        state = "gone" if family.final is None else str(family.final.state)
        yield "finalizer", f"job {parent.final}, {state}"
    yield "split", local(parent.created_at, now)
    if parent.finished_at is not None:
        yield "finished", local(parent.finished_at, now)
        yield "took", span(parent.finished_at - parent.created_at)


def _progress(parent: ParentRecord, told: Progress) -> Text:
    line = Text.assemble(bar(told.fraction, _BAR), f" {told.percent} %")
    rate = rate_in_words(parent, told)
    if rate is not None:
        line.append(f", {rate}")
    if told.left is not None:
        line.append(f", about {span(told.left)} left")
    return line


def _table(family: Family, most: int) -> RenderableType:
    table = make_table(*_NEEDING)
    for part in family.needing[:most]:
        table.add_row(
            *cells(
                part.index, part.job, state_in_words(part), part.attempt, _share(part), f"{part.records:,}"
            ),
            *cells(None if part.error is None else one_line(part.error, 120)),
        )
    more = sum(state in NEEDING for state in family.states) - min(len(family.needing), most)
    return Group(table, Text(f"and {more:,} more")) if more > 0 else table


def _share(part: PartRecord) -> str:
    return f"{min(part.done / part.size, 1):.0%}" if part.size > 0 else "–"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"
