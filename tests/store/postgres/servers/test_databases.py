"""Databases not in UTF-8, or with settings that are not the defaults: jobs are enqueued, run and shown. The
command runs a loop of its own, so these tests are synchronous."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from tests.cli.kit import Desk
from tests.postgres import Server
from windlass.core.states import Kind, State
from windlass.errors import InvalidPayload, StoreReadOnly
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.connections.encoding import Fit
from windlass.store.records import (
    Checkpoint,
    Event,
    Failure,
    JobFilter,
    NewJob,
    Options,
    Outcome,
    Report,
    Vitals,
    WorkerInfo,
)

FOREIGN = "日本 😀 é"
Make = Callable[..., str]


@pytest.fixture
def database(pg_server: Server) -> Iterator[Make]:
    """Makes a database, migrated under its settings, and answers with its DSN."""
    made: list[str] = []
    with psycopg.connect(pg_server.dsn(), autocommit=True) as owner:

        def make(encoding: str = "UTF8", settings: tuple[str, ...] = (), *, later: bool = False) -> str:
            name = f"windlass_{secrets.token_hex(6)}"
            made.append(name)
            owner.execute(
                sql.SQL("CREATE DATABASE {} ENCODING {} TEMPLATE template0").format(
                    sql.Identifier(name), encoding
                )
            )
            desk = Desk(pg_server.dsn(name))
            if later:
                desk.ok("migrate")
            for setting in settings:
                owner.execute(f"ALTER DATABASE {name} SET {setting}".encode())
            if not later:
                desk.ok("migrate")
            return desk.url

        yield make
    for name in made:
        pg_server.drop_database(name)


async def with_store(url: str, use: Callable[[PostgresStore], Awaitable[None]]) -> None:
    store = PostgresStore(url)
    await store.open()
    try:
        await use(store)
    finally:
        await store.close()


async def lives(url: str, text: str) -> dict[str, str]:
    """Enqueue, run, fail, checkpoint and tell, with this text wherever a worker has to write one; the answer
    is what can be read again."""
    store = PostgresStore(url)
    await store.open()
    try:
        jobs = [NewJob(task="mail.send", payload='["\\u00e9"]', queue="mail")] * 3
        await store.enqueue(jobs)
        await store.register(WorkerInfo(id=7, label="w-7", queues=("mail",)))
        (claim,) = await store.claim(7, ["mail"], 3)
        well, badly, going_on = claim.jobs
        await store.checkpoint(7, going_on, Checkpoint(f'"{text}"', 1, 2))
        failed = Outcome(job=badly, kind=Kind.DEAD, error=Failure("ValueError", text, text, 1))
        done = await store.finish(7, 1, [Outcome(job=well, run_ms=1.0, result=f'"{text}"'), failed])
        assert (done.applied, done.refused) == (2, ())
        await store.report(9, 1, Report(events=[Event(at=1.0, kind="operator", text=text, worker=text)]))
        await store.report(
            7, 1, Report(vitals=Vitals(cpu=0.0, memory=0, running=0, slots=1, lag=0.0, jobs=()))
        )
        records = {record.id: record for record in (await store.jobs(JobFilter(), 10)).jobs}
        assert [records[job.id].state for job in claim.jobs] == [
            State.SUCCEEDED, State.DEAD, State.RUNNING,
        ]  # fmt: skip
        (checkpoint,) = (await store.checkpoints([going_on.id])).values()
        (event,) = await store.events()
        return {
            "result": records[well.id].result or "",
            "failure": records[badly.id].errors[-1].message,
            "checkpoint": checkpoint.data,
            "event": event.text,
        }
    finally:
        await store.close()


def test_a_worker_goes_on_where_a_text_does_not_fit(database: Make) -> None:
    """A failure, a result or a checkpoint that LATIN1 has no room for stopped the flush of all outcomes, and
    the worker with it, again and again. What is JSON means the same; the rest is shown with escapes."""
    escaped = r"\u65e5\u672c \ud83d\ude00 é"
    assert asyncio.run(lives(database("LATIN1"), FOREIGN)) == {
        "result": f'"{escaped}"',
        "failure": escaped,
        "checkpoint": f'"{escaped}"',
        "event": escaped,
    }


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "UTF8"])
def test_any_text_is_kept_elsewhere(encoding: str, database: Make) -> None:
    kept = asyncio.run(lives(database(encoding), FOREIGN))
    assert kept["failure"] == kept["event"] == FOREIGN
    assert kept["result"] == kept["checkpoint"] == f'"{FOREIGN}"'


@pytest.mark.parametrize(
    "job",
    [
        NewJob(task="a", payload=f'["{FOREIGN}"]', queue="mail"),
        NewJob(task="a", payload="[]", queue="mail", options=Options(tags=(FOREIGN,))),
        NewJob(task="a", payload="[]", queue="mail", options=Options(unique_key=FOREIGN)),
        NewJob(task="a", payload="[]", queue="mail", idempotency_key=FOREIGN),
    ],
    ids=["payload", "tag", "unique key", "idempotency key"],
)
def test_e4_what_does_not_fit_is_refused_and_nothing_is_written(job: NewJob, database: Make) -> None:
    async def enqueue(store: PostgresStore) -> None:
        with pytest.raises(InvalidPayload, match="use a database in UTF8"):
            await store.enqueue([NewJob(task="a", payload="[]", queue="mail"), job])
        assert (await store.jobs(JobFilter(), 10)).jobs == []

    asyncio.run(with_store(database("LATIN1"), enqueue))


@pytest.mark.parametrize(
    ("encoding", "text", "kept"),
    [
        ("UTF8", FOREIGN, FOREIGN),
        ("WIN1252", "€日", "€\\u65e5"),
        ("KOI8R", "мир é", "мир \\u00e9"),
        ("EUC_JP", "日", "\\u65e5"),
        ("MULE_INTERNAL", "é", "\\u00e9"),
    ],
)
def test_text_is_made_to_fit(encoding: str, text: str, kept: str) -> None:
    assert Fit(encoding)(text) == kept


STRANGE = {
    "strings": ("standard_conforming_strings = off", "escape_string_warning = on"),
    "isolation": ("default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on"),
    "styles": (
        "datestyle = 'SQL, DMY'", "intervalstyle = 'sql_standard'", "bytea_output = 'escape'",
        "extra_float_digits = -15", "timezone = 'Asia/Kathmandu'", "xmlbinary = 'hex'",
    ),
    "names": ("search_path = ''", "row_security = off", "quote_all_identifiers = on", "array_nulls = off"),
    "plans": ("plan_cache_mode = 'force_custom_plan'", "enable_indexscan = off"),
}  # fmt: skip


@pytest.mark.parametrize("settings", STRANGE.values(), ids=list(STRANGE))
def test_settings_of_the_database_change_nothing(settings: tuple[str, ...], database: Make) -> None:
    desk = Desk(database("UTF8", settings))
    kept = asyncio.run(lives(desk.url, "a 'quoted' text"))
    assert kept["failure"] == "a 'quoted' text"
    for command in ("queues", "jobs", "events", "doctor", "gates", "budgets", "workers"):
        assert "Traceback" not in desk.ok(command)


def test_short_timeouts_of_the_role_are_not_ours(database: Make) -> None:
    """Claims, flushes and migrations died of a statement_timeout that was meant for the pages of a shop."""
    timeouts = ("statement_timeout", "lock_timeout", "idle_session_timeout")
    desk = Desk(database("UTF8", tuple(f"{name} = '1s'" for name in timeouts)))

    async def look(store: PostgresStore) -> None:
        async with store._db.connection() as connection:
            assert {await connection.fetchval(f"SHOW {name}") for name in timeouts} == {"0"}

    asyncio.run(with_store(desk.url, look))
    with psycopg.connect(desk.url, autocommit=True) as owner:
        owner.execute("DROP SCHEMA windlass CASCADE")
        name = desk.url.rpartition("/")[2]
        owner.execute(f"ALTER DATABASE {name} SET statement_timeout = '30ms'".encode())
    assert "version 0" in desk.ok("migrate")  # which takes longer


def test_a_session_that_may_only_read_says_so(database: Make) -> None:
    """default_transaction_read_only is heeded: whoever sets it wants nothing to be written."""
    desk = Desk(database("UTF8", ("default_transaction_read_only = on",), later=True))

    async def write(store: PostgresStore) -> None:
        assert "default_transaction_read_only" in (store.read_only or "")
        with pytest.raises(StoreReadOnly, match="set it off for the role"):
            await store.enqueue([NewJob(task="a", payload="[]", queue="mail")])
        assert (await store.jobs(JobFilter(), 10)).jobs == []

    asyncio.run(with_store(desk.url, write))
    assert "only be read" in desk.run("queues").stderr
    assert "may only read" in desk.refused("migrate")
