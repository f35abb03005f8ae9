"""[K12] Where no wake-up can arrive, an idle worker looks for work at least every `idle_poll`."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.chaos.outages.pooler import pooler
from tests.postgres import Server
from tests.stopwatch import Stopwatch
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.connections.listener import POLL_LISTENING, Listener
from windlass.store.records import NewJob, WorkerInfo
from windlass.store.settings import StoreSettings

WORKER = 7
QUEUE = "mail"


def ignore(*_: object) -> None:
    """What a proxy that drops notifications makes of them."""


async def pick_ups(store: PostgresStore, producer: PostgresStore, n: int) -> list[float]:
    """How long each of so many jobs waits for a worker that has nothing to do, in seconds."""
    await producer.enqueue([NewJob(task="a", payload="{}", queue=QUEUE)])  # so that the lane is there
    await store.register(WorkerInfo(id=WORKER, queues=(QUEUE,)))
    waits, watch = list[float](), Stopwatch()
    while len(waits) <= n:
        if claims := await store.claim(WORKER, [QUEUE], 10):
            now = await store.now()
            waits += [now - job.ready_at - watch.lost() for claim in claims for job in claim.jobs]
            continue
        waiting = asyncio.create_task(store.wait([QUEUE], 60))
        # At another moment of the pause each time, so that the longest wait is among them.
        await asyncio.sleep(0.02 * (len(waits) % 5))
        watch = Stopwatch()
        await producer.enqueue([NewJob(task="a", payload="{}", queue=QUEUE)])
        await waiting
    return waits[1:]


@pytest.mark.slow
@pytest.mark.parametrize("idle_poll", [0.2, 0.5])
async def test_behind_a_transaction_pooler_the_setting_is_a_bound(
    idle_poll: float, pg_server: Server, pg_dsn: str, tmp_path: Path
) -> None:
    with pooler(pg_server, pg_dsn, tmp_path, 8) as url:
        settings = StoreSettings(idle_poll=idle_poll)
        store, producer = PostgresStore(url, settings=settings), PostgresStore(url)
        await store.open()
        await producer.open()
        try:
            waits = await pick_ups(store, producer, 8)
            watch = Stopwatch()
            polling = await store.polling([QUEUE])
        finally:
            await store.close()
            await producer.close()
    assert max(waits) < idle_poll + 0.25, waits  # beside the pause, a claim on a busy machine
    assert (polling.every, polling.wakes) == (idle_poll, False)
    assert 0 < polling.took < 1 + watch.lost()


@pytest.mark.parametrize("queues", [["a"], ["a", "b"], ["a", "b", "c", "d"]], ids=len)
async def test_as_many_statements_are_sent_as_it_says(
    queues: list[str], pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lane, as many as are called without asking first, and more; counted where they are sent."""
    monkeypatch.setattr(Listener, "_on_notify", ignore)
    store = PostgresStore(pg_dsn, settings=StoreSettings(idle_poll=0.2))
    await store.open()
    connection = store._db.connection
    sent = 0

    def counted(*args: float) -> AbstractAsyncContextManager[object]:
        nonlocal sent
        sent += 1
        return connection(*args)

    try:
        await store.enqueue([NewJob(task="a", payload="{}", queue=queue) for queue in queues])
        await store.register(WorkerInfo(id=WORKER, queues=tuple(queues)))
        while await store.claim(WORKER, queues, 10):
            pass
        polling = await store.polling(queues)
        monkeypatch.setattr(store._db, "connection", counted)
        for _ in range(8):
            await store.wait(queues, 60)
            await store.claim(WORKER, queues, 10)
    finally:
        await store.close()
    assert polling.statements * polling.every == pytest.approx(sent / 8, rel=0.3)


@pytest.mark.slow
async def test_a_self_test_that_fails_means_polling(pg_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a listener, and nothing reaches it."""
    monkeypatch.setattr(Listener, "_on_notify", ignore)
    store, producer = PostgresStore(pg_dsn), PostgresStore(pg_dsn)
    await store.open()
    await producer.open()
    try:
        assert not (await store.polling([QUEUE])).wakes
        waits = await pick_ups(store, producer, 6)
    finally:
        await store.close()
        await producer.close()
    assert max(waits) < StoreSettings().idle_poll + 0.25, waits


async def test_a_listener_that_does_not_connect_costs_no_second_pause(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for it and the pause after it came one after the other: 1.1 s in place of 0.5."""
    store = PostgresStore(pg_dsn)
    await store.open()
    monkeypatch.setattr(store._db, "connect", asyncio.Event().wait)
    try:
        watch = Stopwatch()
        await store.wait([QUEUE], 30)
        assert watch.seconds() < StoreSettings().idle_poll + 0.25
    finally:
        await store.close()


async def test_where_wake_ups_arrive_polls_are_rare(pg_dsn: str) -> None:
    store = PostgresStore(pg_dsn)
    await store.open()
    try:
        polling = await store.polling([QUEUE])
    finally:
        await store.close()
    assert (polling.every, polling.wakes) == (POLL_LISTENING, True)
    assert polling.statements < 1
    assert "wake-ups arrive" in str(polling)
