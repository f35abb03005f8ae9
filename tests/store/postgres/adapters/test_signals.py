"""Signals on connections of the caller's own, in each kind of driver. Rolled back = never sent [W2] [E1]."""

import pytest

from tests.store.postgres.adapters.callers import ASYNC, SYNC, AsyncCaller, SyncCaller
from tests.store.postgres.adapters.conftest import HARD
from windlass import Context, Windlass
from windlass.errors import ConfigurationError, JobNotFound, SignalRefused
from windlass.tasks.decorators import SyncContextTask

Ask = SyncContextTask[[], str]


@pytest.fixture
def ask(app: Windlass, queue: str) -> Ask:
    @app.task(name="notes.ask", queue=queue)
    def ask(ctx: Context) -> str:
        return str(ctx.blocking.wait("answer", type=str))

    return ask


@pytest.mark.parametrize("caller", SYNC.values(), ids=SYNC.keys())
def test_w2_a_signal_is_part_of_a_transaction(app: Windlass, dsn: str, ask: Ask, caller: SyncCaller) -> None:
    job = ask.enqueue()
    app.run_until_idle(queues=[ask.queue])
    with caller(dsn, False) as connection:
        assert app.signal(job, "answer", "never", connection=connection) == "delivered"
    app.run_until_idle(queues=[ask.queue])
    assert job.status() == "scheduled"
    with caller(dsn, True) as connection:
        assert app.signal(job.id, "answer", HARD, connection=connection) == "delivered"
        assert app.signal(job.id, "more", connection=connection) == "kept"
        assert job.status() == "scheduled"
    app.run_until_idle(queues=[ask.queue])
    assert job.result() == HARD
    with caller(dsn, False) as connection, pytest.raises(SignalRefused, match="succeeded"):
        app.signal(job, "answer", connection=connection)


@pytest.mark.parametrize("caller", ASYNC.values(), ids=ASYNC.keys())
async def test_w2_a_signal_is_part_of_an_asynchronous_transaction(
    app: Windlass, dsn: str, ask: Ask, caller: AsyncCaller
) -> None:
    job = await ask.aenqueue()
    await app.arun_until_idle(queues=[ask.queue])
    async with caller(dsn, False) as connection:
        assert await app.asignal(job, "answer", "never", connection=connection) == "delivered"
    await app.arun_until_idle(queues=[ask.queue])
    assert await job.astatus() == "scheduled"
    async with caller(dsn, True) as connection:
        assert await app.asignal(job.id, "answer", HARD, connection=connection) == "delivered"
        assert await app.asignal(job.id, "more", connection=connection) == "kept"
        assert await job.astatus() == "scheduled"
    await app.arun_until_idle(queues=[ask.queue])
    assert await job.aresult() == HARD
    async with caller(dsn, False) as connection:
        with pytest.raises(JobNotFound):
            await app.asignal(1 << 43, "answer", connection=connection)


async def test_w2_a_connection_of_the_other_kind_is_refused(app: Windlass, dsn: str) -> None:
    """With a word of what to call instead."""
    async with ASYNC["psycopg-async"](dsn, False) as connection:
        with pytest.raises(ConfigurationError, match=r"await .* asignal"):
            app.signal(1, "answer", connection=connection)
    with (
        SYNC["psycopg"](dsn, False) as connection,
        pytest.raises(ConfigurationError, match=r"call .* signal"),
    ):
        await app.asignal(1, "answer", connection=connection)
