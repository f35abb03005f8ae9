"""Migrating: many at once, a schema that is newer or missing, several schemas in one database."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.conftest import Schema
from tests.pg.catalog import picture
from tests.pg.kit import Base, connect
from windlass.core.retry import DeathPolicy
from windlass.errors import ConfigurationError, SchemaMissing, SchemaTooNew
from windlass.store.postgres import PostgresStore, schema
from windlass.store.records import NewJob, Outcome, QueueRecord, Rescued, WorkerInfo

LATEST = schema.latest()
LEAKS = """
SELECT proname FROM pg_proc WHERE pronamespace = $1::text::regnamespace AND prosrc ~ '\\mwindlass[.'']'
"""
FIRST = """
CREATE FUNCTION windlass.schema_version(OUT version int, OUT functions text)
LANGUAGE sql AS $$ SELECT 1, '' $$;
CREATE FUNCTION windlass.register(bigint, text, text, int, text[]) RETURNS void LANGUAGE sql AS $$ $$;
CREATE FUNCTION windlass.enqueue_one(text, text, text, smallint, float8, timestamptz, text, text, text)
RETURNS void LANGUAGE sql AS $$ $$;
CREATE FUNCTION windlass.expire(int) RETURNS void LANGUAGE sql AS $$ $$;
INSERT INTO windlass.queue (name, max_workers) VALUES ('mail', 3)
"""
TWICE = """
SELECT proname FROM pg_proc WHERE pronamespace = 'windlass'::regnamespace GROUP BY 1 HAVING count(*) > 1
"""
VERSION_3, VERSION_5 = (Path(__file__).with_name(f"version{n}.sql") for n in (3, 5))
FINISH_OF_5 = """
SELECT applied
  FROM windlass.finish(7, 2, '{1}', '{2}', ARRAY['{[2,3)}'], '{1}', ARRAY['{0,1}'], '{2}', '{2}', '{1}',
                       '{2}', '{NULL}', NULL)
