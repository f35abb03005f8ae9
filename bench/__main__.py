"""The command `python -m bench`."""

from __future__ import annotations

import datetime
import json
import time
from pathlib import Path
from typing import Final

import click

from bench.ground import WHEEL
from bench.page import write_page
from bench.plan import FULL, QUICK
from bench.run import Run, chosen
from bench.run import scenarios as all_of
from bench.subjects import HERE
from tests.postgres_install import HOW, STOCK, find_stock

LIMIT: Final = {"full": 115 * 60.0, "quick": 14 * 60.0}
"""Seconds after which nothing new is begun."""


@click.group(invoke_without_command=True)
@click.option("--quick", is_flag=True, help="A look: smaller, fewer rounds, fifteen minutes at most.")
@click.option("--peers", default="", help="Only these, by name, with commas; Windlass is always among them.")
@click.option("--scenarios", default="", help="Only those whose names begin so, with commas.")
@click.option(
    "--server",
    default=STOCK,
    show_default=True,
    metavar="stock|wheel|URL",
    help="Which PostgreSQL: that of this machine's packages, that of a wheel, or one that runs already.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to write; bench/results/<date> if not said."
)
@click.pass_context
def bench(
    context: click.Context, quick: bool, peers: str, scenarios: str, server: str, out: Path | None
) -> None:
    """Windlass beside its peers, on this machine, now. Prints each figure and writes JSON and a page."""
    if context.invoked_subcommand:
        return
    plan = QUICK if quick else FULL
    only = [each for each in scenarios.split(",") if each]
    known = [each.name for each in all_of(plan)]
    if unknown := [each for each in only if not any(name.startswith(each) for name in known)]:
        raise click.BadParameter(f"no such scenario: {', '.join(unknown)}; known: {', '.join(known)}")
    try:
        subjects = chosen(peers)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if server == STOCK and find_stock() is None:
        raise click.BadParameter(f"no stock PostgreSQL found: {HOW}; or take --server wheel")
    if server not in (STOCK, WHEEL) and not server.startswith(("postgresql://", "postgres://")):
        raise click.BadParameter(f"--server is stock, wheel or a postgresql:// URL, not {server}")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    folder = out or HERE / "results" / (f"{today}-quick" if quick else today)
    run = Run(plan, folder, subjects, time.monotonic() + LIMIT[plan.name], server)
    run.go(only)
    write_page(folder, run.found)
    click.echo(f"\n{folder / 'README.md'}")


@bench.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
def page(folder: Path) -> None:
    """Draw the page of a run anew from its results.json."""
    write_page(folder, json.loads((folder / "results.json").read_text("utf-8")))


if __name__ == "__main__":
    bench()
