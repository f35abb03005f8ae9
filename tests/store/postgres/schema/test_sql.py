"""SQL as an interface while the ring turns: committed = run, rolled back = never existed [fault 25]."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from tests.postgres import Server
from tests.stopwatch import within
from tests.store.postgres.kit import Base, Isolation, Session
from windlass.store.postgres import PostgresStore

TRIGGER = """
CREATE TABLE public.orders (id int, total int);
CREATE FUNCTION public.ordered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM windlass.enqueue('orders.bill', json_build_object('order', NEW.id), queue => '{queue}');
    RETURN NEW;
END $$;
CREATE TRIGGER ordered AFTER INSERT ON public.orders FOR EACH ROW EXECUTE FUNCTION public.ordered();
"""
BLOCK = """
DO $$ BEGIN
    BEGIN
        PERFORM windlass.enqueue('inner', queue => '{queue}');
        PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
        PERFORM windlass.enqueue('handler', queue => '{queue}');
    END;
    PERFORM windlass.enqueue('outer', queue => '{queue}');
END $$
"""


@pytest.fixture
async def turning(alone: Base) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Rotations without a pause, beside the test; calling it waits for one more whole turn of the ring."""
    store: PostgresStore = await alone.store()
    await alone.lane()
    turns = 0
    stop = asyncio.Event()

    async def turn() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += (await store.rotate(force=True)).reclaimed

    async def once_around() -> None:
        target = turns + 9
        async with within(30):
            while turns < target:  # noqa: ASYNC110 - counted by the task beside
                await asyncio.sleep(0.01)

    task = asyncio.create_task(turn())
    yield once_around
    stop.set()
    await task


async def tasks(base: Base) -> list[str]:
    """Run everything that is there; the tasks by name."""
    lane, worker = await base.lane(), await base.worker()
    names: list[str] = []
    async with within(20):
        while (got := await base.claim(lane, worker)).status != "empty":
            names += [job.task for job in got.jobs]
            await base.finish(worker, got.jobs)
            await asyncio.sleep(0 if got.jobs else 0.02)
    return sorted(names)


Turning = Callable[[], Awaitable[None]]


async def test_from_psql(alone: Base, pg_server: Server) -> None:
    """[E1] [rule 11] Any client that speaks SQL is a producer; the answer is the job's id."""
    lane, worker = await alone.lane(), await alone.worker()
    sql = f"SELECT windlass.enqueue('mail.send', '{{\"to\": \"a@b.c\"}}', queue => '{alone.queue}')"
    command = [str(pg_server.psql), "--no-psqlrc", "-At", "-d", alone.dsn, "-c", sql]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    (job,) = (await alone.claim(lane, worker)).jobs
    assert (job.id, job.task, json.loads(job.payload)) == (int(out), "mail.send", {"to": "a@b.c"})


async def test_from_a_trigger(alone: Base, turning: Turning) -> None:
    """[fault 25] One job per row of the orders that were committed."""
    (shop,) = await alone.sessions(1)
    await shop.run(TRIGGER.format(queue=alone.queue))
    await shop.run("INSERT INTO public.orders VALUES (1), (2)")
    await shop.begin()
    await shop.run("INSERT INTO public.orders VALUES (3)")
    await turning()
    await shop.rollback()
    await shop.begin()
    await shop.run("INSERT INTO public.orders VALUES (4)")
    await turning()
    await shop.commit()
    assert await tasks(alone) == ["orders.bill"] * 3


async def test_in_an_exception_block(alone: Base, turning: Turning) -> None:
    """[fault 25] What the block undoes is undone, what its handler adds is added."""
    (session,) = await alone.sessions(1)
    await session.begin()
    await session.run(BLOCK.format(queue=alone.queue))
    await turning()
    await session.commit()
    assert await tasks(alone) == ["handler", "outer"]


async def test_in_savepoints(alone: Base, turning: Turning) -> None:
    """[fault 25] Nested, released and rolled back."""
    (session,) = await alone.sessions(1)
    await session.begin()
    await session.run("SAVEPOINT a")
    await session.enqueue("a")
    await session.run("SAVEPOINT b")
    await session.enqueue("b")
    await turning()
    await session.run("ROLLBACK TO b")
    await session.enqueue("c")
    await session.run("RELEASE a")
    await session.run("SAVEPOINT d")
    await session.enqueue("d")
    await session.run("ROLLBACK TO d")
    await turning()
    await session.commit()
    assert await tasks(alone) == ["a", "c"]


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_at_a_higher_isolation(alone: Base, turning: Turning, isolation: Isolation) -> None:
    """[fault 25] Snapshots older than a whole turn of the ring; two at once are not in each other's way."""
    one, two = await alone.sessions(2)
    for session in (one, two):
        await session.begin(isolation)
        await session.value("SELECT count(*) FROM windlass.meta")
    await turning()
    await one.enqueue("one")
    await two.enqueue("two")
    await turning()
    await one.enqueue("one")
    await one.commit()
    await two.commit()
    assert await tasks(alone) == ["one", "one", "two"]


async def silent(session: Session, name: str) -> None:
    """Enqueue in a transaction that will be prepared: it may not notify, whether the lane is idle or not."""
    await session.begin()
    await session.run("SET LOCAL windlass.notify = off")
    await session.enqueue(name)
    await session.enqueue(name, fair_key="f")


async def test_prepared_for_long(alone: Base, turning: Turning) -> None:
    """[fault 25] Two transactions without a session while the ring turns twice; the lane is idle at first."""
    (session,) = await alone.sessions(1)
    for name in ("kept", "dropped"):
        await silent(session, name)
        await session.run(f"PREPARE TRANSACTION '{alone.queue}-{name}'")
    await turning()
    await session.enqueue("other")
    assert await tasks_until_pending(alone) == ["other"]
    await turning()
    await session.run(f"COMMIT PREPARED '{alone.queue}-kept'")
    await session.run(f"ROLLBACK PREPARED '{alone.queue}-dropped'")
    await alone.look.value("SELECT windlass.admit(10)")
    assert await tasks(alone) == ["kept", "kept"]


async def tasks_until_pending(base: Base) -> list[str]:
    """Run what is visible, while numbers of open transactions are not."""
    lane, worker = await base.lane(), await base.worker()
    got = await base.claim(lane, worker)
    await base.finish(worker, got.jobs)
    assert (await base.claim(lane, worker)).status == "pending"
    return [job.task for job in got.jobs]


async def test_a_transaction_that_notified_cannot_be_prepared(alone: Base) -> None:
    """[fault 25] PostgreSQL says so, and nothing is left behind."""
    lane, worker = await alone.lane(), await alone.worker()
    (session,) = await alone.sessions(1)
    await session.begin()
    await session.enqueue()
    with pytest.raises(asyncpg.FeatureNotSupportedError, match="NOTIFY"):
        await session.run(f"PREPARE TRANSACTION '{alone.queue}'")
    assert await alone.drain(lane, worker) == []
