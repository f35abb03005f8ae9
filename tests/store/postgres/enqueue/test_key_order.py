"""Calls that share keys take turns, whatever order their jobs come in [E6] [E7]."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import pytest

from tests.store.postgres.kit import Base, Session
from windlass.core.states import Kind
from windlass.store.postgres.enqueue import enqueue_call, receipts_of
from windlass.store.records import NewJob, Options, Receipt

LEFT = "SELECT count(*) FROM windlass.unique_key WHERE job = 0"


def unique(base: Base, key: str) -> NewJob:
    return NewJob(task="t", payload="{}", queue=base.queue, options=Options(unique_key=f"{base.queue} {key}"))


def once(base: Base, key: str) -> NewJob:
    return NewJob(task="t", payload="{}", queue=base.queue, idempotency_key=f"{base.queue} {key}")


async def enqueue(session: Session, jobs: Sequence[NewJob]) -> list[Receipt]:
    """As an adapter does it in a transaction of the caller's."""
    call = enqueue_call("windlass", jobs)
    return receipts_of(jobs, await session.row(call.sql, *call.args))


@pytest.mark.parametrize("kind", [unique, once])
async def test_who_waits_for_a_key_holds_none_that_comes_after_it(
    base: Base, kind: Callable[[Base, str], NewJob]
) -> None:
    """A call takes its keys in order before it adds anything, so no two can wait for each other."""
    await base.lane()
    holder, waiter = await base.sessions(2)
    hasty = await base.session(lock_timeout="1s")
    await holder.begin()
    await enqueue(holder, [kind(base, "a")])
    await waiter.begin()
    waiting = asyncio.create_task(enqueue(waiter, [kind(base, "b"), kind(base, "a"), kind(base, "c")]))
    await base.blocked(waiter)
    (other,) = await enqueue(hasty, [kind(base, "b")])
    assert other.status == "enqueued"
    await holder.commit()
    found = ["skipped", "skipped", "enqueued"] if kind is unique else ["repeated", "repeated", "enqueued"]
    assert [receipt.status for receipt in await waiting] == found
    await waiter.commit()


async def test_jobs_keep_their_order_whatever_their_keys(base: Base) -> None:
    """[C2] Keys are taken by name, places by the order of the jobs; twins within a call are twins."""
    lane, worker = await base.lane(), await base.worker()
    store = await base.store()
    jobs = [unique(base, "z"), once(base, "y"), unique(base, "a"), unique(base, "z"), once(base, "y")]
    receipts = await store.enqueue(jobs)
    assert [receipt.status for receipt in receipts] == ["enqueued"] * 3 + ["skipped", "repeated"]
    assert [receipts[3].id, receipts[4].id] == [receipts[0].id, receipts[1].id]
    assert await base.drain(lane, worker) == [receipt.id for receipt in receipts[:3]]


async def test_a_key_that_was_taken_and_not_needed_is_free(base: Base) -> None:
    await base.lane()
    store = await base.store()
    both = NewJob(
        task="t",
        payload="{}",
        queue=base.queue,
        idempotency_key=f"{base.queue} seen",
        options=Options(unique_key=f"{base.queue} free"),
    )
    (first,) = await store.enqueue([once(base, "seen")])
    again, _ = await store.enqueue([both, unique(base, "other")])
    assert (again.id, again.status) == (first.id, "repeated")
    assert await base.look.value(LEFT) == 0
    assert [receipt.status for receipt in await store.enqueue([unique(base, "free")])] == ["enqueued"]


async def test_a_deadlock_with_a_foreign_transaction_is_survived(base: Base) -> None:
    """One that takes its keys one by one cannot be kept from it. Ours has written nothing, and goes again."""
    await base.lane()
    # A waiter looks for a deadlock once, so long after it began to wait: the other must be there by then.
    store = await base.store(f"{base.dsn}?options=-c%20deadlock_timeout%3D700ms")
    foreign = await base.session(deadlock_timeout="1min")
    await foreign.begin()
    await enqueue(foreign, [unique(base, "b")])
    ours = asyncio.create_task(store.enqueue([unique(base, "a"), unique(base, "b"), unique(base, "c")]))
    while not await base.look.value("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    (one,) = await enqueue(foreign, [unique(base, "a")])
    assert one.status == "enqueued"
    await foreign.commit()
    assert [receipt.status for receipt in await ours] == ["skipped", "skipped", "enqueued"]


async def test_a_key_of_a_parked_job_is_free(base: Base) -> None:
    """[O7] Parked, so it was not needed."""
    lane, worker = await base.lane(), await base.worker()
    store = await base.store()
    automatic = msgspec.structs.replace(unique(base, "dies"), automatic=True)
    for _ in range(3):
        await store.enqueue([unique(base, "dies")])
        await base.finish(worker, (await base.claim(lane, worker)).jobs, Kind.DEAD)
    parked, other = await store.enqueue([automatic, unique(base, "other")])
    assert (parked.status, other.status) == ("parked", "enqueued")
    assert await base.look.value(LEFT) == 0
