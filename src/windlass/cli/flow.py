"""The commands about held jobs: gates lists where they wait [F3], watermarks how far keys have come [F6]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import click

from windlass.cli.options import QueueName, limit_option, with_json
from windlass.cli.output import print_listing
from windlass.cli.target import Target, with_now
from windlass.core.flow.gates import reason
from windlass.handles.queue import find_queues
from windlass.presentation.flow import GateShape, WatermarkShape
from windlass.presentation.text import capped, local, span
from windlass.presentation.waiting import budget_in_words
from windlass.store.protocol import Store
from windlass.store.records import BudgetRecord, GateRecord, Watermark

GATES: Final = ("gate", ">through", ">waiting", ">oldest", "each job there")
"""What is shown of a gate wherever gates are listed; see `gate_row`."""
BUDGET: Final = "budget:"
_MARKS: Final = ("key", ">position", "moved", ">waiting", ">age")


@click.command()
@limit_option(100)
@with_json
def gates(target: Target, limit: int, as_json: bool) -> None:
    """List gates with held jobs: keys, limits, ordering keys and budgets, the longest wait first.

    "through" counts the jobs that have passed the gate: they run, or are about to.
    """

    async def work(store: Store) -> tuple[list[GateRecord], list[BudgetRecord]]:
        return await store.gates(limit), await store.budgets()

    found, budgets = target.run(work)
    print_listing(as_json, "gates", found, GateShape.of, GATES, lambda gate: gate_row(gate, budgets))


def gate_row(gate: GateRecord, budgets: Iterable[BudgetRecord]) -> Sequence[object]:
    """A gate as a row under GATES."""
    why = reason(gate.name)
    if gate.name.startswith(BUDGET):
        name = gate.name.removeprefix(BUDGET).partition("/")[0]
        more = budget_in_words(next((each for each in budgets if each.name == name), None))
        why += f" ({more})" if more else ""
    return gate.name, f"{gate.passes:,}", capped(gate.waiting), span(gate.oldest), why


@click.command()
@click.argument("queue", type=QueueName())
@click.option("--key", metavar="KEY", help="Only this ordering key.")
@limit_option(100)
@with_json
def watermarks(target: Target, queue: str, key: str | None, limit: int, as_json: bool) -> None:
    """List how far the ordering keys of a queue have come: all jobs up to a key's position have ended."""

    async def work(store: Store) -> list[Watermark]:
        await find_queues(store, [queue])
        return await store.watermarks(queue, key=key, limit=limit)

    found, now = target.run(with_now(work))
    print_listing(as_json, "watermarks", found, WatermarkShape.of, _MARKS, lambda mark: _row(mark, now))


def _row(mark: Watermark, now: float) -> Sequence[object]:
    age = span(mark.age) if mark.waiting else None
    return mark.key, f"{mark.position:,}", local(mark.at, now), capped(mark.waiting), age
