"""Asynchronous connections: asyncpg, psycopg and SQLAlchemy. Rolled back = never existed [E1]."""

import json
from datetime import UTC, datetime

import asyncpg
import pytest

from tests.store.postgres.adapters.callers import ASYNC, AsyncCaller
from tests.store.postgres.adapters.conftest import HARD
from windlass import State, Windlass
from windlass.errors import AlreadyEnqueued, ConfigurationError, JobNotFound
from windlass.tasks.task import SyncTask

Note = SyncTask[[str], str]
every_async_caller = pytest.mark.parametrize("caller", ASYNC.values(), ids=ASYNC.keys())


@every_async_caller
async def test_e1_a_job_of_a_committed_transaction_is_there(
    app: Windlass, dsn: str, note: Note, caller: AsyncCaller
) -> None:
    async with caller(dsn, True) as connection:
        job = await note.using(connection=connection).aenqueue(HARD)
        with pytest.raises(JobNotFound):
            await job.astatus()
    assert (await app.arun_until_idle(queues=[note.queue])).succeeded == 1
    assert await job.aresult(5) == HARD


@every_async_caller
async def test_e1_a_job_of_a_rolled_back_transaction_never_existed(
    app: Windlass, dsn: str, note: Note, caller: AsyncCaller
) -> None:
    async with caller(dsn, False) as connection:
        job = await note.using(connection=connection).aenqueue(HARD)
        ids = await note.using(connection=connection, delay="0s").aenqueue_many([("a",), ("b",)])
    for id in (job.id, *ids):
        with pytest.raises(JobNotFound):
            await app.job(id).astatus()
    assert (await app.arun_until_idle(queues=[note.queue], wait="100ms")).succeeded == 0


@every_async_caller
async def test_e1_many_jobs_return_their_ids_in_order(
    app: Windlass, dsn: str, note: Note, caller: AsyncCaller
) -> None:
    texts = [f"{number}" for number in range(40)]
    async with caller(dsn, True) as connection:
        plain = await note.using(connection=connection).aenqueue_many([(text,) for text in texts])
        keyed = await note.using(connection=connection, idempotency_key=note.queue).aenqueue_many(
            [("x",), ("y",)]
        )
    assert (await app.arun_until_idle(queues=[note.queue])).succeeded == 42
    assert [await app.job(id).aresult() for id in plain] == texts
    assert [await app.job(id).aresult() for id in keyed] == ["x", "y"]


@every_async_caller
async def test_e2_every_option_arrives(app: Windlass, dsn: str, note: Note, caller: AsyncCaller) -> None:
    async with caller(dsn, True) as connection:
        job = await note.using(
            connection=connection,
            queue="elsewhere",
            priority="low",
            run_at=4_000_000_000,
            max_attempts=7,
            fair_key="tenant",
            tags=["a", "b%"],
            headers={"x": HARD},
        ).aenqueue("later")
    record = await job.arecord()
    assert (record.queue, record.priority, record.state) == ("elsewhere", 3, State.SCHEDULED)
    assert record.run_at == datetime.fromtimestamp(4_000_000_000, UTC)
    assert (record.options.max_attempts, record.options.fair_key) == (7, "tenant")
    assert (record.options.tags, record.options.headers) == (("a", "b%"), {"x": HARD})


@every_async_caller
async def test_e6_a_refusal_is_our_own_error_with_the_twin(
    app: Windlass, dsn: str, note: Note, caller: AsyncCaller
) -> None:
    twin = await note.using(unique=note.queue).aenqueue("first")
    async with caller(dsn, False) as connection:
        with pytest.raises(AlreadyEnqueued) as caught:
            await note.using(connection=connection, unique=note.queue, on_conflict="reject").aenqueue(
                "second"
            )
    assert caught.value.job == twin.id


async def test_e1_several_statements_without_a_transaction_are_all_or_none(
    app: Windlass, dsn: str, note: Note
) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        rejecting = note.using(connection=connection, unique=note.queue, on_conflict="reject")
        with pytest.raises(AlreadyEnqueued):
            await rejecting.aenqueue_many([("first",), ("second",)])
    finally:
        await connection.close()
    assert (await app.arun_until_idle(queues=[note.queue])).succeeded == 0


async def test_e1_codecs_of_the_callers_connection_do_not_disturb(
    app: Windlass, dsn: str, note: Note
) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for name in ("json", "jsonb"):
            await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        job = await note.using(connection=connection, headers={"a": "b"}).aenqueue(HARD)
    finally:
        await connection.close()
    assert (await app.arun_until_idle(queues=[note.queue])).succeeded == 1
    assert await job.aresult() == HARD


async def test_an_asynchronous_connection_is_refused_by_enqueue(dsn: str, note: Note) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        with pytest.raises(ConfigurationError, match="is asynchronous"):
            note.using(connection=connection).enqueue("x")
    finally:
        await connection.close()


@every_async_caller
async def test_e5_a_job_by_name_goes_where_live_workers_say(
    app: Windlass, dsn: str, note: Note, caller: AsyncCaller
) -> None:
    """[E5] Asked on the caller's own connection: the app's store is not opened for it."""
    producer = Windlass(dsn, schema=app.settings.schema)
    async with app.worker([note.queue]), caller(dsn, True) as connection:
        job = await producer.named(note.name).using(connection=connection).aenqueue(HARD)
        assert producer._producer.store_handle._store is None
    assert (await app.job(job.id).arecord()).queue == note.queue