"""
COMMAND = [sys.executable, "-c", "from windlass.cli import main; main()", "migrate", "--json"]


async def migrate_here(store: PostgresStore) -> int:
    """The same on a connection of this process."""
    return (await store.migrate()).before


async def migrate_in_a_process(dsn: str) -> int:
    """`windlass migrate` in a process of its own: the version it found."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, env={**os.environ, "WINDLASS_DATABASE_URL": dsn}, stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return int(json.loads(out)["before"])


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
async def test_twenty_migrate_at_once(pg_database: str, isolation: str) -> None:
    """Safe when twenty start at once: one does the work, whatever the database's default isolation."""
    session = await connect(pg_database, "q")
    name = await session.value("SELECT current_database()")
    await session.run(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    stores = [PostgresStore(pg_database) for _ in range(16)]
    before = Counter(
        await asyncio.gather(
            *(migrate_in_a_process(pg_database) for _ in range(4)), *(migrate_here(store) for store in stores)
        )
    )
    assert before == {0: 1, LATEST: 19}
    await stores[0].open()
    await stores[0].close()
    await session.connection.close()


async def test_a_newer_schema_is_refused_and_not_touched(pg_database: str) -> None:
    """An older program must neither use nor change what a newer one has made."""
    store = PostgresStore(pg_database)
    await store.migrate()
    session = await connect(pg_database, "q")
    await session.run("UPDATE windlass.meta SET version = 99, functions = 'newer'")
    await session.run(
        "CREATE OR REPLACE FUNCTION windlass.lock_space() RETURNS int LANGUAGE sql AS 'SELECT 1'"
    )
    before = await picture(session, "windlass")
    for attempt in (store.migrate, store.open):
        with pytest.raises(SchemaTooNew, match=rf"version 99.*up to {LATEST}.*upgrade Windlass"):
            await attempt()
    assert await picture(session, "windlass") == before
    assert await session.value("SELECT version FROM windlass.meta") == 99
    await session.connection.close()


async def test_a_missing_schema_says_what_to_run(pg_database: str) -> None:
    """Opening does not migrate by itself."""
    store = PostgresStore(pg_database, "jobs")
    with pytest.raises(SchemaMissing, match=r"no Windlass schema.*'jobs'.*windlass migrate"):
        await store.open()


async def test_functions_are_replaced_when_their_text_has_changed(pg_database: str) -> None:
    """The tables have a version, the functions a fingerprint."""
    store = PostgresStore(pg_database)
    await store.migrate()
    session = await connect(pg_database, "q")
    before = await picture(session, "windlass")
    await session.run(
        "CREATE OR REPLACE FUNCTION windlass.lock_space() RETURNS int LANGUAGE sql AS 'SELECT 1'"
    )
    await session.run("UPDATE windlass.meta SET functions = 'older'")
    assert await picture(session, "windlass") != before
    done = await store.migrate()
    assert (done.before, done.after) == (LATEST, LATEST)
    assert await picture(session, "windlass") == before
    await session.connection.close()


async def test_an_older_schema_is_brought_up_to_date(pg_database: str) -> None:
    """What stands in it stays; calls of a worker that has not been upgraded yet mean what they meant."""
    session = await connect(pg_database, "q")
    await session.run(schema.render(schema.migrations()[0][1], "windlass"))
    await session.run(FIRST)
    store = PostgresStore(pg_database)
    done = await store.migrate()
    assert (done.before, done.after) == (1, LATEST)
    await store.open()
    assert await session.rows(TWICE) == [], "a call could mean either"
    await session.run("SELECT windlass.register(1, 'w', 'here', 1, '{mail}')")
    assert [worker.lease for worker in await store.workers()] == [30.0]
    assert await store.queues() == [QueueRecord(name="mail", max_workers=3)], "with the record's defaults"
    await store.close()
    other = PostgresStore(pg_database, "fresh")
    await other.migrate()
    assert parts(await picture(session, "fresh")) == parts(await picture(session, "windlass"))
    await session.connection.close()


async def test_jobs_of_version_3_end_under_the_next_ones(pg_database: str) -> None:
    """[K1] Whatever their state was, each is run once; what their worker did before counts."""
    session = await connect(pg_database, "q")
    for _, text in schema.migrations()[:3]:
        await session.run(schema.render(text, "windlass"))
    await session.run(VERSION_3.read_text("utf-8"))
    store = PostgresStore(pg_database, head_cache=0.0)
    done = await store.migrate()
    assert (done.before, done.after) == (3, LATEST)
    assert await session.rows(TWICE) == [], "a call could mean either"
    await store.open()
    (held,) = await store.held(7)
    assert [job.task for job in held.jobs] == ["running", "lost"]
    assert (await store.finish(7, 2, [Outcome(job=held.jobs[0])])).applied == 1
    (worker,) = await store.workers()
    assert await store.rescue(7, worker.beat, DeathPolicy()) == Rescued(offered=1)
    assert await store.retry([6]) == {6: "retried"}
    await store.register(WorkerInfo(id=8))
    ran: list[str] = []
    async with asyncio.timeout(10):
        while len(ran) < 9:
            await store.promote()
            for claim in await store.claim(8, ["default"], 10):
                ran += [job.task for job in claim.jobs]
                await store.finish(8, len(ran), [Outcome(job=job) for job in claim.jobs])
    fair = ["fair", "fair", "fair-keyed"]
    assert sorted(ran) == ["dead", *fair, "keyed", "lost", "ready", "retrying", "scheduled"]
    states = Counter(row[0] for row in await session.rows("SELECT state FROM windlass.job"))
    assert states == {"succeeded": 11}
    await store.close()
    await session.connection.close()


async def test_views_on_what_users_call_outlive_a_migration(pg_database: str) -> None:
    """[M1] A dashboard's own view, say: it neither blocks the migration nor is lost by it."""
    session = await connect(pg_database, "q")
    for _, text in schema.migrations()[:5]:
        await session.run(schema.render(text, "windlass"))
    await session.run(VERSION_5.read_text("utf-8"))
    await session.run("CREATE VIEW backlog AS SELECT queue, ready FROM windlass.depth()")
    await PostgresStore(pg_database).migrate()
    assert await session.value("SELECT count(*) FROM backlog") == 1
    await session.connection.close()


async def test_jobs_of_version_5_end_under_the_next_ones(pg_database: str) -> None:
    """[M1] Each is run once; a worker that has not been upgraded yet ends its job as it did before."""
    session = await connect(pg_database, "q")
    for _, text in schema.migrations()[:5]:
        await session.run(schema.render(text, "windlass"))
    await session.run(VERSION_5.read_text("utf-8"))
    store = PostgresStore(pg_database, head_cache=0.0)
    done = await store.migrate()
    assert (done.before, done.after) == (5, LATEST)
    assert await session.rows(TWICE) == [], "a call could mean either"
    await store.open()
    assert (await store.depth())["default"].offered == 4
    assert [worker.vitals for worker in await store.workers()] == [None]
    (held,) = await store.held(7)
    assert [job.task for job in held.jobs] == ["running"]
    assert await session.value(FINISH_OF_5) == 1
    await store.register(WorkerInfo(id=8))
    ran: dict[str, float] = {}
    async with asyncio.timeout(10):
        while len(ran) < 4:
            await store.promote()
            for claim in await store.claim(8, ["default"], 10):
                ran |= {job.task: job.ready_at - job.enqueued_at for job in claim.jobs}
                await store.finish(8, len(ran), [Outcome(job=job) for job in claim.jobs])
    assert ran.keys() == {"ready", "again", "scheduled", "behind"}
    assert (ran["ready"], ran["behind"]) == (0.0, 0.0)
    assert ran["again"] == pytest.approx(3600)
    await store.close()
    await session.connection.close()


def parts(found: list[tuple[Any, ...]]) -> list[str]:
    """The functions and columns of a schema, by name."""
    return sorted(
        f"{what} {name.split('(')[0].split('.')[-1]} {rest[1] if what == 'column' else ''}"
        for what, name, *rest in found
        if what in ("function", "column")
    )


async def test_two_schemas_in_one_database_know_nothing_of_each_other(pg_schema: Schema) -> None:
    """Schema name configurable: jobs, lanes, locks, notifications and rotation of one are not the other's."""
    names = (pg_schema.name, f"{pg_schema.name}_too")
    one, two = (PostgresStore(pg_schema.dsn, name, head_cache=0.0) for name in names)
    session = await connect(pg_schema.dsn, "q")
    try:
        for store in (one, two):
            await store.migrate()
            await store.open()
            await store.register(WorkerInfo(id=1))
        await two.wait(["q"], 5)
        new = NewJob(task="t", payload="{}", queue="q")
        jobs = [receipt.id for receipt in await one.enqueue([new] * 2)]
        assert await two.wait(["q"], 0.1) is False
        assert await two.claim(1, ["q"], 10) == []
        assert (await one.rotate(force=True)).reclaimed
        (claim,) = await one.claim(1, ["q"], 10)
        assert [job.id for job in claim.jobs] == jobs
        assert (await one.finish(1, 1, [Outcome(job=job) for job in claim.jobs])).applied == 2
        await two.enqueue([new])
        assert len(await two.claim(1, ["q"], 10)) == 1
        assert (await one.depth())["q"].ready == 0
        assert await session.rows(LEAKS, names[0]) == []
    finally:
        for store in (one, two):
            await store.close()
        await session.run(f"DROP SCHEMA {names[1]} CASCADE")
        await session.connection.close()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A",
        "a b",
        'a"b',
        "a'b",
        "a;drop schema x",
        "1a",
        "pg_jobs",
        "ä",
        "a.b",
        "x" * 49,
        "a\n",
        "user",
        "select",
    ],
)
def test_a_schema_name_that_would_need_quoting_is_refused(name: str) -> None:
    """Before anything is sent anywhere."""
    with pytest.raises(ConfigurationError, match="schema name"):
        PostgresStore("postgresql://nowhere", name)
    with pytest.raises(ConfigurationError, match="schema name"):
        schema.ddl(name)


async def test_every_reserved_word_is_refused(pg_database: str) -> None:
    """A name that PostgreSQL would quote is a syntax error in half of the statements."""
    connection = await asyncpg.connect(pg_database)
    words = [
        row[0]
        for row in await connection.fetch("SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')")
    ]
    await connection.close()
    accepted = []
    for word in words:
        try:
            PostgresStore("postgresql://nowhere", word)
            accepted.append(word)
        except ConfigurationError:
            pass
    assert accepted == []


async def test_every_table_can_be_published(base: Base) -> None:
    """[fault 30] Where nothing tells a table's rows apart, none can be removed while it is published: with a
    limit on a task, its claims failed."""
    sql = """SELECT c.relname FROM pg_class c
              WHERE c.relnamespace = 'windlass'::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p'
                AND c.relreplident = 'd'
                AND NOT EXISTS (SELECT FROM pg_index p WHERE p.indrelid = c.oid AND p.indisprimary)"""
    assert [row["relname"] for row in await base.look.rows(sql)] == []
