"""The command `python -m bench`."""

from __future__ import annotations

import datetime
import json
import signal
from dataclasses import replace
from pathlib import Path

import click

from bench.engine.commands import engine
from bench.options import check_server, server_option
from bench.servers import ROOT
from windlass.cli import Commands


@click.group(cls=Commands, invoke_without_command=True)
@click.option(
    "--plan",
    "name",
    type=click.Choice(["full", "wide", "quick", "smoke"]),
    default="full",
    show_default=True,
    help="How much: two hours; every peer once, half an hour; a look at PostgreSQL, 15 minutes; all of it at "
    "a tiny size, only to see that it works.",
)
@click.option("--peers", default="", help="Only these, by name, with commas; Windlass is always among them.")
@click.option("--scenarios", default="", help="Only those whose names begin so, with commas.")
@click.option("--rounds", type=click.IntRange(1), help="How often all that is short is repeated. [3; 1]")
@click.option("--before", metavar="REV", default="", help="Windlass at this commit takes part, too.")
@server_option
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to write; bench/results/<date> if not said."
)
@click.pass_context
def bench(
    context: click.Context,
    name: str,
    peers: str,
    scenarios: str,
    rounds: int | None,
    before: str,
    server: str,
    out: Path | None,
) -> None:
    """Measure Windlass on this machine, now.

    Without a command: beside its peers, each through its public API with its own recommended fast settings.
    Prints each figure, and writes JSON and a page; two hours at most. The options are of that run. The
    commands measure other things and have options of their own."""
    if context.invoked_subcommand:
        return
    from bench.peers import run
    from bench.peers.page import failures, write_page
    from bench.peers.plan import PLANS
    from bench.peers.scenarios.catalog import scenarios as catalog

    plan = PLANS[name]
    if rounds:
        minutes = plan.minutes * max(1, rounds // plan.rounds)
        plan = replace(plan, rounds=rounds, minutes=minutes)
    only = [each for each in scenarios.split(",") if each]
    known = [each.name for each in catalog(plan)]
    if unknown := [each for each in only if not any(name.startswith(each) for name in known)]:
        raise click.BadParameter(f"no such scenario: {', '.join(unknown)}; known: {', '.join(known)}")
    try:
        subjects = run.chosen(peers, before)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    check_server(server)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    folder = out or ROOT / "bench" / "results" / (today if name == "full" else f"{today}-{name}")
    whole = run.Run(plan, folder, subjects, only, server)
    whole.go()
    write_page(folder, whole.found)
    click.echo(f"\n{folder / 'README.md'}")
    if broken := list(failures(whole.found)):
        raise click.ClickException("\n".join(["did not work:", *broken]))


@bench.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
def page(folder: Path) -> None:
    """Draw the page of a run beside peers anew from its results.json."""
    from bench.peers.page import write_page

    write_page(folder, json.loads((folder / "results.json").read_text("utf-8")))


@bench.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
def link(folder: Path) -> None:
    """Take the figures of README, docs and their picture from this run, and link its page."""
    from bench.peers import linked

    try:
        changed = linked.link(folder)
    except linked.NotWhole as error:
        raise click.ClickException(str(error)) from error
    for each in changed:
        click.echo(each.relative_to(ROOT))


@bench.command()
@click.option("--quick", is_flag=True, help="A look: a tenth of the jobs, fewer rounds.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write figures and settings as JSON.")
def servers(quick: bool, out: Path | None) -> None:
    """Windlass alone on the stock PostgreSQL and on that of the wheel, in turns.

    Drain, sustained load, a pinned snapshot, pick-up, bulk enqueue, promotion, and every page with a million
    jobs in store. It takes about half an hour."""
    from bench.stock_and_wheel import compare

    check_server("stock")
    compare(quick, out)


@bench.command()
@click.option("--rounds", type=click.IntRange(1), default=20, show_default=True, help="Jobs for each way.")
@click.option(
    "--schedules",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Fires of a schedule to wait for in each place, a minute each.",
)
@click.option("--only", default="", help="Only places whose names begin so: sqlite, postgresql.")
@server_option
def wakeups(rounds: int, schedules: int, only: str, server: str) -> None:
    """How long an idle worker takes to begin a job, for each way in which it is woken.

    On SQLite, on PostgreSQL, and on PostgreSQL where NOTIFY is silent. It takes about 8 minutes."""
    from bench.servers import POSTGRESQL, SQLITE, started
    from bench.wakeups import SILENT, lines, measure

    places = [place for place in (SQLITE, POSTGRESQL, SILENT) if place.lower().startswith(only.lower())]
    if not places:
        raise click.BadParameter(f"no place begins with {only!r}: take sqlite or postgresql")
    if places == [SQLITE]:
        found = measure(places, None, rounds, schedules)
    else:
        check_server(server)
        with started(server) as running:
            found = measure(places, running, rounds, schedules)
    click.echo("\n".join(lines(found)))


bench.add_command(engine)

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either way servers and files are removed
    bench(prog_name="python -m bench")
