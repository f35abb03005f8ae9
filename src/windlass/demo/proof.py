"""The proof: what the imported table must show, and what it shows. It asks the table and nothing else, except
for who was killed and where, which it cannot know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.demo.crew import Killed
from windlass.demo.data import Data
from windlass.demo.table import Place


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that must hold."""

    name: str
    ok: bool
    text: str


class Run(msgspec.Struct, frozen=True):
    """The records of one part that one process imported."""

    part: int
    process: int
    records: int
    first: int
    last: int


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """How the killed worker's part went on."""

    process: int
    at: int
    """Records of the part that had been imported before, and were not again."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The imported table."""

    records: int
    ids: int
    first: int | None
    last: int | None
    amount: int | None
    runs: list[Run]


async def look(place: Place) -> Table:
    """Ask the table."""
    ((records, ids, first, last, amount),) = await place.ask("figures")
    runs = [Run(*run) for run in await place.ask("runs")]
    return Table(records=records, ids=ids, first=first, last=last, amount=amount, runs=runs)


def resume_of(table: Table, killed: Killed) -> Resume | None:
    """Where the part of a killed worker went on, as its records tell: ids follow the order of the file."""
    runs = [run for run in table.runs if run.part == killed.part]
    began = min((run.first for run in runs), default=0)
    after = [run for run in runs if run.process != killed.process]
    return Resume(process=after[0].process, at=after[0].first - began) if after else None


def checks(table: Table, data: Data, killed: Killed | None) -> list[Check]:
    """Everything that must hold of a play."""
    return [*_of_records(table, data), *_of_the_kill(table, killed)]


def _of_records(table: Table, data: Data) -> Iterator[Check]:
    missing, doubled = data.records - table.ids, table.records - table.ids
    yield _equal("records in the table", table.records, data.records)
    message = f"{table.ids:,} different ids, {missing:,} missing"
    yield Check(name="every record is there", ok=missing == 0, text=message)
    yield Check(name="none is there twice", ok=doubled == 0, text=f"{doubled:,} doubled")
    span = f"{table.first} to {table.last}"
    yield Check(name="ids", ok=(table.first, table.last) == (0, data.records - 1), text=span)
    yield _equal("sum of the amounts", table.amount, data.amount)


def _of_the_kill(table: Table, killed: Killed | None) -> Iterator[Check]:
    if killed is None:
        yield Check(name="a worker was killed", ok=False, text="none was caught in the middle of a part")
        return
    before = sum(
        run.records for run in table.runs if (run.part, run.process) == (killed.part, killed.process)
    )
    resume = resume_of(table, killed)
    message = f"process {killed.process}, after {before:,} records of part {killed.part}"
    yield Check(name="a worker was killed", ok=before > 0, text=message)
    if resume is None:
        yield Check(name="another went on", ok=False, text=f"part {killed.part} was not resumed")
        return
    message = (
        f"process {resume.process}, at record {resume.at:,}; {max(before - resume.at, 0):,} were done again"
    )
    yield Check(name="another went on where it stopped", ok=resume.at == before, text=message)


def _equal(name: str, found: Any, expected: int) -> Check:
    if found == expected:
        return Check(name=name, ok=True, text=f"{expected:,}")
    shown = "none" if found is None else f"{found:,}"
    return Check(name=name, ok=False, text=f"{shown}, and should be {expected:,}")
