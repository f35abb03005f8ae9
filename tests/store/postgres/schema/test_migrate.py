"""Migrating: many at once, a schema that is newer or missing, several schemas in one database."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter

import asyncpg
import pytest

from tests.conftest import Schema
from tests.store.postgres.kit import Base, connect
from tests.store.postgres.schema.catalog import picture
from windlass.errors import ConfigurationError, SchemaMissing, SchemaTooNew, SchemaUnreleased
from windlass.store.postgres import PostgresStore, schema
from windlass.store.records import NewJob, Outcome, WorkerInfo

LATEST = schema.latest()
LEAKS = """
SELECT proname FROM pg_proc WHERE pronamespace = $1::text::regnamespace AND prosrc ~ '\\mwindlass[.'']'
"""
TWICE = """
SELECT proname FROM pg_proc WHERE pronamespace = 'windlass'::regnamespace GROUP BY 1 HAVING count(*) > 1
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


@pytest.mark.parametrize("version", [LATEST, LATEST + 16])
async def test_a_schema_that_was_never_released_is_refused(pg_database: str, version: int) -> None:
    """Its number says nothing: those before the first release had higher ones, and told no origin."""
    store = PostgresStore(pg_database)
    await store.migrate()
    session = await connect(pg_database, "q")
    await session.run("UPDATE windlass.meta SET version = $1, origin = 'another'", version)
    for _ in range(2):
        for attempt in (store.migrate, store.open):
            with pytest.raises(SchemaUnreleased, match=rf"version {version}, was .* never released.*another"):
                await attempt()
        await session.run("DROP FUNCTION windlass.schema_version()")
        await session.run(
            "CREATE FUNCTION windlass.schema_version(OUT version int, OUT functions text) LANGUAGE sql AS "
            "'SELECT m.version, m.functions FROM windlass.meta m'"
        )
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


async def test_no_function_has_two_forms(base: Base) -> None:
    """A call could mean either, and one that replaces another with more arguments would leave it there."""
    assert await base.look.rows(TWICE) == []


async def test_views_on_what_users_call_outlive_a_migration(pg_database: str) -> None:
    """[M1] A dashboard's own view, say: it neither blocks the migration nor is lost by it."""
    store = PostgresStore(pg_database)
    await store.migrate()
    session = await connect(pg_database, "q")
    await session.run("CREATE VIEW backlog AS SELECT queue, ready FROM windlass.depth()")
    await session.run("CREATE VIEW jobs AS SELECT id, state FROM windlass.job")
    await session.run("UPDATE windlass.meta SET functions = 'older'")
    await store.migrate()
    assert await session.value("SELECT count(*) FROM backlog, jobs") == 0
    await session.connection.close()


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
