"""The verb that shows what this is about: demo, whose work is in `windlass.demo`. And bench, a signpost: the
benchmark is no part of the package, it is `bench/` of a checkout."""

from __future__ import annotations

import contextlib
import shlex
import threading
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.text import Text

from windlass.cli.options import DatabaseUrl, Reader, Span, json_option
from windlass.cli.output import console, print_json, print_table
from windlass.core.durations import size

if TYPE_CHECKING:
    from windlass.demo.run import Report


class Bytes(Reader):
    """A size as people write it."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a size, at least that of some batches."""
        try:
            found = size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if found < 1024**2:
            self.fail(f"{value!r} is too small to be split into parts; the minimum is 1MiB", param, ctx)
        return found


@click.command()
@click.option("--size", type=Bytes(), default="300MiB", show_default=True, help="How much data to import.")
@click.option(
    "--database", type=DatabaseUrl(), metavar="URL", help="Import here, into a file or schema of its own."
)
@click.option("--postgres", is_flag=True, help="Import into a temporary PostgreSQL server, from a wheel.")
@click.option(
    "--keep",
    is_flag=True,
    help="Keep the data, print where it is, and serve Mission Control until Ctrl-C.",
)
@click.option("--reset", is_flag=True, help="With --database: remove what an earlier demo left there.")
@click.option("--timeout", type=Span(least=1.0), default="5m", show_default=True, help="Give up after this.")
@json_option
def demo(as_json: bool, **wishes: Any) -> None:
    """Import a large file with three worker processes, kill one half-way, and prove that every record arrived
    exactly once. Exit code 1 if not.

    It generates its own data and uses a temporary SQLite file, whatever the environment says; all of it is
    removed at the end. Meanwhile Mission Control shows the import, at the address that is printed first.
    """
    if wishes["postgres"] and (wishes["database"] or wishes["keep"]):
        raise click.UsageError(
            "--postgres starts a server that ends with the demo: leave out --database, --keep"
        )
    from windlass.demo.run import Plan, run
    from windlass.demo.watch import showing

    with contextlib.ExitStack() as stack:
        with showing(console(stderr=as_json), quiet=as_json) as watching:
            report = run(Plan(**wishes), watching, stack)
        if as_json:
            print_json(msgspec.to_builtins(report))
        else:
            _show(report)
        if report.kept and report.url:
            _stay(report.url, report.kept)
    if not report.ok:
        raise SystemExit(1)


def _stay(url: str, kept: str) -> None:
    """Serve on until somebody has seen enough."""
    click.echo(f"Mission Control stays at {url} until Ctrl-C", err=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
    click.echo(f"\nMission Control at {url} has ended; the data is still in {kept}", err=True)


def _removal(report: Report) -> str:
    """How to be rid of what was kept. A database that was named is not in the directory."""
    directory = f"rm -r {shlex.quote(report.kept or '')}"
    inside = report.kept is not None and report.kept in report.database
    return directory if inside else f"{directory}, and the next demo with --reset removes the database's part"


def _show(report: Report) -> None:
    marks = {True: Text("✓", "bold green"), False: Text("✗", "bold red")}
    rows = [(marks[check.ok], check.name, check.text) for check in report.checks]
    click.echo()
    print_table(("", "checked in the imported table", "found"), rows)
    click.echo()
    if report.ok and report.killed is not None and report.resumed is not None:
        click.echo(
            f"Part {report.killed.part} was killed after {report.resumed.at:,} records and went on at record "
            f"{report.resumed.at:,} in another process. Every record was imported exactly once."
        )
    elif not report.ok:
        click.echo("This should not be: please report it, with what is above.")
    click.echo(
        f"{report.records:,} records, {report.bytes / 1024**2:,.0f} MiB, in {report.seconds['total']:.0f} s; "
        f"the import ran at {report.records_per_second:,.0f} records/s"
    )
    if report.kept:
        click.echo(f"Kept: {report.kept} and {report.database}")
        click.echo(f"Remove it, when you have seen enough: {_removal(report)}")
    elif report.url:
        click.echo("Mission Control went with the data; `windlass demo --keep` leaves both to look around in")
    click.echo("Next: docs/guides/chunked-jobs.md, `windlass worker --help`, examples/hello.py")


class Moved(click.ClickException):
    """A command that makes no sense as written, as any unknown one."""

    exit_code = 2


@click.command(hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def bench(words: tuple[str, ...]) -> None:
    """The benchmark has moved to `python -m bench`, in a checkout of the project."""
    raise Moved(
        "the benchmark is no part of the package: run `python -m bench --help` in a checkout of the project"
    )
