"""The verbs that look at the cluster as a whole: workers lists workers, top watches them and the queues. A
frame of top asks the store five cheap questions; see `windlass.presentation.cluster_state`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from windlass.cli.budgets import COLUMNS as BUDGETS
from windlass.cli.budgets import budget_row
from windlass.cli.flow import GATES, gate_row
from windlass.cli.options import Span, json_option, on_store
from windlass.cli.output import cells, console, happens, keys, make_table, print_json, print_table, show
from windlass.cli.queues import COLUMNS, counts, queues_as_json
from windlass.cli.target import Target
from windlass.errors import StoreUnavailable
from windlass.presentation.cluster_state import ClusterState, read_full_state, read_state
from windlass.presentation.flow import budget_as_json, gate_as_json, worker_as_json
from windlass.presentation.text import Shape, iso, one_line, span
from windlass.presentation.waiting import load_in_words
from windlass.store.protocol import Store
from windlass.store.records import Depth, QueueRecord, WorkerRecord

_QUEUES = (*COLUMNS, ">±/s", ">dead/s", "state")
_WORKERS = ("worker", ">beat", "alive", "queues")


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
@on_store
@json_option
def top(target: Target, interval: float, once: bool, as_json: bool) -> None:
    """Watch queues and workers live, until q or Ctrl-C; with --json, one document per frame.

    ±/s is how fast the number of unfinished jobs in a queue grows, or shrinks if negative. Below the queues
    and workers are budgets that are short of tokens, and the gates where jobs wait longest.
    """
    if not (once or as_json or sys.stdout.isatty()):
        raise click.ClickException("stdout is not a terminal; use --once or --json")
    with contextlib.suppress(KeyboardInterrupt):
        target.run(lambda store: _watch(store, interval, once, as_json))


async def _watch(store: Store, interval: float, once: bool, as_json: bool) -> None:
    sample = await read_full_state(store)
    if once or as_json:
        await _print(store, sample, interval, once, as_json)
        return
    with keys() as quit_wanted, Live(frame(sample, None), console=console(), screen=True) as live:
        while not await happens(quit_wanted, interval):
            try:
                before, sample = sample, await read_full_state(store)
                live.update(frame(sample, before), refresh=True)
            except StoreUnavailable as error:  # the next frame may come through
                notice = Text(one_line(f"no answer, trying again: {error}"), style="bold red")
                live.update(Group(notice, frame(sample, None)), refresh=True)


async def _print(store: Store, sample: ClusterState, interval: float, once: bool, as_json: bool) -> None:
    if not as_json:
        show(frame(sample, None))
        return
    before: ClusterState | None = None
    while True:
        print_json(frame_as_json(sample, before), indent=None)
        if once:
            return
        await asyncio.sleep(interval)
        before, sample = sample, await read_full_state(store)


# -- frames ---------------------------------------------------------------------------------------------


def frame(sample: ClusterState, before: ClusterState | None) -> RenderableType:
    """Queues and workers as two tables, and what jobs stand aside for where they do."""
    queues = make_table(*_QUEUES)
    for name in sample.names():
        record = sample.view.queues.get(name, QueueRecord(name=name))
        depth = sample.depth.get(name, Depth())
        queues.add_row(
            *cells(name, *(f"{count:,}" for count in counts(depth))),
            *cells(None if depth.oldest is None else span(depth.oldest)),
            *cells(*(None if rate is None else f"{rate:+,.1f}" for rate in rates(sample, before, name))),
            *cells(load_in_words(record)),
        )
    workers = make_table(*_WORKERS)
    for worker in sample.workers:
        beat = span(sample.at - worker.beat_at)
        state = alive_in_words(worker, sample.at)
        workers.add_row(*cells(worker.label or worker.id, beat, state, ", ".join(worker.queues)))
    tables = [queues, workers]
    for columns, rows in (
        (BUDGETS, [budget_row(budget) for budget in sample.short]),
        (GATES, [gate_row(gate, sample.short) for gate in sample.gates]),
    ):
        if rows:
            tables.append(table := make_table(*columns))
            for row in rows:
                table.add_row(*cells(*row))
    return Group(*[each for table in tables for each in (Text(), table)][1:])


def frame_as_json(sample: ClusterState, before: ClusterState | None) -> Shape:
    """The same as one document."""
    queues = queues_as_json(sample)
    for queue in queues:
        queue["unfinished_per_second"], queue["dead_per_second"] = rates(sample, before, queue["name"])
    return {
        "at": iso(sample.at),
        "queues": queues,
        "workers": workers_as_json(sample),
        "short_budgets": [budget_as_json(budget) for budget in sample.short],
        "gates": [gate_as_json(gate) for gate in sample.gates],
    }


def rates(sample: ClusterState, before: ClusterState | None, queue: str) -> Sequence[float | None]:
    """By how much the unfinished and the dead jobs of a queue change in a second."""
    if before is None or sample.tick <= before.tick:
        return None, None
    now, then = (each.depth.get(queue, Depth()) for each in (sample, before))
    passed = sample.tick - before.tick
    return tuple(
        round((a - b) / passed, 3) for a, b in ((_unfinished(now), _unfinished(then)), (now.dead, then.dead))
    )


def _unfinished(depth: Depth) -> int:
    return depth.ready + depth.running + depth.scheduled + depth.retrying


# -- workers --------------------------------------------------------------------------------------------

_LISTED = ("worker", "host", ">pid", "queues", ">slots", ">beat", ">up", "alive")


@click.command()
@on_store
@json_option
def workers(target: Target, as_json: bool) -> None:
    """List workers that are alive or still hold jobs: host, queues, slots, last heartbeat."""
    sample = target.run(read_state)
    if as_json:
        print_json({"workers": workers_as_json(sample)})
    else:
        print_table(_LISTED, [_worker_row(worker, sample) for worker in sample.workers])


def workers_as_json(sample: ClusterState) -> list[Shape]:
    """Every worker of a sample."""
    slots = sample.view.slots
    return [worker_as_json(worker, slots.get(worker.id, {}), sample.at) for worker in sample.workers]


def alive_in_words(worker: WorkerRecord, now: float) -> str:
    """Whether a worker lives; one that is late has missed a whole lease and awaits its rescue."""
    if not worker.alive:
        return "no, holds jobs"
    return "yes" if now - worker.beat_at <= worker.lease else "late"


def _worker_row(worker: WorkerRecord, sample: ClusterState) -> Sequence[object]:
    return (
        worker.label or worker.id,
        worker.host,
        worker.pid,
        ", ".join(worker.queues),
        _slots(sample.view.slots.get(worker.id, {})),
        f"{span(sample.at - worker.beat_at)} ago",
        span(sample.at - worker.started_at),
        alive_in_words(worker, sample.at),
    )


def _slots(assigned: Mapping[str, int]) -> str:
    return str(sum(assigned.values())) if assigned else "–"
