"""Synchronous connections: psycopg, SQLAlchemy and Django. Rolled back = never existed [E1]."""

import contextlib
import threading
from datetime import UTC, datetime

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from tests.store.postgres.adapters.callers import SYNC, SyncCaller, django_wrapper
from tests.store.postgres.adapters.conftest import HARD
from windlass import State, Windlass
from windlass.errors import AlreadyEnqueued, ConfigurationError, JobNotFound
from windlass.tasks.task import SyncTask

Note = SyncTask[[str], str]
every_sync_caller = pytest.mark.parametrize("caller", SYNC.values(), ids=SYNC.keys())


@every_sync_caller
def test_e1_a_job_of_a_committed_transaction_is_there(
    app: Windlass, dsn: str, note: Note, caller: SyncCaller
) -> None:
    with caller(dsn, True) as connection:
        job = note.using(connection=connection).enqueue(HARD)
        with pytest.raises(JobNotFound):
            job.status()
    assert app.run_until_idle(queues=[note.queue]).succeeded == 1
    assert job.result(5) == HARD


@every_sync_caller
def test_e1_a_job_of_a_rolled_back_transaction_never_existed(
    app: Windlass, dsn: str, note: Note, caller: SyncCaller
) -> None:
    with caller(dsn, False) as connection:
        job = note.using(connection=connection).enqueue(HARD)
        ids = note.using(connection=connection, delay="0s").enqueue_many([("a",), ("b",)])
    for id in (job.id, *ids):
        with pytest.raises(JobNotFound):
            app.job(id).status()
    assert app.run_until_idle(queues=[note.queue], wait="100ms").succeeded == 0


@every_sync_caller
def test_e1_many_jobs_return_their_ids_in_order(
    app: Windlass, dsn: str, note: Note, caller: SyncCaller
) -> None:
    texts = [f"{number}" for number in range(40)]
    with caller(dsn, True) as connection:
        plain = note.using(connection=connection).enqueue_many([(text,) for text in texts])
        keyed = note.using(connection=connection, idempotency_key=note.queue).enqueue_many([("x",), ("y",)])
        again = note.using(connection=connection, idempotency_key=note.queue).enqueue_many([("x",), ("y",)])
    assert again == keyed
    assert app.run_until_idle(queues=[note.queue]).succeeded == 42
    assert [app.job(id).result() for id in plain] == texts
    assert [app.job(id).result() for id in keyed] == ["x", "y"]


@every_sync_caller
def test_e2_every_option_arrives(app: Windlass, dsn: str, note: Note, caller: SyncCaller) -> None:
    with caller(dsn, True) as connection:
        job = note.using(
            connection=connection,
            queue="elsewhere",
            priority="urgent",
            run_at=4_000_000_000,
            max_attempts=7,
            timeout="2m",
            unique=note.queue,
            tags=["a", "b%"],
            headers={"x": HARD},
            trace="00-1-2-01",
        ).enqueue("later")
    record = job.record()
    assert (record.queue, record.priority, record.state) == ("elsewhere", 0, State.SCHEDULED)
    assert record.run_at == datetime.fromtimestamp(4_000_000_000, UTC)
    assert (record.options.max_attempts, record.options.timeout) == (7, 120.0)
    assert (record.options.unique_key, record.options.tags) == (note.queue, ("a", "b%"))
    assert (record.options.headers, record.options.trace) == ({"x": HARD}, "00-1-2-01")


@every_sync_caller
def test_e6_a_refusal_is_our_own_error_with_the_twin(
    app: Windlass, dsn: str, note: Note, caller: SyncCaller
) -> None:
    twin = note.using(unique=note.queue).enqueue("first")
    with caller(dsn, False) as connection, pytest.raises(AlreadyEnqueued) as caught:
        note.using(connection=connection, unique=note.queue, on_conflict="reject").enqueue("second")
    assert caught.value.job == twin.id


def test_e1_several_statements_without_a_transaction_are_all_or_none_on_psycopg(
    app: Windlass, dsn: str, note: Note
) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        rejecting = note.using(connection=connection, unique=note.queue, on_conflict="reject")
        with pytest.raises(AlreadyEnqueued):
            rejecting.enqueue_many([("first",), ("second",)])
    assert app.run_until_idle(queues=[note.queue]).succeeded == 0


