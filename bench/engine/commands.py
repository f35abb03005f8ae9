"""The commands `python -m bench engine …`. What they do lives in the folder of the same name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click
import msgspec
from rich.console import Console

from bench.engine.figures import Report
from bench.engine.plan import Plan
from bench.engine.rounds import Progress
from bench.options import check_server, server_option
from windlass.cli.options import Reader, json_option
from windlass.core.durations import size as size_in_bytes
from windlass.store.factory import POSTGRES, SQLITE

F = TypeVar("F", bound=Callable[..., Any])
P = TypeVar("P", bound=Plan)
Measure = Callable[[P, Sequence[str], str, Progress], Report]
MIB: Final = 1024 * 1024


class _Size(Reader):
    """A size as people write it, in bytes; at least 1 MiB, since less tells nothing."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a size."""
        try:
            count = size_in_bytes(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if count < MIB:
            self.fail(f"{value} is too little to measure; give at least 1MiB", param, ctx)
        return count


@click.group()
def engine() -> None:
    """Windlass alone, part by part, beside what one would write by hand.

    Everything happens in databases and files of the run's own, which are gone afterwards. SQLite files lie
    where temporary files go: set TMPDIR to measure another disk."""


def _options(quick: str, rounds: int, stores: str = "both") -> Callable[[F], F]:
    """The options of every command, and how a quick run differs."""

    def add(function: F) -> F:
        for option in reversed(
            (
                click.option(
                    "--store",
                    type=click.Choice(["both", POSTGRES, SQLITE]),
                    default=stores,
                    show_default=True,
                    help="Measure on this store.",
                ),
                server_option,
                click.option(
                    "--rounds",
                    type=click.IntRange(min=1),
                    help=f"How often everything is repeated. [{rounds}]",
                ),
                click.option("--quick", is_flag=True, help=f"Less of everything: {quick}."),
                json_option,
            )
        ):
            function = option(function)
        return function

    return add


def _sizes(jobs: str, seconds: str) -> Callable[[F], F]:
    def add(function: F) -> F:
        clock = click.option("--seconds", type=click.FloatRange(min=0.1), help=seconds)
        return click.option("--jobs", type=click.IntRange(min=1), help=jobs)(clock(function))

    return add


@engine.command()
@_sizes("Jobs of a scenario that counts jobs. [50000]", "Seconds of one that runs by the clock. [3]")
@_options("under 40 seconds instead of 3 minutes", 7)
def store(store: str, server: str, as_json: bool, **sizes: Any) -> None:
    """Enqueue, claim and finish, with PostgreSQL beside a raw insert and a SKIP LOCKED loop."""
    from bench.engine.plan import make_plan
    from bench.engine.store.report import LABELS, about
    from bench.engine.store.run import measure

    report = _measured(measure, make_plan(**sizes), store, server)
    _show(report, about, LABELS, as_json)


@engine.command()
@click.option("--size", type=_Size(), help="Bytes of the file that is imported, such as 200MiB. [1GiB]")
@_options("64 MiB, once", 3)
def chunks(store: str, server: str, as_json: bool, **sizes: Any) -> None:
    """Import NDJSON with real worker processes, beside a plain loop over the same file.

    It takes about 6 minutes a store, and room for the file where temporary files go (TMPDIR)."""
    from bench.engine.chunks.plan import make_chunk_plan
    from bench.engine.chunks.report import LABELS, about
    from bench.engine.chunks.run import measure

    report = _measured(measure, make_chunk_plan(**sizes), store, server)
    _show(report, about, LABELS, as_json)


@engine.command()
@click.option(
    "--held", type=click.IntRange(min=1), help="Jobs held at one key while others are claimed. [100000]"
)
@click.option(
    "--crowd", type=click.IntRange(min=1), help="Jobs of one key beside which others are timed. [1000000]"
)
@click.option("--tries", type=click.IntRange(min=1), help="How often one of those is timed. [30]")
@_sizes("Jobs of a scenario that counts jobs. [50000]", "Seconds of one that runs by the clock. [5]")
@_options("3 rounds, 200,000 jobs of one key", 7)
def flow(store: str, server: str, as_json: bool, **sizes: Any) -> None:
    """Keys, budgets, order and schedules: what they cost, and how long others wait beside a great key.

    It takes about 10 minutes a store, most of them to enqueue a million jobs twice."""
    from bench.engine.flow.plan import make_flow_plan
    from bench.engine.flow.report import LABELS, about
    from bench.engine.flow.run import measure

    report = _measured(measure, make_flow_plan(**sizes), store, server)
    _show(report, about, LABELS, as_json)


@engine.command()
@click.option("--jobs", type=click.IntRange(min=1), help="Jobs of one backlog. [50000]")
@_options("10,000 jobs, 3 rounds", 7)
def handlers(store: str, server: str, as_json: bool, **sizes: Any) -> None:
    """Plain handlers beside `async def` ones that do as little: one worker process drains a backlog of each.

    It takes about 2 minutes."""
    from bench.engine.handlers.report import LABELS, about
    from bench.engine.handlers.run import measure
    from bench.engine.plan import make_plan

    report = _measured(measure, make_plan(**sizes), store, server)
    _show(report, about, LABELS, as_json)


@engine.command()
@click.option("--tries", type=click.IntRange(min=1), help="How often each page and call is timed. [100]")
@_sizes("Jobs in store while pages are timed. [1000000]", "Seconds of what runs by the clock. [5]")
@_options("100,000 jobs in store, 2 rounds", 5, POSTGRES)
def web(store: str, server: str, as_json: bool, **sizes: Any) -> None:
    """Mission Control: how long each page and call takes with a million jobs in store while jobs run, what
    viewers cost the engine, and how many jobs a second come in over HTTP.

    It takes about 5 minutes."""
    from bench.engine.web.plan import make_web_plan
    from bench.engine.web.report import LABELS, WebReport, about, pages_table
    from bench.engine.web.run import measure

    report = _measured(measure, make_web_plan(**sizes), store, server)
    _show(report, about, LABELS, as_json)
    for each in () if as_json else report.stores:
        if isinstance(each, WebReport):
            Console().print(pages_table(each))


@engine.command()
@_options("2 rounds, at most 4 children", 5)
def starts(store: str, server: str, as_json: bool, **sizes: Any) -> None:
    """How soon a killed child is replaced, what a start costs, and how much memory each child has alone:
    forked from a process that has imported the app, and started anew.

    It takes about 5 minutes a store, and needs the `dev` extra: one app imports Django and SQLAlchemy."""
    from bench.engine.starts.plan import make_start_plan
    from bench.engine.starts.report import LABELS, about
    from bench.engine.starts.run import measure

    report = _measured(measure, make_start_plan(**sizes), store, server)
    _show(report, about, LABELS, as_json)


@engine.command()
@click.option(
    "--processes", type=click.IntRange(1, 500), multiple=True, help="How many, again for each. [1 16 60]"
)
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Of standing idle, and under load. [10]")
@_options("1 and 4 processes, 4 seconds", 1, POSTGRES)
def processes(store: str, server: str, as_json: bool, **sizes: Any) -> None:
    """Worker processes that have nothing to do, and with 200 jobs a second: their connections and memory, and
    what they cost the server.

    It takes about 2 minutes."""
    from bench.engine.processes.plan import make_process_plan
    from bench.engine.processes.report import about
    from bench.engine.processes.run import measure

    _show(_measured(measure, make_process_plan(**sizes), store, server), about, {}, as_json)


@engine.command()
@click.option("--only", help="Of the things that grow only those with this word in their name.")
@click.option("--jobs", type=click.IntRange(min=1), help="Jobs at the most. [1000000]")
@click.option("--queues", type=click.IntRange(min=1), help="Queues at the most. [10000]")
@click.option("--schedules", type=click.IntRange(min=1), help="Schedules at the most. [10000]")
@click.option("--parts", type=click.IntRange(min=1), help="Parts of a parent at the most. [100000]")
@_options("a tenth of everything", 5)
def growth(store: str, server: str, as_json: bool, only: str | None, **sizes: Any) -> None:
    """Depth, queues, claims, schedules and parents beside more and more that merely lies around.

    It takes about 5 minutes a store."""
    from bench.engine.growth.plan import make_growth_plan
    from bench.engine.growth.run import GrowthReport, curves_table, measure

    report = _measured(functools.partial(measure, only=only), make_growth_plan(**sizes), store, server)
    if as_json:
        _show(report, str, {}, as_json)
        return
    for each in report.stores:
        if isinstance(each, GrowthReport):
            Console(width=140).print(curves_table(each))


def _measured(measure: Measure[P], plan: P, store: str, server: str) -> Report:
    """Measure, telling how far it is on stderr."""
    stores = [SQLITE, POSTGRES] if store == "both" else [store]
    if POSTGRES in stores:
        check_server(server)
    with Console(stderr=True).status("starting") as status:
        return measure(plan, stores, server, status.update)


def _show(
    report: Report, about: Callable[[dict[str, Any]], str], labels: dict[str, str], as_json: bool
) -> None:
    from bench.engine.table import show

    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        show(report, Console(), about(report.plan), labels)
