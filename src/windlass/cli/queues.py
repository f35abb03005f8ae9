"""The verbs about queues: queues lists them, queue pauses, resumes, sets and warms single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import click
import msgspec

from windlass.cli.options import QueueName, on_store, with_json
from windlass.cli.output import print_json, print_listing
from windlass.cli.settings import change, changes_of, setting_options, shown
from windlass.cli.target import Target
from windlass.core.names import check_name
from windlass.handles.queue import find_queues
from windlass.presentation import audit
from windlass.presentation.cluster_state import ClusterState, read_state
from windlass.presentation.flow import QueueShape
from windlass.presentation.text import span
from windlass.store.fields import QueueSettings, Unit, fields_of
from windlass.store.protocol import Store
from windlass.store.records import QueueRecord

COLUMNS: Final = ("queue", ">ready", ">running", "?>scheduled", "?>retrying", ">dead", ">oldest")
"""What is shown of a queue wherever queues are listed; see `queue_row`."""
_UNITS: Final[Mapping[str, Unit]] = {
    **{name: field.unit for name, field in fields_of(QueueRecord).items()},
    "cooling": "time",
    "rate": "rate",
}
"""Of settings, and of state that is printed alike."""


@click.command()
@with_json
def queues(target: Target, as_json: bool) -> None:
    """Every queue: its jobs, its oldest wait, and what holds it up or limits it."""
    state = target.run(read_state)
    columns = (*COLUMNS, "??>slots", "??>workers", "state")
    print_listing(
        as_json, "queues", state.names(), partial(QueueShape.of, state), columns, partial(_row, state)
    )


def _row(state: ClusterState, name: str) -> Sequence[object]:
    record = state.queue(name)
    most = "" if record.max_workers is None else f"/{record.max_workers}"
    return (
        *queue_row(state, name),
        f"{state.slots().get(name, '–')}{most}",
        state.view.serving.get(name, 0),
        state.in_words(name),
    )


def queue_row(state: ClusterState, name: str) -> Sequence[object]:
    """A queue as a row under COLUMNS; what may be an estimate has a tilde [M1]."""
    depth = state.depth_of(name)
    oldest = None if depth.oldest is None else span(depth.oldest)
    counts = (f"{'~' if depth.estimate and count > 1000 else ''}{count:,}" for count in depth.counts)
    return name, *counts, oldest


@click.group()
def queue() -> None:
    """Pause, resume and set single queues, for the whole cluster and without a restart."""


_names = click.argument("names", metavar="NAME...", type=QueueName(), nargs=-1, required=True)


@queue.command()
@_names
@on_store
def pause(target: Target, names: tuple[str, ...]) -> None:
    """Give out no more jobs of these queues; what runs may finish."""
    _set_paused(target, names, True)


@queue.command()
@_names
@on_store
def resume(target: Target, names: tuple[str, ...]) -> None:
    """Give out jobs of these queues again."""
    _set_paused(target, names, False)


def _set_paused(target: Target, names: Sequence[str], paused: bool) -> None:
    async def work(store: Store) -> None:
        await find_queues(store, names)
        for name in names:
            await store.set_queue(name, {"paused": paused})

    target.act(work, lambda _: [audit.paused(name, paused) for name in names])
    for name in names:
        click.echo(f"{name} {'paused' if paused else 'resumed'}")


@queue.command()
@click.argument("name", type=QueueName())
@on_store
def warm(target: Target, name: str) -> None:
    """End the cool-down of a queue that was throttled, now."""

    async def work(store: Store) -> None:
        await find_queues(store, [name])
        await store.warm(name, force=True)

    target.act(work, lambda _: [audit.warmed(name)])
    click.echo(f"{name} is no longer cooling")


@queue.command("set")
@click.argument("name", type=QueueName())
@setting_options(QueueSettings)
@with_json
def set_(target: Target, name: str, as_json: bool, **given: Any) -> None:
    """Change settings of a queue, or declare it, and print them all; `none` brings a default back."""
    check_name("queue", name)
    changes = changes_of(QueueSettings, given)
    about = f"queue {name}: "
    record = change(target, name, changes, lambda store: store.set_queue, audit.set_queue, about)
    _print(record, target.settings.retention, as_json)


@queue.command("show")
@click.argument("name", type=QueueName())
@with_json
def show_(target: Target, name: str, as_json: bool) -> None:
    """The settings of a queue, and how it stands: cool-down, pressure, what was refused, its governor."""

    (record,) = target.run(lambda store: find_queues(store, [name]))
    _print(record, target.settings.retention, as_json)


def _print(record: QueueRecord, retention: float, as_json: bool) -> None:
    if as_json:
        print_json({"queue": record})
        return
    for name, value in msgspec.structs.asdict(record).items():
        none = f"default ({span(retention)})" if name == "retention" else "none"
        click.echo(f"{name.replace('_', '-'):15} {shown(value, _UNITS.get(name), none)}")
