"""The run on PostgreSQL: a schema of its own, the rounds with their references, and what was found.

Nothing that exists is touched: the schema has a random name and is dropped at the end, however that comes.
"""

from __future__ import annotations

import functools
import secrets
import time
from typing import Any, Final

from windlass.bench.connections import connection, dropped_afterwards, named, pinned_snapshot
from windlass.bench.figures import Aim, Figure, StoreReport, Taken, at_least, at_most, figure, ratio
from windlass.bench.machine import server_settings
from windlass.bench.meters import Meter, dead_tuples, spent
from windlass.bench.plan import Plan
from windlass.bench.reference import Reference
from windlass.bench.rounds import Progress, Rounds, Step
from windlass.bench.scenarios import Subject
from windlass.store.factory import describe, make_store, require_asyncpg

LIFE: Final = ("enqueue", "claim", "finish")
"""The steps of a job's life, and the names of their WAL."""


async def measure(
    url: str, plan: Plan, until: float, progress: Progress, *, temporary: bool = False
) -> StoreReport:
    """Measure the store in the database of this URL; `until` is a time of the monotonic clock.

    On a `temporary` server, where we may, an extension is installed that counts dead tuples exactly."""
    require_asyncpg()
    began = time.monotonic()
    schema = f"windlass_bench_{secrets.token_hex(4)}"
    async with connection(url, f"{schema} control") as control, dropped_afterwards(control, schema):
        store = make_store(named(url, schema), schema=schema)
        try:
            progress("preparing")
            if temporary:
                await control.execute("CREATE EXTENSION IF NOT EXISTS pgstattuple")
            await store.migrate()
            await store.open()
            subject = Subject(store, plan)
            await subject.begin()
            rounds = await _rounds(url, schema, control, subject, plan, until, progress)
            await subject.end()
        finally:
            await store.close()
        progress("counting dead tuples")
        wal = {name: figure(rounds.wal(name), "bytes") for name in (*LIFE, "total")}
        wal["single_enqueue"] = figure(rounds.wal("single_enqueue"), "bytes")
        dead = await dead_tuples(control, schema)
        ratios = _ratios(rounds)
        return StoreReport(
            store="postgresql",
            place="a temporary server on this machine" if temporary else describe(url),
            versions={"postgresql": await control.fetchval("SELECT current_setting('server_version')")},
            settings=await server_settings(control),
            rounds=rounds.done,
            seconds=round(time.monotonic() - began, 1),
            rates=rounds.figures(),
            ratios=ratios,
            cpu_per_1000_jobs=rounds.cpu(),
            notes=rounds.notes(),
            wal_bytes_per_job=wal,
            dead_tuples=dead,
            aims=_aims(ratios, wal, dead),
        )


async def _rounds(
    url: str, schema: str, control: Any, subject: Subject, plan: Plan, until: float, progress: Progress
) -> Rounds:
    async with connection(url, f"{schema} reference") as own:
        reference = Reference(own, schema, plan)
        await reference.create()
        meter, other = Meter(control, schema), Meter(control, f"{schema} reference")
        meters = {"": meter, "raw_insert": other, "skip_locked": other, "skip_locked_same_batch": other}
        rounds = Rounds(plan, meters, until, progress)

        async def pinned() -> Taken:
            async with pinned_snapshot(url, schema):
                return await subject.both_at_once()

        async def life() -> None:
            await _life(subject, meter, rounds)

        same_batch = functools.partial(reference.skip_locked, plan.claim_batch)
        classic = functools.partial(reference.skip_locked, plan.reference_batch)
        groups = [
            {"bulk_enqueue": Step(subject.bulk_enqueue), "raw_insert": Step(reference.raw_insert)},
            {
                "claim_finish": Step(subject.claim_finish),
                "skip_locked": Step(classic, before=reference.refill),
                "skip_locked_same_batch": Step(same_batch, before=reference.refill),
            },
            {"single_enqueue": Step(subject.single_enqueue)},
            {"both_at_once": Step(subject.both_at_once), "both_at_once_pinned": Step(pinned)},
        ]
        await rounds.run(groups, after_each=life)
        return rounds


async def _life(subject: Subject, meter: Meter, rounds: Rounds) -> None:
    """Lead jobs through their life step by step, to see how much WAL each step writes."""
    await subject.drain()
    readings = [await meter.read()]
    jobs = await subject.enqueue_all()
    readings.append(await meter.read())
    held = await subject.claim_all()
    readings.append(await meter.read())
    await subject.finish_all(held)
    readings.append(await meter.read())
    for name, before, after in zip(LIFE, readings, readings[1:], strict=False):
        rounds.note_wal(name, spent(before, after).wal, jobs)
    rounds.note_wal("total", spent(readings[0], readings[-1]).wal, jobs)


def _ratios(rounds: Rounds) -> dict[str, Figure]:
    pairs = {
        "bulk_vs_raw": ("bulk_enqueue", "raw_insert"),
        "claim_finish_vs_skip_locked": ("claim_finish", "skip_locked"),
        "claim_finish_vs_skip_locked_same_batch": ("claim_finish", "skip_locked_same_batch"),
        "pinned_vs_unpinned": ("both_at_once_pinned", "both_at_once"),
    }
    return {name: ratio(rounds.rates(over), rounds.rates(under)) for name, (over, under) in pairs.items()}


def _aims(ratios: dict[str, Figure], wal: dict[str, Figure], dead: dict[str, int]) -> list[Aim]:
    return [
        at_least("bulk_vs_raw", ratios["bulk_vs_raw"].median, 0.6),
        at_least("claim_finish_vs_skip_locked", ratios["claim_finish_vs_skip_locked"].median, 2),
        at_least("pinned_vs_unpinned", ratios["pinned_vs_unpinned"].median, 0.95),
        at_most("wal_bytes_per_job", wal["total"].median, 500),
        at_most("dead_tuples", sum(dead.values()), 0),
    ]
