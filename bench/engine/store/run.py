"""The run on the stores themselves: enqueue, claim and finish through the store protocol, in rounds with what
one would write by hand on PostgreSQL, and with a snapshot that somebody holds open."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import apsw
import asyncpg

from bench.engine.figures import Report, Taken
from bench.engine.places import OpenStore, Places
from bench.engine.plan import Plan
from bench.engine.rounds import Group, Progress, Rounds, Step
from bench.engine.run import Told, run
from bench.engine.store.reference import Reference
from bench.engine.store.report import LIFE, report
from bench.engine.store.scenarios import Subject
from bench.meters import Meter, spent
from bench.servers import pinned_snapshot
from windlass.store.factory import POSTGRES, sqlite_path

LOGS: Final = ("ready", "claim", "outcome")
DEAD: Final = """
SELECT p.relname AS name, sum(s.n_dead_tup)::bigint AS dead
  FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
  JOIN pg_stat_user_tables s ON s.relid = i.inhrelid
 WHERE p.relnamespace = to_regnamespace('windlass') AND p.relname = ANY ($1) GROUP BY 1
"""
DEAD_ON_PAGES: Final = """
SELECT sum((pgstattuple(i.inhrelid::regclass)).dead_tuple_count)
  FROM pg_inherits i WHERE i.inhparent = to_regclass($1)
"""


def measure(plan: Plan, stores: Sequence[str], server: str, progress: Progress) -> Report:
    """Measure on each of these stores."""
    return run(_measured, plan, stores, server, progress)


async def _measured(places: Places, plan: Plan, until: float, progress: Progress) -> Told:
    progress("preparing")
    async with places.fresh() as place:
        subject = Subject(place.store, plan)
        await subject.begin()
        rounds = Rounds(plan, place.meter, until, progress)
        dead: dict[str, int] = {}
        if places.kind == POSTGRES:
            dead = await _on_postgres(place, subject, plan, rounds)
        else:
            await rounds.run(_groups(place, subject), after_each=subject.drain)
            await subject.end()
        return functools.partial(report, rounds, dead)


async def _on_postgres(place: OpenStore, subject: Subject, plan: Plan, rounds: Rounds) -> dict[str, int]:
    """The rounds with their references; and the dead tuples that are left in the logs after them."""
    async with _connected(place.url) as connection:
        reference = Reference(connection, plan)
        await reference.create()
        await rounds.run(
            _groups(place, subject, reference, plan),
            after_each=functools.partial(_life, subject, place.meter, rounds),
        )
        await subject.end()
        await place.store.close()  # sessions report what they left when they end
        return await _dead_tuples(connection)


def _groups(
    place: OpenStore, subject: Subject, reference: Reference | None = None, plan: Plan | None = None
) -> list[Group]:
    async def pinned() -> Taken:
        with _pinned(place.url) if reference is None else pinned_snapshot(place.url):
            return await subject.both_at_once()

    enqueue = {"bulk_enqueue": Step(subject.bulk_enqueue)}
    claim = {"claim_finish": Step(subject.claim_finish)}
    if reference is not None and plan is not None:
        classic = functools.partial(reference.skip_locked, plan.reference_batch)
        same_batch = functools.partial(reference.skip_locked, plan.claim_batch)
        enqueue["raw_insert"] = Step(reference.raw_insert)
        claim["skip_locked"] = Step(classic, before=reference.refill)
        claim["skip_locked_same_batch"] = Step(same_batch, before=reference.refill)
    both = {"both_at_once": Step(subject.both_at_once), "both_at_once_pinned": Step(pinned)}
    return [enqueue, claim, {"single_enqueue": Step(subject.single_enqueue)}, both]


async def _life(subject: Subject, meter: Meter, rounds: Rounds) -> None:
    """Lead jobs through their life step by step, to see how much WAL each step writes."""
    await subject.drain()
    readings = [meter.read()]
    jobs = await subject.enqueue_all()
    readings.append(meter.read())
    held = await subject.claim_all()
    readings.append(meter.read())
    await subject.finish_all(held)
    readings.append(meter.read())
    for name, before, after in zip(LIFE, readings, readings[1:], strict=False):
        rounds.note_wal(name, spent(before, after).wal, jobs)
    rounds.note_wal("total", spent(readings[0], readings[-1]).wal, jobs)


async def _dead_tuples(connection: Any) -> dict[str, int]:
    """Dead tuples in all partitions of each log, as the statistics count them; and as the pages have them
    (`ready_on_pages`, …), where the server brings the extension that counts there."""
    rows = await connection.fetch(DEAD, list(LOGS))
    found = {row["name"]: int(row["dead"]) for row in rows}
    counted = {log: found[log] for log in LOGS}
    if await connection.fetchval("SELECT 1 FROM pg_available_extensions WHERE name = 'pgstattuple'"):
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pgstattuple")
        except asyncpg.InsufficientPrivilegeError:
            return counted
        for log in LOGS:
            counted[f"{log}_on_pages"] = int(await connection.fetchval(DEAD_ON_PAGES, f"windlass.{log}"))
    return counted


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    opened = await asyncpg.connect(url)
    try:
        yield opened
    finally:
        await opened.close()


@contextmanager
def _pinned(url: str) -> Iterator[None]:
    """A reader that stays in its transaction: SQLite's write-ahead log cannot start over while it does."""
    connection = apsw.Connection(sqlite_path(url))
    try:
        connection.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        yield
        connection.execute("COMMIT")
    finally:
        connection.close()
