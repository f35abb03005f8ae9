"""The verbs that measure: bench store, bench worker. What they do lives in `windlass.bench`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from rich.console import Console

from windlass.cli.options import json_option

if TYPE_CHECKING:
    from windlass.bench.plan import Plan
    from windlass.bench.run import Bench

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def bench() -> None:
    """Measure Windlass on this machine."""


def _plan_options(quick: str) -> Callable[[F], F]:
    def add(function: F) -> F:
        for option in reversed(
            (
                click.option(
                    "--database",
                    metavar="URL",
                    help="Measure here, in a schema or file of the run's own. [temporary ones]",
                ),
                click.option(
                    "--jobs", type=click.IntRange(min=1), help="Jobs of a scenario that counts jobs."
                ),
                click.option(
                    "--seconds", type=click.FloatRange(min=0.1), help="Seconds of one that runs by the clock."
                ),
                click.option("--quick", is_flag=True, help=f"Less of everything: {quick}."),
                json_option,
            )
        ):
            function = option(function)
        return function

    return add


@bench.command()
@_plan_options("under 40 seconds instead of 3 minutes")
def store(database: str | None, jobs: int | None, seconds: float | None, quick: bool, as_json: bool) -> None:
    """Enqueue, claim and finish, with PostgreSQL beside a raw insert and a SKIP LOCKED loop.

    Without --database nothing of yours is used, whatever the environment says."""
    from windlass.bench import on_stores
    from windlass.bench.plan import make_plan

    _measure(on_stores, make_plan(quick=quick, jobs=jobs, seconds=seconds), database, as_json)


@bench.command()
@_plan_options("about 2 minutes instead of 15")
def worker(database: str | None, jobs: int | None, seconds: float | None, quick: bool, as_json: bool) -> None:
    """Real worker processes: drain, sustained load, pick-up latency, idling; beside a bare SKIP LOCKED loop.

    Without --database nothing of yours is used, whatever the environment says."""
    from windlass.bench import on_workers
    from windlass.bench.plan import make_work_plan

    _measure(on_workers, make_work_plan(quick=quick, jobs=jobs, seconds=seconds), database, as_json)


def _measure(bench: Bench, plan: Plan, database: str | None, as_json: bool) -> None:
    from windlass.bench.run import run
    from windlass.bench.table import show

    talk = Console(stderr=True)
    with talk.status("starting") as status:
        report = run(bench, plan, database, status.update)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        show(report, Console())
