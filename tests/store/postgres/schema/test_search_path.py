"""A hostile search path changes nothing of what runs with the owner's rights [rule 11]."""

from collections.abc import Callable
from datetime import timedelta

import asyncpg
import pytest

from tests.store.postgres.kit import Base, Session

MakeRole = Callable[[str | None], str]

# What the functions use without a schema, as overloads that fit better than those of pg_catalog.
FUNCTIONS = (
    "now()", "clock_timestamp()", "pg_current_xact_id()", "pg_backend_pid()", "nextval(regclass)",
    "pg_sequence_last_value(regclass)", "setval(regclass, bigint, boolean)", "pg_notify(text, text)",
    "array_position(text[], text)", "cardinality(text[])", "octet_length(text)", "ascii(text)",
    "quote_literal(text)", "date_part(text, interval)", "unnest(text[])", "json_typeof(json)",
    "json_strip_nulls(json)", "lower(int8multirange)", "pg_advisory_xact_lock(integer, integer)",
    "isempty(int8multirange)", "current_setting(text)", "array_agg(bigint)",
)  # fmt: skip
OPERATORS = (
    ("=", "text", "text"), ("<>", "text", "text"), ("=", "bigint", "bigint"), (">", "bigint", "bigint"),
    ("<=", "bigint", "bigint"), ("||", "text", "text"), ("<<", "bigint", "integer"),
    ("-", "bigint", "bigint"), ("@>", "int8multirange", "int8multirange"),
    ("-", "int8multirange", "int8multirange"), ("->>", "json", "text"),
)  # fmt: skip
ONE = "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', '{\"{}\"}')"
MANY = "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', '{\"{}\",\"[]\"}')"
SPLIT = "SELECT windlass.split(1, 2, $1, $2, $3, 2, '{1,2}', '{1,1}', 1, 0, true)"
FINISH = """SELECT applied FROM windlass.finish(
    1, 1, $1, $2, '{"{[1,2)}"}', '{1}', NULL, NULL, NULL, NULL, NULL, NULL)"""
TABLES = ("lane", "queue", "ready", "claim", "outcome", "deferred", "worker_life", "unique_key", "meta")


async def poison(session: Session) -> None:
    """A schema of the role's own, full of traps, and temporary tables that shadow ours."""
    # The driver asks the catalog once for each type that it does not know: that is not what is tested here.
    await session.rows("SELECT NULL::bigint[], NULL::text[], NULL::smallint[], NULL::float8[], NULL::int[]")
    await session.run("CREATE SCHEMA evil")
    body = "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked, as %', session_user; END $$"
    for signature in FUNCTIONS:
        await session.run(f"CREATE FUNCTION evil.{signature} RETURNS bigint {body}")
    for i, (name, left, right) in enumerate(OPERATORS):
        await session.run(f"CREATE FUNCTION evil.op{i}({left}, {right}) RETURNS boolean {body}")
        await session.run(
            f"CREATE OPERATOR evil.{name} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = evil.op{i})"
        )
    for table in TABLES:
        await session.run(f"CREATE TABLE evil.{table} ()")
        await session.run(f"CREATE TEMPORARY TABLE {table} ()")
    await session.run("SET search_path = evil, pg_temp, pg_catalog")


async def test_every_function_with_the_owners_rights_fixes_its_search_path(base: Base) -> None:
    """[rule 11] Ours first in nothing: pg_catalog, and temporary objects last."""
    sql = """SELECT proname FROM pg_proc WHERE pronamespace = 'windlass'::regnamespace AND prosecdef
               AND NOT coalesce(proconfig, '{}') @> '{"search_path=pg_catalog, pg_temp"}'"""
    assert await base.look.rows(sql) == []
    assert (
        await base.look.value("SELECT count(*) FROM pg_proc WHERE proname = 'enqueue_many' AND prosecdef")
        == 1
    )


async def trapped(base: Base, dsn: str) -> Session:
    """A session of this role that has laid its traps."""
    session = await base.session(dsn)
    database = await session.value("SELECT current_database()")
    await base.look.run(
        f"GRANT CREATE ON DATABASE {database} TO {await session.value('SELECT current_user')}"
    )
    await poison(session)
    with pytest.raises(asyncpg.RaiseError, match="hijacked"):
        await session.value("SELECT now()")
    return session


async def test_a_producers_traps_are_not_stepped_into(alone: Base, role: MakeRole) -> None:
    """[rule 11] Enqueue in every way."""
    await alone.lane()
    session = await trapped(alone, role("producer"))
    jobs = [await session.enqueue(**options) for options in (
        {}, {"delay": timedelta(hours=1)}, {"unique_key": "k"}, {"idempotency_key": "i"}, {"fair_key": "f"},
        {"queue": "undeclared"}, {"tags": ["a"]},
    )]  # fmt: skip
    jobs.append(await session.enqueue(after=jobs[:2], otherwise="run"))
    jobs += await session.value(MANY, alone.queue)
    assert len(set(jobs)) == 10


async def test_a_workers_traps_are_not_stepped_into(alone: Base, role: MakeRole) -> None:
    """[rule 11] What a worker calls in the course of its life."""
    lane = await alone.lane()
    space = await alone.look.value("SELECT windlass.lock_space()")
    session = await trapped(alone, role("worker"))
    jobs = await session.value(MANY, alone.queue)
    await session.run("SELECT windlass.register(1, 'w', 'here', 1, '{}')")
    await session.begin()
    await session.run("SELECT pg_catalog.pg_advisory_xact_lock($1, $2)", space, lane)
    taken = await session.row("SELECT * FROM windlass.claim_take($1, 1, 9)", lane)
    await session.commit()
    assert taken["seqs"] == [1, 2]
    flush = await session.row(FINISH, [lane], [taken["claim"]])
    assert flush["applied"] == 1
    assert await session.value("SELECT windlass.heartbeat(1)") == []
    assert await session.value(SPLIT, jobs[1], lane, taken["claim"]) == "split"
    assert await session.value("SELECT windlass.set_parent($1, 2)", jobs[1])
    assert await session.value("SELECT windlass.cancel($1)", jobs[1]) == "requested"
    assert await session.value("SELECT windlass.redrive($1)", jobs[1]) == 2
    (job,) = await session.value(ONE, alone.queue)
    await session.begin()
    await session.run("SELECT pg_catalog.pg_advisory_xact_lock($1, $2)", space, lane)
    taken = await session.row("SELECT * FROM windlass.claim_take($1, 1, 9)", lane)
    await session.commit()
    assert len(taken["seqs"]) == 2
    assert await session.value("SELECT windlass.cancel($1)", job) == "requested"
    assert await session.value("SELECT windlass.begin_chore('t', 60)")
    await session.run("""SELECT windlass.set_task('t', '{"batch": 5}')""")
    for step in (
        "publish_horizon()",
        "settle_rest(9)",
        "replace_step(9)",
        "promote(9)",
        "admit(9)",
        "expire(9)",
        "follow(9)",
        "advance(1, 9)",
    ):
        await session.run(f"SELECT windlass.{step}")
    assert await session.value("SELECT (windlass.rotation_begin(true, '{}')).victim") == 0
    assert await session.value("SELECT windlass.declare_dead(1, 1)") is True
    assert (await session.row("SELECT * FROM windlass.rescue_step(1, '{0}', 9)"))["cancelled"] == 1
