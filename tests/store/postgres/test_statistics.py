"""[S1] [fault 26] What a statement costs does not depend on what the planner believes of the tables, and
nothing of ours is compiled: on a server as distributions ship it, by the blocks it counts, not by a clock."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import pytest

from tests import left_out
from tests.postgres import Server
from tests.postgres_install import STOCK, find_stock
from tests.store.postgres.exercise import World
from windlass.store.postgres import PostgresStore

SETTINGS: dict[str, str | int] = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "pg_stat_statements.max": 20000,
    "pg_stat_statements.track_planning": "on",
    "autovacuum": "off",
}
COUNTS = """
SELECT s.query, sum(s.calls)::bigint AS calls, sum(s.shared_blks_hit + s.shared_blks_read)::bigint AS blocks,
       sum(s.jit_functions)::bigint AS compiled
  FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
 WHERE d.datname = $1 AND s.calls > 0 AND s.query !~* '^\\s*(explain|analyze|update pg_class)'
 GROUP BY s.query
"""
BELIEVE = """
UPDATE pg_class SET reltuples = $1, relpages = $2
 WHERE relnamespace = 'windlass'::regnamespace AND relkind IN ('r', 'p', 'i', 'I')
   AND ($1 = 0 OR relname !~ '^(queue|lane|worker|reporter|slot|task|schedule|budget|segment)'
        AND relname !~ '^(meta|rotation|leader|deferred_watermark)')
"""
"""Nobody has ten million queues, workers or settings, and what is read of them is all of them."""
PLANNED = """
SELECT s.query, s.plans, s.total_plan_time / s.plans AS ms
  FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
 WHERE d.datname = $1 AND s.plans > $2 AND NOT s.toplevel
"""
KEPT = 12
"""Plans of one statement: PL/pgSQL makes six before it keeps one, in each of two sessions."""
MANY = 800
"""Jobs of every kind: so many that reading a whole table or index shows."""
SLACK = 300
"""Blocks that a call may need beyond three times the best: empty partitions that are known cost nothing."""


@dataclass(frozen=True)
class Cost:
    """What one statement has cost, by call."""

    blocks: float
    compiled: int


@pytest.fixture(scope="module", params=[STOCK, 18])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that counts what its statements read; the distribution's own with its jit on."""
    if request.param == STOCK and find_stock() is None:
        pytest.skip(left_out.STOCK.reason)
    with Server(request.param, fsync=False, settings=SETTINGS) as server:
        yield server


@asynccontextmanager
async def fresh(server: Server) -> AsyncIterator[tuple[str, World, "asyncpg.Connection[asyncpg.Record]"]]:
    """A migrated database, a store on it that keeps to one connection, and a session beside it."""
    name = server.create_database()
    store = PostgresStore(server.dsn(name), dump_grace=0.0)
    await store.migrate()
    await store.open()
    beside = await asyncpg.connect(server.dsn(name))
    world = World(store)
    await world.begin()
    try:
        yield name, world, beside
    finally:
        await beside.close()
        await store.close()
        server.drop_database(name)


async def costs(server: Server, name: str, world: World) -> dict[str, Cost]:
    """What each statement costs, nested ones included."""
    look = await asyncpg.connect(server.dsn())
    try:
        await look.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        await look.execute("SELECT pg_stat_statements_reset()")
        await world.work()
        rows = await look.fetch(COUNTS, name)
    finally:
        await look.close()
    return {row["query"]: Cost(row["blocks"] / row["calls"], row["compiled"]) for row in rows}


@pytest.mark.slow
async def test_no_plan_depends_on_statistics_and_nothing_is_compiled(server: Server) -> None:
    """After autoanalyze of an empty table promote read a whole index for each row: 4 s for 1,000. With jit on
    each call of 80 functions was compiled: a claim took 1.2 s."""
    async with fresh(server) as (name, world, beside):
        await world.fill(MANY)
        await world.work()  # hints and caches are there
        found = {"nothing known": await costs(server, name, world)}
        await beside.execute("ANALYZE")
        await world.work()  # plans are made
        best = found["as they are"] = await costs(server, name, world)
        for belief, rows, pages in (("nothing", 0, 1_000_000), ("ten million", 10_000_000, 1)):
            await beside.execute(BELIEVE, rows, pages)
            await world.work()  # plans are made
            found[belief] = await costs(server, name, world)
    async with fresh(server) as (name, world, beside):
        await beside.execute("ANALYZE")
        for _ in range(6):
            await world.work()  # plans are made, and kept, while there is nothing
        await world.fill(MANY)
        found["once empty"] = await costs(server, name, world)
    compiled = {query for seen in found.values() for query, cost in seen.items() if cost.compiled}
    assert compiled == set()
    worse = {
        (belief, round(cost.blocks), round(best[query].blocks), query)
        for belief, seen in found.items()
        for query, cost in seen.items()
        if query in best and cost.blocks > 3 * best[query].blocks + SLACK
    }
    assert worse == set()


async def test_no_statement_is_planned_for_each_job(server: Server) -> None:
    """[S1] Before PostgreSQL 18 a function in SQL is planned by each statement that calls it: the page of a
    parent planned the look-up of a job once for each of its parts, and took 270 ms instead of 80."""
    async with fresh(server) as (name, world, _):
        await world.fill(MANY // 4)
        (parent,) = await world.store.parents()
        await world.store.set_parent(parent.id, parallel=MANY)
        look = await asyncpg.connect(server.dsn(name))
        await look.execute("SELECT windlass.advance($1, NULL, $2)", parent.id, MANY)
        await look.close()
        look = await asyncpg.connect(server.dsn())
        try:
            await look.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            await look.execute("SELECT pg_stat_statements_reset()")
            parts = await world.store.parts(parent.id)
            for part in parts[: MANY // 40]:
                assert part.job is not None
                assert await world.store.job(part.job) is not None
                await world.store.gates()
                await world.store.watermarks("gated")
            rows = await look.fetch(PLANNED, name, KEPT)
        finally:
            await look.close()
    assert len(parts) == MANY // 4
    assert [tuple(row) for row in rows] == []
