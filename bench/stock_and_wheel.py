"""Windlass on two servers in turns: the stock PostgreSQL of this machine's packages, with its default
settings, and that of the wheel [S1]: `python -m bench servers`.

Each round measures one server and then the other, every second round backwards. The table has the median of
each and their ratio, stock ÷ wheel; above 1 stock is better, whatever the unit.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click
import numpy

from bench.engine.places import OpenStore, Places
from bench.engine.rounds import turned
from bench.engine.web.fill import Filler
from bench.engine.web.paths import find_paths
from bench.engine.web.plan import make_web_plan
from bench.engine.web.run import Stage
from bench.engine.web.server import HOST, web_server
from bench.engine.worker import worker
from bench.peers.plan import FULL, QUICK, Plan
from bench.peers.scenarios import drain, pick_up, sustained
from bench.peers.subjects import SUBJECTS
from bench.peers.venvs import interpreter
from bench.servers import WHEEL, Servers, started
from tests.postgres_install import STOCK
from windlass.store.records import NewJob

SUBJECT: Final = SUBJECTS[0]
BULK: Final = 10_000
Found = dict[str, dict[str, list[float]]]
"""By figure and server, round by round."""


def rate(name: str) -> str:
    """A figure that is better when it is larger."""
    return f"{name}, jobs/s"


def by_workers(servers: Servers, plan: Plan) -> Iterator[tuple[str, float]]:
    """What real worker processes do."""
    yield rate("drain, one process"), drain.one(servers, SUBJECT, plan)["rate"]
    yield rate("sustained"), sustained.free(servers, SUBJECT, plan)["rate"]
    yield (
        rate("sustained under a pinned snapshot, last third"),
        sustained.pinned(servers, SUBJECT, plan)["last_third"],
    )
    waits = pick_up.latency(servers, SUBJECT, plan)
    yield "pick-up p50, ms", waits["p50_ms"]
    yield "pick-up p99, ms", waits["p99_ms"]


async def by_store(place: OpenStore, jobs: int) -> dict[str, float]:
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


async def pages(place: OpenStore, quick: bool) -> dict[str, float]:
    """Every page's 95th percentile, while jobs run."""
    plan = make_web_plan(quick=quick, tries=20 if quick else 40)
    filled = await Filler(place.store, plan).fill(lambda text: None)
    environment = place.environment()
    async with worker(place.store, environment, 1), web_server(environment) as port:
        times = await Stage(place, plan, port).times(await find_paths(HOST, port, filled))
    assert not times.refused, f"pages that did not answer 200: {times.refused}"
    return {f"{name} p95, ms": float(numpy.percentile(ms, 95)) for name, ms in times.ms.items()}


def measure(quick: bool) -> tuple[Found, dict[str, Any]]:
    """All of it."""
    plan, rounds = (QUICK, 2) if quick else (FULL, 3)
    jobs = 20_000 if quick else 100_000
    found: Found = defaultdict(lambda: defaultdict(list))
    interpreter(SUBJECT)
    with started(STOCK) as stock, started(WHEEL) as wheel:  # who is not measured is idle
        both = {STOCK: stock, WHEEL: wheel}
        settings = {name: servers.settings() for name, servers in both.items()}
        for number in range(rounds):
            for name in turned(both, number):
                for figure, value in by_workers(both[name], plan):
                    _note(found, figure, name, value)
                for figure, value in _on(both[name], lambda place: by_store(place, jobs)).items():
                    _note(found, figure, name, value)
        for name, servers in both.items():
            for figure, value in _on(servers, lambda place: pages(place, quick)).items():
                _note(found, figure, name, value)
    return found, settings


def _on(servers: Servers, work: Callable[[OpenStore], Awaitable[dict[str, float]]]) -> dict[str, float]:
    async def run() -> dict[str, float]:
        async with Places(servers).fresh() as place:
            return await work(place)

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


def compare(quick: bool, out: Path | None) -> None:
    """Measure, write the figures as JSON where asked to, and print the table."""
    found, settings = measure(quick)
    if out is not None:
        out.write_text(json.dumps({"servers": settings, "figures": found}, indent=2) + "\n", encoding="utf-8")
    click.echo(table(found))