def test_e1_several_statements_without_a_transaction_are_all_or_none_on_django(
    app: Windlass, dsn: str, note: Note
) -> None:
    connection = django_wrapper(dsn)
    try:
        rejecting = note.using(connection=connection, unique=note.queue, on_conflict="reject")
        with pytest.raises(AlreadyEnqueued):
            rejecting.enqueue_many([("first",), ("second",)])
    finally:
        connection.close()
    assert app.run_until_idle(queues=[note.queue]).succeeded == 0


def test_e1_a_savepoint_that_rolls_back_takes_its_jobs_along(app: Windlass, dsn: str, note: Note) -> None:
    with psycopg.connect(dsn) as connection:
        kept = note.using(connection=connection).enqueue("kept")
        with connection.transaction(force_rollback=True):
            lost = note.using(connection=connection).enqueue("lost")
    assert app.run_until_idle(queues=[note.queue]).succeeded == 1
    assert kept.result() == "kept"
    with pytest.raises(JobNotFound):
        lost.status()


def test_e1_an_atomic_block_of_django_that_fails_takes_its_jobs_along(
    app: Windlass, dsn: str, note: Note
) -> None:
    connection = django_wrapper(dsn)
    from django.db import transaction

    try:
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            lost = note.using(connection=connection).enqueue("lost")
            raise ZeroDivisionError
        with transaction.atomic():
            kept = note.using(connection=connection).enqueue("kept")
    finally:
        connection.close()
    assert app.run_until_idle(queues=[note.queue]).succeeded == 1
    assert kept.result() == "kept"
    with pytest.raises(JobNotFound):
        lost.status()


def test_e1_a_scoped_session_works_like_the_session_behind_it(app: Windlass, dsn: str, note: Note) -> None:
    engine = sqlalchemy.create_engine(dsn.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)
    session = scoped_session(sessionmaker(engine))
    try:
        lost = note.using(connection=session).enqueue("lost")
        session.rollback()
        kept = note.using(connection=session).enqueue("kept")
        session.commit()
    finally:
        session.remove()
    assert app.run_until_idle(queues=[note.queue]).succeeded == 1
    assert kept.result() == "kept"
    with pytest.raises(JobNotFound):
        lost.status()


def test_e1_statements_run_in_the_callers_thread(dsn: str, note: Note) -> None:
    threads = []
    engine = sqlalchemy.create_engine(dsn.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)
    sqlalchemy.event.listen(
        engine, "before_cursor_execute", lambda *_: threads.append(threading.current_thread())
    )
    with engine.begin() as connection:
        note.using(connection=connection).enqueue("here")
    assert set(threads) == {threading.current_thread()}


async def test_a_synchronous_connection_is_refused_by_aenqueue(dsn: str, note: Note) -> None:
    with psycopg.connect(dsn) as connection, pytest.raises(ConfigurationError, match="is synchronous"):
        await note.using(connection=connection).aenqueue("x")


def test_what_is_no_connection_is_refused(dsn: str, note: Note) -> None:
    engine = sqlalchemy.create_engine(dsn.replace("postgresql:", "postgresql+psycopg:"))
    for thing in (engine, object(), dsn):
        with pytest.raises(ConfigurationError, match="not a pool or engine"):
            note.using(connection=thing).enqueue("x")


def test_a_connection_to_another_database_is_refused(note: Note) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(ConfigurationError, match="a connection to sqlite"):
        note.using(connection=connection).enqueue("x")


@pytest.mark.parametrize(
    ("url", "why"),
    [("sqlite:///:memory:", "has no transaction to join"), ("sqlite:///{}/jobs.db", "of an apsw.Connection")],
)
def test_an_app_without_postgresql_joins_no_foreign_transaction(url: str, why: str, tmp_path: object) -> None:
    app = Windlass(url.format(tmp_path))
    with pytest.raises(ConfigurationError, match=why):
        app.named("notes.add").using(connection=object()).enqueue("x")


@every_sync_caller
def test_e5_a_job_by_name_goes_where_live_workers_say(
    app: Windlass, dsn: str, note: Note, caller: SyncCaller
) -> None:
    """[E5] Asked on the caller's own connection: the app's store is not opened for it."""
    producer = Windlass(dsn, schema=app.settings.schema)
    with app.worker([note.queue]), caller(dsn, True) as connection:
        job = producer.named(note.name).using(connection=connection).enqueue(HARD)
        assert producer._producer.store_handle._store is None
    assert app.job(job.id).record().queue == note.queue
