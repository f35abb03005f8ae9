"""The run with worker processes: the rounds, the yardstick beside them, and what was found.

On PostgreSQL the hand-written SKIP LOCKED loop of the store benchmark runs in the same rounds: a bare loop
without handlers, leases, retries or heartbeats, on one connection.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw

from windlass.bench.connections import connection, dropped_afterwards, named, pinned_snapshot
from windlass.bench.figures import Aim, Cpu, Figure, StoreReport, Taken, at_least, at_most, figure, ratio
from windlass.bench.machine import server_settings
from windlass.bench.meters import process_cpu
from windlass.bench.plan import WorkPlan
from windlass.bench.reference import Reference
from windlass.bench.rounds import ENOUGH, Progress
from windlass.bench.work import Work
from windlass.store.factory import describe, make_store
from windlass.store.protocol import Store

Scenario = Callable[[], Awaitable[Taken]]


class Results:
    """What the scenarios yielded, round by round."""

    def __init__(self) -> None:
        self.taken: dict[str, list[Taken]] = defaultdict(list)
        self.cpu: dict[str, float] = defaultdict(float)
        self.others: dict[str, list[float]] = defaultdict(list)
        self.rounds = 0

    def rates(self, name: str) -> list[float]:
        """Jobs per second, one per round."""
        return [taken.rate for taken in self.taken[name]]

    def ratio(self, over: str, under: str) -> Figure:
        """Over ÷ under, round by round."""
        return ratio(self.rates(over), self.rates(under))

    def cpu_per_1000(self) -> dict[str, Cpu]:
        """CPU seconds of the worker processes per 1,000 jobs."""
        return {
            name: Cpu(float(f"{self.cpu[name] * 1000 / sum(each.jobs for each in taken):.4g}"), None)
            for name, taken in self.taken.items()
            if self.cpu[name]
        }


async def on_sqlite(folder: Path | None, plan: WorkPlan, until: float, progress: Progress) -> StoreReport:
    """Measure workers on an SQLite file of the run's own."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=folder) as home:
        url = f"sqlite:///{home}/jobs.db"
        store = make_store(url)
        try:
            await store.open()
            work = Work(store, {"WINDLASS_DATABASE_URL": url}, plan)
            scenarios: dict[str, Scenario] = {
                "drain_one": work.drain,
                "drain_two": functools.partial(work.drain, processes=2),
                "drain_threads": functools.partial(work.drain, "bench.in_thread"),
            }
            results = await _rounds(plan, work, scenarios, until, progress)
        finally:
            await store.close()
    ratios = {
        "two_vs_one": results.ratio("drain_two", "drain_one"),
        "threads_vs_loop": results.ratio("drain_threads", "drain_one"),
    }
    rates = {name: figure(results.rates(name), "jobs/s") for name in results.taken}
    aims = [
        at_least("drain_one", rates["drain_one"].median, 20_000),
        at_least("threads_vs_loop", ratios["threads_vs_loop"].median, 0.3),
    ]
    place = "a temporary file" if folder is None else "a temporary file beside the one named"
    return _report(
        "sqlite", place, {"sqlite": apsw.sqlite_lib_version()}, {}, began, results, rates, ratios, aims
    )


async def on_postgres(
    url: str, plan: WorkPlan, until: float, progress: Progress, *, temporary: bool = False
) -> StoreReport:
    """Measure workers in a schema of the run's own in the database of this URL."""
    began = time.monotonic()
    schema = f"windlass_bench_{secrets.token_hex(4)}"
    async with (
        connection(url, f"{schema} control") as control,
        dropped_afterwards(control, schema),
        _opened(named(url, schema), schema) as store,
        connection(url, f"{schema} reference") as own,
    ):
        reference = Reference(own, schema, plan)
        await reference.create()
        work = Work(store, {"WINDLASS_DATABASE_URL": url, "WINDLASS_SCHEMA": schema}, plan)

        async def yardstick() -> Taken:
            await reference.refill()
            return await reference.skip_locked(plan.reference_batch)

        async def pinned() -> Taken:
            async with pinned_snapshot(url, schema):
                return await work.sustain()

        scenarios: dict[str, Scenario] = {
            "skip_locked": yardstick,
            "drain_one": work.drain,
            "drain_two": functools.partial(work.drain, processes=2),
            "drain_threads": functools.partial(work.drain, "bench.in_thread"),
            "sustained": work.sustain,
            "sustained_pinned": pinned,
        }
        results = await _rounds(plan, work, scenarios, until, progress, control)
        ratios = {
            "drain_vs_skip_locked": results.ratio("drain_one", "skip_locked"),
            "two_vs_one": results.ratio("drain_two", "drain_one"),
            "threads_vs_loop": results.ratio("drain_threads", "drain_one"),
            "pinned_vs_unpinned": results.ratio("sustained_pinned", "sustained"),
        }
        rates = {name: figure(results.rates(name), "jobs/s") for name in results.taken}
        versions = {"postgresql": await control.fetchval("SELECT current_setting('server_version')")}
        settings = await server_settings(control)
    place = "a temporary server on this machine" if temporary else describe(url)
    p50, p99 = (statistics_of(results, name) for name in ("pick_up_p50", "pick_up_p99"))
    aims = [
        at_least("drain_one", rates["drain_one"].median, 50_000),
        at_least("drain_vs_skip_locked", ratios["drain_vs_skip_locked"].median, 1),
        at_least("two_vs_one", ratios["two_vs_one"].median, 1),
        at_least("threads_vs_loop", ratios["threads_vs_loop"].median, 0.3),
        at_least("pinned_vs_unpinned", ratios["pinned_vs_unpinned"].median, 0.95),
        at_most("pick_up_p50_ms", p50, 3),
        at_most("pick_up_p99_ms", p99, 10),
    ]
    return _report("postgresql", place, versions, settings, began, results, rates, ratios, aims)


