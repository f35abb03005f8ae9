"""The verbs that look at the cluster as a whole: workers lists workers, top watches them and the queues. A
frame of top asks the store five cheap questions; see `windlass.presentation.cluster_state`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from typing import Final

import click
from rich.console import Group, RenderableType
from rich.text import Text

from windlass.cli.budgets import COLUMNS as BUDGETS
from windlass.cli.budgets import budget_row
from windlass.cli.flow import GATES, gate_row
from windlass.cli.options import Span, with_json
from windlass.cli.output import make_table, print_json, show, watch
from windlass.cli.queues import COLUMNS, queue_row
from windlass.cli.target import Target
from windlass.cli.verbs import command, table
from windlass.operations.budgets import BudgetView
from windlass.operations.operation import Ops
from windlass.operations.queues import GateView, QueueView
from windlass.operations.workers import WorkerView, list_workers
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.text import Shape, iso, moment, plain, span
from windlass.store.records import Depth

_QUEUES = (*COLUMNS, ">±/s", "?>dead/s", "state")
_WORKERS = ("worker", ">heartbeat", "state", "queues")


@click.command()
@click.option(
    "--interval",
    type=Span(least=0.1),
    default="1s",
    metavar="DURATION",
    show_default=True,
    help="Time between frames.",
)
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@with_json
def top(target: Target, interval: float, once: bool, as_json: bool) -> None:
    """Watch queues and workers live, until q or Ctrl-C; with --json, one document per frame.

    ±/s is how fast the number of unfinished jobs in a queue grows, or shrinks if negative. Below the queues
    and workers are budgets that are short of tokens, and the gates where jobs wait longest.
    """
    if not (once or as_json or sys.stdout.isatty()):
        raise click.ClickException("stdout is not a terminal; use --once or --json")
    with contextlib.suppress(KeyboardInterrupt):
        target.with_ops(lambda ops: _watch(ops, interval, once, as_json))


async def _watch(ops: Ops, interval: float, once: bool, as_json: bool) -> None:
    before, sample = None, await ops.state()

    async def look() -> None:
        nonlocal before, sample
        last, before = sample, None  # no rates where the store does not answer
        sample = await ops.state()
        before = last

    if as_json:
        print_json(frame_as_json(sample, before), indent=None)
        while not once:
            await asyncio.sleep(interval)
            await look()
            print_json(frame_as_json(sample, before), indent=None)
    elif once:
        show(frame(sample, before))
    else:
        await watch(lambda: frame(sample, before), look, interval)


# -- frames ---------------------------------------------------------------------------------------------


def frame(sample: ClusterState, before: ClusterState | None) -> RenderableType:
    """Queues and workers as two tables, and what jobs stand aside for where they do."""
    tables = [
        make_table(_QUEUES, [_queue_row(sample, before, name) for name in sample.names()]),
        make_table(_WORKERS, [_short_row(worker) for worker in _workers(sample)]),
    ]
    if sample.short:
        tables.append(make_table(BUDGETS, [budget_row(budget) for budget in sample.short]))
    if sample.gates:
        tables.append(make_table(GATES, [gate_row(gate) for gate in _gates(sample)]))
    return Group(*[each for table in tables for each in (Text(), table)][1:])


def _queue_row(sample: ClusterState, before: ClusterState | None, name: str) -> Sequence[object]:
    changes = (None if rate is None else f"{rate:+,.1f}" for rate in rates(sample, before, name))
    return *queue_row(QueueView.of(sample, name, {}, {})), *changes, sample.in_words(name)


def _short_row(worker: WorkerView) -> Sequence[object]:
    return worker.label or worker.id, span(worker.heartbeat_age), worker.state_text, ", ".join(worker.queues)


def _workers(sample: ClusterState) -> list[WorkerView]:
    return [WorkerView.of(worker, sample) for worker in sample.workers]


def _gates(sample: ClusterState) -> list[GateView]:
    return [GateView.of(gate, sample.short) for gate in sample.gates]


def frame_as_json(sample: ClusterState, before: ClusterState | None) -> Shape:
    """Return the frame as one document."""
    queues = [plain(QueueView.of(sample, name, {}, {})) for name in sample.names()]
    for queue in queues:
        queue["unfinished_per_second"], queue["dead_per_second"] = rates(sample, before, queue["name"])
    return {
        "at": iso(sample.at),
        "queues": queues,
        "workers": _workers(sample),
        "short_budgets": [BudgetView.of(budget) for budget in sample.short],
        "gates": _gates(sample),
    }


def rates(sample: ClusterState, before: ClusterState | None, queue: str) -> Sequence[float | None]:
    """By how much the unfinished and the dead jobs of a queue change in a second."""
    if before is None or sample.tick <= before.tick:
        return None, None
    now, then = sample.depth_of(queue), before.depth_of(queue)
    passed = sample.tick - before.tick
    return tuple(
        round((a - b) / passed, 3) for a, b in ((_unfinished(now), _unfinished(then)), (now.dead, then.dead))
    )


def _unfinished(depth: Depth) -> int:
    return depth.ready + depth.running + depth.scheduled + depth.retrying


# -- workers --------------------------------------------------------------------------------------------

_LISTED = ("worker", "?host", "??>pid", "queues", "?abilities", ">slots", ">heartbeat", "?>up", "state")


def _worker_row(worker: WorkerView) -> Sequence[object]:
    return (
        worker.label or worker.id,
        worker.host,
        worker.pid,
        ", ".join(worker.queues),
        ", ".join(worker.abilities),
        sum(worker.slots.values()) if worker.slots else "–",
        f"{span(worker.heartbeat_age)} ago",
        span(time.time() - moment(worker.started_at)),
        worker.state_text,
    )


workers: Final = command(list_workers, table(_LISTED, _worker_row))
