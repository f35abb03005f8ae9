"""One store of a host listens, and tells the others what it heard [rule 10] [fault 18]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.chaos.kit import until
from tests.stock import BOTH
from tests.stopwatch import Stopwatch, within
from tests.store.postgres.kit import Base
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.connections import listener
from windlass.store.records import NewJob, WakeUp

pytestmark = BOTH
LISTENERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%' AND datname = current_database()"
)
CUT = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
          WHERE query ILIKE 'LISTEN%' AND datname = current_database()"""


class Forwarded:
    """The wake-ups that one store forwarded, and the store that gets them."""

    def __init__(self, store: PostgresStore) -> None:
        self.words: list[WakeUp] = []
        self._store = store

    def __call__(self, wake_up: WakeUp) -> None:
        self.words.append(wake_up)
        self._store.on_wakeup(wake_up)


@asynccontextmanager
async def forwarding(
    base: Base, *queues: str
) -> AsyncIterator[tuple[PostgresStore, PostgresStore, Forwarded]]:
    """Two stores: one listens for the other."""
    await base.lane()
    parent, child = await base.store(), await base.store()
    forwarded = Forwarded(child)
    child.on_wakeup(WakeUp(receives=False))
    task = asyncio.create_task(parent.forward_wakeups(queues or [base.queue], forwarded))
    try:

        async def receives() -> bool:
            return child._listener.receives

        await until(receives, 10.0)
        yield parent, child, forwarded
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_who_is_told_hears_of_work_and_does_not_listen(alone: Base) -> None:
    async with forwarding(alone) as (_, child, forwarded):
        worker = await alone.worker()
        assert await child.claim(worker, [alone.queue], 10) == []
        waiting = asyncio.create_task(child.wait([alone.queue], 60))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await alone.look.enqueue()
        watch = Stopwatch()
        assert await waiting
        assert watch.seconds() < 2  # a poll comes after 4 s at the soonest
        (claim,) = await child.claim(worker, [alone.queue], 10)
        assert len(claim.jobs) == 1
        assert await alone.look.value(LISTENERS) == 1
        assert forwarded.words[-1] == WakeUp((alone.queue,))


async def test_a_word_between_the_look_and_the_wait_is_not_lost(alone: Base) -> None:
    async with forwarding(alone) as (_, child, forwarded):
        worker = await alone.worker()
        assert await child.claim(worker, [alone.queue], 10) == []
        before = len(forwarded.words)
        await alone.look.enqueue()

        async def came() -> bool:
            return len(forwarded.words) > before

        await until(came, 5.0)
        watch = Stopwatch()
        assert await child.wait([alone.queue], 60)
        assert watch.seconds() < 1


async def test_only_what_was_asked_for_is_told(alone: Base) -> None:
    """Other queues, and what the coordinator listens for, are nothing to a child."""
    async with forwarding(alone, "other") as (_, _, forwarded):
        before = len(forwarded.words)
        await alone.look.run(f"SELECT pg_notify('windlass', '{alone.queue}')")
        await alone.look.run("SELECT pg_notify('windlass', 'other')")

        async def came() -> bool:
            return len(forwarded.words) > before

        await until(came, 5.0)
        assert forwarded.words[before:] == [WakeUp(("other",))]


async def test_the_end_of_a_job_reaches_who_waits_for_it_where_others_listen(alone: Base) -> None:
    """[O8] A handler that waits for another job's result."""
    async with forwarding(alone) as (parent, child, _):
        (receipt,) = await parent.enqueue([NewJob(task="t", payload="{}", queue=alone.queue)])
        waiting = asyncio.create_task(child.wait_finished(receipt.id, 30))
        await asyncio.sleep(0.05)
        await parent.cancel([receipt.id])
        async with within(5):
            assert (await waiting).state.value == "cancelled"
        assert await alone.look.value(LISTENERS) == 1


async def test_who_is_told_polls_while_nobody_hears_and_looks_when_somebody_does_again(alone: Base) -> None:
    """[fault 18] A wake-up may have come while nobody listened."""
    async with forwarding(alone) as (_, child, forwarded):
        worker = await alone.worker()
        assert await child.claim(worker, [alone.queue], 10) == []
        waiting = asyncio.create_task(child.wait([alone.queue], 60))
        await asyncio.sleep(0.05)
        before = len(forwarded.words)
        await alone.look.run(CUT)
        watch = Stopwatch()
        assert await waiting
        assert watch.seconds() < 2, "it looks at once"

        async def again() -> bool:
            return any(word.missed and word.receives for word in forwarded.words[before:])

        await until(again, 10.0)
        assert WakeUp(receives=False) in forwarded.words[before:]
        assert child._listener.receives


async def test_who_is_told_nothing_any_more_listens_itself(alone: Base) -> None:
    async with forwarding(alone) as (_, child, _):
        child.on_wakeup(None)
        assert await child._listener.check(5.0)
        assert await alone.look.value(LISTENERS) == 2


async def test_a_listener_that_nobody_waits_for_is_closed(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that waited for one result, or a command that looked once."""
    monkeypatch.setattr(listener, "UNHEEDED", 0.3)
    store = await alone.store()
    assert await store.wait([alone.queue], 5)  # it has just begun to listen, so it looks
    assert await alone.look.value(LISTENERS) == 1

    async def none() -> bool:
        return bool(await alone.look.value(LISTENERS) == 0)

    await until(none, 5.0)
    watch = Stopwatch()
    waiting = asyncio.create_task(store.wait([alone.queue], 30))
    async with within(5):
        assert await waiting, "it has just begun to listen, so it looks"
    assert watch.seconds() < 4
    assert await alone.look.value(LISTENERS) == 1