def statistics_of(results: Results, name: str) -> float:
    """The median of a figure that is neither rate nor ratio."""
    return figure(results.others[name], "").median


async def _rounds(
    plan: WorkPlan,
    work: Work,
    scenarios: dict[str, Scenario],
    until: float,
    progress: Progress,
    control: Any = None,
) -> Results:
    """Every scenario in each round, every second round backwards; then pick-up and idling."""
    results = Results()
    longest = 0.0
    while results.rounds < plan.rounds:
        began = time.monotonic()
        if results.rounds and began + longest > until:
            break
        steps = list(scenarios.items())
        for name, scenario in reversed(steps) if results.rounds % 2 else steps:
            progress(f"round {results.rounds + 1} of {plan.rounds}: {name}")
            work.cpu = 0.0
            results.taken[name].append(await scenario())
            results.cpu[name] += work.cpu
        progress(f"round {results.rounds + 1} of {plan.rounds}: pick-up")
        waits, answers = await work.pick_up()
        for name, values in (("pick_up", waits), ("enqueue", answers)):
            for label, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
                value = values[min(int(len(values) * share), len(values) - 1)]
                results.others[f"{name}_{label}"].append(value * 1000)
        results.rounds += 1
        longest = max(longest, time.monotonic() - began)
    progress("idling")
    await _idle(plan, work, results, control)
    return results


async def _idle(plan: WorkPlan, work: Work, results: Results, control: Any) -> None:
    """What a worker costs that has nothing to do: CPU of its processes, transactions and CPU of the
    server."""
    async with work.idle() as hands:
        before, queries, server = hands.cpu(), await _transactions(control), await _server_cpu(control)
        await asyncio.sleep(plan.seconds * 2)
        seconds = plan.seconds * 2
        results.others["idle_worker_cpu"].append((hands.cpu() - before) / seconds * 100)
        if control is not None:
            results.others["idle_transactions"].append((await _transactions(control) - queries) / seconds)
            results.others["idle_server_cpu"].append((await _server_cpu(control) - server) / seconds * 100)


async def _transactions(control: Any) -> float:
    """Transactions of the database so far, without this question itself."""
    if control is None:
        return 0.0
    await control.execute("SELECT pg_stat_clear_snapshot()")
    return float(
        await control.fetchval(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        )
    )


async def _server_cpu(control: Any) -> float:
    if control is None:
        return 0.0
    rows = await control.fetch("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    return sum(process_cpu(row["pid"]) or 0.0 for row in rows)


def _report(  # noqa: PLR0913 - a report has many parts
    store: str,
    place: str,
    versions: dict[str, str],
    settings: dict[str, Any],
    began: float,
    results: Results,
    rates: dict[str, Figure],
    ratios: dict[str, Figure],
    aims: list[Aim],
) -> StoreReport:
    units = {"pick_up": "ms", "enqueue": "ms", "idle_transactions": "per second", "idle": "% of one core"}
    others = {
        name: figure(values, next(unit for start, unit in units.items() if name.startswith(start)))
        for name, values in results.others.items()
    }
    few = [f"ratios of fewer than {ENOUGH} pairs are hints, not results"] if results.rounds < ENOUGH else []
    return StoreReport(
        store=store,
        place=place,
        versions=versions,
        settings=settings,
        rounds=results.rounds,
        seconds=round(time.monotonic() - began, 1),
        rates=rates,
        ratios=ratios,
        cpu_per_1000_jobs=results.cpu_per_1000(),
        aims=aims,
        others=others,
        notes=few,
    )


@asynccontextmanager
async def _opened(url: str, schema: str) -> AsyncIterator[Store]:
    store = make_store(url, schema=schema)
    try:
        await store.migrate()
        await store.open()
        yield store
    finally:
        await store.close()
