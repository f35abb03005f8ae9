"""The verbs about queues: queues lists them, queue pauses, resumes, sets and warms single ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import click
import msgspec

from windlass.cli.options import OrWord, PerSecond, Span, json_option, on_store
from windlass.cli.target import Target
from windlass.cli.text import print_json, print_table
from windlass.core.names import check_name
from windlass.core.rates import rate_text
from windlass.store.protocol import Store
from windlass.store.records import Depth, QueueRecord
from windlass.words import deeds
from windlass.words.sample import Sample, look
from windlass.words.shapes import Shape, queue_as_json
from windlass.words.text import one_line, span
from windlass.words.waiting import load_in_words

COLUMNS: Final = ("queue", ">ready", ">running", ">scheduled", ">retrying", ">dead", ">oldest")
"""What is shown of a queue wherever queues are listed; see `counts`."""
_DEFAULTS: Final = QueueRecord(name="default")
_SPANS: Final = frozenset(
    {
        "retention",
        "dead_retention",
        "safety_bound",
        "backoff_base",
        "backoff_cap",
        "cool_base",
        "cool_cap",
        "shed_wait",
        "shed_latency",
        "cooling",
    }
)
_RATES: Final = frozenset({"rate_min", "rate_max", "rate"})
_WHOLE: Final = OrWord(click.IntRange(min=1))
_SPAN: Final = OrWord(Span())
_RATE: Final = OrWord(PerSecond())


@click.command()
@on_store
@json_option
def queues(target: Target, as_json: bool) -> None:
    """Every queue: its jobs, its oldest wait, and what holds it up or limits it."""
    sample = target.run(look)
    if as_json:
        print_json({"queues": queues_as_json(sample)})
    else:
        print_table(
            (*COLUMNS, ">slots", ">workers", "state"), [_row(sample, name) for name in sample.names()]
        )


def queues_as_json(sample: Sample) -> list[Shape]:
    """Every queue of a sample, by name."""
    assigned = sample.slots()
    return [
        queue_as_json(
            sample.steering.queues.get(name, QueueRecord(name=name)),
            sample.depth.get(name, Depth()),
            assigned.get(name),
            sample.steering.serving.get(name, 0),
        )
        for name in sample.names()
    ]


def _row(sample: Sample, name: str) -> Sequence[object]:
    record = sample.steering.queues.get(name, QueueRecord(name=name))
    depth = sample.depth.get(name, Depth())
    most = "" if record.max_workers is None else f"/{record.max_workers}"
    return (
        name,
        *(f"{count:,}" for count in counts(depth)),
        None if depth.oldest is None else span(depth.oldest),
        f"{sample.slots().get(name, '–')}{most}",
        sample.steering.serving.get(name, 0),
        load_in_words(record),
    )


def counts(depth: Depth) -> tuple[int, int, int, int, int]:
    """The counts of a queue in the order in which they are shown."""
    return depth.ready, depth.running, depth.scheduled, depth.retrying, depth.dead


@click.group()
def queue() -> None:
    """Pause, resume and set single queues, for the whole cluster and without a restart."""


_names = click.argument("names", metavar="NAME...", nargs=-1, required=True)


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
        await known(store, names)
        for name in names:
            await store.set_queue(name, {"paused": paused})

    target.act(work, lambda _: [deeds.paused(name, paused) for name in names])
    for name in names:
        click.echo(f"{name} {'paused' if paused else 'resumed'}")


@queue.command()
@click.argument("name")
@on_store
def warm(target: Target, name: str) -> None:
    """End the cool-down of a queue that was throttled, now."""

    async def work(store: Store) -> None:
        await known(store, [name])
        await store.warm(name, force=True)

    target.act(work, lambda _: [deeds.warmed(name)])
    click.echo(f"{name} is no longer cooling")


@queue.command("set")
@click.argument("name")
@click.option(
    "--max-workers", type=_WHOLE, metavar="N", help="Slots over the whole cluster. [what workers say]"
)
@click.option("--retention", type=_SPAN, metavar="DURATION", help="How long succeeded jobs are shown. [7d]")
@click.option("--dead-retention", type=_SPAN, metavar="DURATION", help="How long dead jobs are kept. [30d]")
@click.option("--window", type=_WHOLE, metavar="N", help="Jobs with a fair key let in at a time. [100]")
@click.option(
    "--safety-bound", type=_SPAN, metavar="DURATION", help="No run is longer, whatever it says. [1h]"
)
@click.option(
    "--backoff/--no-backoff", default=None, help="Whether retries and cool-downs wait longer each time."
)
@click.option("--backoff-base", type=_SPAN, metavar="DURATION", help="The first wait before a retry. [5s]")
@click.option("--backoff-cap", type=_SPAN, metavar="DURATION", help="The longest wait before a retry. [30m]")
@click.option("--cool-base", type=_SPAN, metavar="DURATION", help="The first cool-down of a throttle. [1m]")
@click.option("--cool-cap", type=_SPAN, metavar="DURATION", help="The longest cool-down. [30m]")
@click.option("--concurrency", type=_WHOLE, metavar="N", help="Jobs that run at a time, exactly. [any]")
@click.option("--governor", type=click.BOOL, metavar="on|off", help="Find its rate by trying. [off]")
@click.option("--rate-min", type=_RATE, metavar="RATE", help="The governor's lowest rate of jobs. [1/s]")
@click.option("--rate-max", type=_RATE, metavar="RATE", help="The governor's highest rate. [1000/s]")
@click.option("--max-depth", type=_WHOLE, metavar="N", help="Refuse new jobs when so many are ready. [any]")
@click.option("--shed-depth", type=_WHOLE, metavar="N", help="Shed load at so many ready jobs. [never]")
@click.option("--shed-wait", type=_SPAN, metavar="DURATION", help="Shed load at such a wait. [never]")
@click.option(
    "--shed-latency", type=_SPAN, metavar="DURATION", help="Shed load when the store is so slow. [never]"
)
@on_store
@json_option
def set_(target: Target, name: str, as_json: bool, **given: Any) -> None:
    """Change settings of a queue, or declare it, and print them all; `none` brings a default back."""
    check_name("queue", name)
    changes = {
        setting: getattr(_DEFAULTS, setting) if value is OrWord.UNSET else value
        for setting, value in given.items()
        if value is not None
    }
    try:
        record = target.act(
            lambda store: store.set_queue(name, changes),
            lambda _: [deeds.set_queue(name, changes)],
            create=True,
        )
    except ValueError as error:
        raise click.ClickException(f"queue {name}: {one_line(str(error))}") from error
    _print(record, target.settings.retention, as_json)


@queue.command("show")
@click.argument("name")
@on_store
@json_option
def show_(target: Target, name: str, as_json: bool) -> None:
    """The settings of a queue, and how it stands: cool-down, pressure, what was refused, its governor."""

    async def work(store: Store) -> QueueRecord:
        await known(store, [name])
        return next(record for record in await store.queues() if record.name == name)

    _print(target.run(work), target.settings.retention, as_json)


def _print(record: QueueRecord, retention: float, as_json: bool) -> None:
    if as_json:
        print_json({"queue": msgspec.structs.asdict(record)})
        return
    for setting, value in msgspec.structs.asdict(record).items():
        click.echo(f"{setting.replace('_', '-'):15} {_shown(setting, value, retention)}")


def _shown(setting: str, value: Any, retention: float) -> str:
    if value is None:
        return f"default ({span(retention)})" if setting == "retention" else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if setting in _RATES:
        return rate_text(value)
    return span(value) if setting in _SPANS else one_line(str(value))


async def known(store: Store, names: Iterable[str]) -> None:
    """Refuse names that are no queue's: a mistyped one must not become a queue of its own."""
    there = {record.name for record in await store.queues()}
    unknown = [one_line(repr(name), 80) for name in names if name not in there]
    if unknown:
        raise click.ClickException(
            f"no queue {', '.join(unknown)}; there are {', '.join(sorted(there)) or 'none'}; "
            "`windlass queue set NAME` declares one"
        )
