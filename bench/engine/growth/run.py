"""The run on growth: one thing at a time grows in a store of its own, and at each size calls are timed."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Sequence

import msgspec
from rich.table import Table

from bench.engine.figures import Report, StoreReport, Where
from bench.engine.growth.plan import GrowthPlan, sizes
from bench.engine.growth.things import Call, Queues, Thing, named
from bench.engine.places import Places
from bench.engine.rounds import Progress
from bench.engine.run import Told, run


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """What one call takes beside more and more of a thing: milliseconds by their number."""

    thing: str
    call: str
    ms: dict[int, float]


class GrowthReport(StoreReport, frozen=True, kw_only=True):
    """The curves of one store."""

    curves: list[Curve]


def measure(
    plan: GrowthPlan, stores: Sequence[str], server: str, progress: Progress, only: str | None = None
) -> Report:
    """Measure on each of these stores; `only` things with this word in their name."""
    return run(functools.partial(_measured, only), plan, stores, server, progress)


async def _measured(
    only: str | None, places: Places, plan: GrowthPlan, until: float, progress: Progress
) -> Told:
    curves: list[Curve] = []
    for thing in named(only):
        curves += await _curves(thing, places, plan, until, progress)
    return functools.partial(_report, plan.rounds, curves)


async def _curves(
    kind: type[Thing], places: Places, plan: GrowthPlan, until: float, progress: Progress
) -> list[Curve]:
    found: dict[str, dict[int, float]] = {}
    async with places.fresh() as place:
        thing = kind(place, plan)
        await thing.begin()
        before = 0
        for size in sizes(kind.most(plan)):
            progress(f"{size:,} {kind.name}")
            if size and time.monotonic() > until:
                break
            await thing.grow(before, size)
            before = max(size, before)
            for name, call in thing.calls().items():
                found.setdefault(name, {})[size] = await _timed(thing, call, plan.rounds)
            for name, ms in (await thing.watched()).items():
                found.setdefault(name, {})[size] = round(ms, 2)
    return [Curve(thing=kind.name, call=name, ms=ms) for name, ms in found.items()]


async def _timed(thing: Thing, call: Call, rounds: int) -> float:
    """The median of so many calls, in milliseconds, after one that does not count."""
    taken: list[float] = []
    for number in range(rounds + 1):
        began = time.perf_counter()
        await call()
        took = time.perf_counter() - began
        if isinstance(thing, Queues) and thing.took is not None:
            took, thing.took = thing.took, None
        if number:
            taken.append(took * 1000)
    return round(statistics.median(taken), 3)


def _report(rounds: int, curves: list[Curve], where: Where) -> GrowthReport:
    return GrowthReport(
        **msgspec.structs.asdict(where),
        rounds=rounds,
        rates={},
        ratios={},
        cpu_per_1000_jobs={},
        aims=[],
        curves=curves,
    )


def curves_table(store: GrowthReport) -> Table:
    """One line for each call, one column for each size."""
    versions = ", ".join(f"{name} {version}" for name, version in store.versions.items())
    table = Table(
        title=f"{versions}, {store.place}: milliseconds, medians of {store.rounds}, {store.seconds:g} s",
        title_justify="left",
    )
    table.add_column("beside")
    table.add_column("call", no_wrap=True)
    columns = sorted({size for curve in store.curves for size in curve.ms})
    for size in columns:
        table.add_column(f"{size:,}", justify="right", no_wrap=True)
    for curve in store.curves:
        cells = (f"{curve.ms[size]:,.1f}" if size in curve.ms else "" for size in columns)
        table.add_row(curve.thing, curve.call, *cells)
    return table
