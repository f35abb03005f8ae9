"""The verbs that measure: bench store. What they do lives in `windlass.bench`."""

from __future__ import annotations

import click
import msgspec
from rich.console import Console

from windlass.cli.database import json_option


@click.group()
def bench() -> None:
    """Measure Windlass on this machine."""


@bench.command()
@click.option(
    "--database",
    metavar="URL",
    help="Measure here, in a schema or file of the run's own. [temporary SQLite and PostgreSQL]",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Jobs of a scenario that counts jobs. [50000]")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Seconds of one that runs by the clock. [3]")
@click.option("--quick", is_flag=True, help="Less of everything: under 40 seconds instead of 3 minutes.")
@json_option
def store(database: str | None, jobs: int | None, seconds: float | None, quick: bool, as_json: bool) -> None:
    """Enqueue, claim and finish, with PostgreSQL beside a raw insert and a SKIP LOCKED loop.

    Without --database nothing of yours is used, whatever the environment says."""
    from windlass.bench.plan import make_plan
    from windlass.bench.run import run
    from windlass.bench.table import show

    plan = make_plan(quick=quick, jobs=jobs, seconds=seconds)
    talk = Console(stderr=True)
    with talk.status("starting") as status:
        report = run(plan, database, status.update)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        show(report, Console())
