"""Windlass on two servers in turns: the stock PostgreSQL of this machine's packages, with its default
settings, and that of the wheel [S1].

    python -m bench.servers                 about half an hour, with a million jobs behind the pages
    python -m bench.servers --quick         a look: a tenth of the jobs, fewer rounds

Each round measures one server and then the other, every second round backwards. The table has the median of
each and their ratio, stock ÷ wheel; above 1 stock is better, whatever the unit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import asyncpg
import click
import numpy

from bench.ground import WHEEL, Ground, ground
from bench.plan import FULL, QUICK, Plan
from bench.scenarios import drain, pick_up, sustained
from bench.subjects import SUBJECTS
from bench.venvs import interpreter
from tests.postgres_install import STOCK
from windlass.bench.crew import crew
from windlass.bench.grounds import Place, PostgresGrounds
from windlass.bench.web import Stage
from windlass.bench.web_fill import Filler
from windlass.bench.web_paths import find_paths
from windlass.bench.web_plan import make_web_plan
from windlass.bench.web_server import HOST, web_server
from windlass.store.records import NewJob

SUBJECT: Final = SUBJECTS[0]
BULK: Final = 10_000
Found = dict[str, dict[str, list[float]]]
"""By figure and server, round by round."""


def rate(name: str) -> str:
    """A figure that is better when it is larger."""
    return f"{name}, jobs/s"


def by_workers(place: Ground, plan: Plan) -> Iterator[tuple[str, float]]:
    """What real worker processes do."""
    yield rate("drain, one process"), drain.one(place, SUBJECT, plan)["rate"]
    yield rate("sustained"), sustained.free(place, SUBJECT, plan)["rate"]
    yield (
        rate("sustained under a pinned snapshot, last third"),
        sustained.pinned(place, SUBJECT, plan)["last_third"],
    )
    waits = pick_up.latency(place, SUBJECT, plan)
    yield "pick-up p50, ms", waits["p50_ms"]
    yield "pick-up p99, ms", waits["p99_ms"]


async def by_store(place: Place, jobs: int) -> dict[str, float]:
    """Bulk calls and promotion, on one connection pool."""
    store = place.store
    await store.set_queue("bulk", {})
    plain = [NewJob(task="t", payload='{"n": 1}', queue="bulk")] * BULK
    later = [NewJob(task="t", payload='{"n": 1}', queue="bulk", delay=3600.0)] * BULK
    due = [NewJob(task="t", payload='{"n": 1}', queue="bulk", delay=0.001)] * BULK
    found = {}
    for name, batch in (("plain", plain), ("scheduled", later), ("due", due)):
        began = time.perf_counter()
        for _ in range(jobs // BULK):
            await store.enqueue(batch)
        found[name] = jobs / (time.perf_counter() - began)
    began = time.perf_counter()
    moved = 0
    while moved < jobs:
        moved += (await store.promote(1000)).due
    promoted = jobs / (time.perf_counter() - began)
    return {
        rate("bulk enqueue, plain"): found["plain"],
        rate("bulk enqueue, scheduled"): found["scheduled"],
        rate(f"promotion of {jobs:,} that are due"): promoted,
    }


async def pages(place: Place, quick: bool) -> dict[str, float]:
    """Every page's 95th percentile, while jobs run."""
    plan = make_web_plan(quick=quick, tries=20 if quick else 40)
    filled = await Filler(place.store, plan).fill(lambda text: None)
    environment = place.environment()
    async with crew(place.store, environment, 1), web_server(environment) as port:
        times = await Stage(place, plan, port).times(await find_paths(HOST, port, filled))
    assert not times.refused, f"pages that did not answer 200: {times.refused}"
    return {f"{name} p95, ms": float(numpy.percentile(ms, 95)) for name, ms in times.ms.items()}


@contextlib.contextmanager
def both() -> Iterator[dict[str, Ground]]:
    """The two servers, side by side; who is not measured is idle."""
    with ground(STOCK) as stock, ground(WHEEL) as wheel:
        yield {STOCK: stock, WHEEL: wheel}


def measure(quick: bool) -> tuple[Found, dict[str, Any]]:
    """All of it."""
    plan, rounds = (QUICK, 2) if quick else (FULL, 3)
    jobs = 20_000 if quick else 100_000
    found: Found = defaultdict(lambda: defaultdict(list))
    interpreter(SUBJECT)
    with both() as servers:
        settings = {name: place.settings() for name, place in servers.items()}
        for number in range(rounds):
            for name in list(servers)[:: -1 if number % 2 else 1]:
                place = servers[name]
                for figure, value in by_workers(place, plan):
                    _note(found, figure, name, value)
                for figure, value in _on(place, lambda there: by_store(there, jobs)).items():
                    _note(found, figure, name, value)
        for name, place in servers.items():
            for figure, value in _on(place, lambda there: pages(there, quick)).items():
                _note(found, figure, name, value)
    return found, settings


def _on(place: Ground, work: Callable[[Place], Any]) -> dict[str, float]:
    async def run() -> dict[str, float]:
        control = await asyncpg.connect(place.url)
        try:
            async with PostgresGrounds(place.url, control).fresh() as fresh:
                answer: dict[str, float] = await work(fresh)
                return answer
        finally:
            await control.close()

    return asyncio.run(run())


def _note(found: Found, figure: str, server: str, value: float) -> None:
    found[figure][server].append(value)
    click.echo(f"  {server:6} {figure}: {value:,.2f}", err=True)


def table(found: Found) -> str:
    """One line a figure, in Markdown."""
    lines = ["| | stock | wheel | stock ÷ wheel |", "|---|---|---|---|"]
    for figure, values in found.items():
        stock, wheel = (statistics.median(values[name]) for name in (STOCK, WHEEL))
        better = stock / wheel if figure.endswith("/s") else wheel / stock
        lines.append(f"| {figure} | {_shown(stock)} | {_shown(wheel)} | {better:.2f} × |")
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


@click.command()
@click.option("--quick", is_flag=True, help="A look: a tenth of the jobs, fewer rounds.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write figures and table as JSON.")
def main(quick: bool, out: Path | None) -> None:
    """Windlass on the stock server and on the wheel's, in turns."""
    found, settings = measure(quick)
    if out is not None:
        out.write_text(json.dumps({"servers": settings, "figures": found}, indent=2) + "\n", encoding="utf-8")
    click.echo(table(found))


if __name__ == "__main__":
    main()
