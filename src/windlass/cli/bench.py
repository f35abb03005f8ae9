"""The verbs that measure: bench store, bench worker, bench chunks, bench flow, bench web. What they do lives
in `windlass.bench`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec
from rich.console import Console

from windlass.cli.options import Reader, json_option
from windlass.core.durations import size as size_in_bytes
from windlass.store.factory import POSTGRES, SQLITE

if TYPE_CHECKING:
    from windlass.bench.figures import Report
    from windlass.bench.plan import Plan
    from windlass.bench.rounds import Progress
    from windlass.bench.run import Bench

F = TypeVar("F", bound=Callable[..., Any])
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


@bench.command()
@click.option(
    "--database",
    "--url",
    "database",
    metavar="URL",
    help="Measure here, in a schema or file of the run's own. [temporary ones]",
)
@click.option("--size", type=_Size(), help="Bytes of the file that is imported, such as 200MiB. [1GiB]")
@click.option("--rounds", type=click.IntRange(min=1), help="How often everything is repeated. [3]")
@click.option("--quick", is_flag=True, help="Less of everything: 64 MiB, once.")
@json_option
def chunks(database: str | None, size: int | None, rounds: int | None, quick: bool, as_json: bool) -> None:
    """Import NDJSON with real worker processes, beside a plain loop over the same file.

    It takes about 6 minutes a store, and room for the file where temporary files go (TMPDIR). Without
    --database nothing of yours is used, whatever the environment says."""
    from windlass.bench.chunks import measure
    from windlass.bench.chunks_plan import make_chunk_plan
    from windlass.bench.chunks_table import show

    plan = make_chunk_plan(quick=quick, size=size, rounds=rounds)
    _shown(lambda progress: measure(plan, database, progress), show, as_json)


@bench.command()
@click.option("--store", type=click.Choice([SQLITE, POSTGRES]), help="Measure on this kind only. [both]")
@click.option("--rounds", type=click.IntRange(min=1), help="How often everything is repeated. [7]")
@click.option("--blocked", type=click.IntRange(min=1), help="Jobs blocked on one key. [100000]")
@click.option(
    "--held", type=click.IntRange(min=1), help="Jobs of one key beside which others are timed. [1000000]"
)
@click.option("--tries", type=click.IntRange(min=1), help="How often one of those is timed. [30]")
@_plan_options("3 rounds, 200,000 jobs of one key")
def flow(store: str | None, database: str | None, as_json: bool, **sizes: Any) -> None:
    """Keys, budgets, order and schedules: what they cost, and how long others wait beside a great key.

    It takes about 10 minutes a store, most of them to enqueue a million jobs twice. Without --database
    nothing of yours is used, whatever the environment says."""
    from windlass.bench.flow import measure
    from windlass.bench.flow_plan import make_flow_plan
    from windlass.bench.flow_table import show

    plan = make_flow_plan(**sizes)
    _shown(lambda progress: measure(plan, database, store, progress), show, as_json)


@bench.command()
@click.option("--store", type=click.Choice([SQLITE, POSTGRES]), help="Measure on this kind. [postgresql]")
@click.option("--rounds", type=click.IntRange(min=1), help="How often everything is repeated. [5]")
@click.option("--tries", type=click.IntRange(min=1), help="How often each page and call is timed. [100]")
@click.option(
    "--database", metavar="URL", help="Measure here, in a schema or file of the run's own. [temporary ones]"
)
@click.option("--jobs", type=click.IntRange(min=10), help="Jobs in store while pages are timed. [1000000]")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Seconds of what runs by the clock. [5]")
@click.option("--quick", is_flag=True, help="Less of everything: 100,000 jobs in store, 2 rounds.")
@json_option
def web(store: str | None, database: str | None, as_json: bool, **sizes: Any) -> None:
    """Mission Control: how long each page and call takes with a million jobs in store while jobs run, what
    viewers cost the engine, and how many jobs a second come in over HTTP.

    It takes about 5 minutes. Without --database nothing of yours is used, whatever the environment says."""
    from windlass.bench.web import measure
    from windlass.bench.web_plan import make_web_plan
    from windlass.bench.web_table import show

    plan = make_web_plan(**sizes)
    _shown(lambda progress: measure(plan, database, store, progress), show, as_json)


def _measure(bench: Bench, plan: Plan, database: str | None, as_json: bool) -> None:
    from windlass.bench.run import run
    from windlass.bench.table import show

    _shown(lambda progress: run(bench, plan, database, progress), show, as_json)


def _shown(
    measure: Callable[[Progress], Report], show: Callable[[Report, Console], None], as_json: bool
) -> None:
    """Measure, telling how far it is on stderr, and print what was found."""
    with Console(stderr=True).status("starting") as status:
        report = measure(status.update)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        show(report, Console())
