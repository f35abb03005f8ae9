"""Enqueue: receipts, what a job carries, and where it goes [E1] [E2]. Keys have files of their own."""

import json

import pytest

from tests.conformance.kit import Rig, job
from windlass.core.states import Priority, State
from windlass.errors import AlreadyEnqueued, ConfigurationError
from windlass.store.protocol import Store
from windlass.store.records import NewJob, Options
from windlass.store.sqlite import SQLiteStore


async def test_receipts_come_in_the_order_of_the_jobs(rig: Rig) -> None:
    """[E1] One receipt per job, in order, whatever becomes of each."""
    receipts = await rig.store.enqueue(
        [
            job("plain"),
            job("later", delay=60),
            job("fair", fair_key="a"),
            job("unique", unique_key="k"),
            job("twin", unique_key="k"),
            job("urgent", priority=Priority.URGENT),
            job("elsewhere", queue="other"),
        ]
    )
    statuses = [receipt.status for receipt in receipts]
    assert statuses == ["enqueued", "scheduled", "held", "enqueued", "skipped", "enqueued", "enqueued"]
    assert receipts[4].id == receipts[3].id
    records = [await rig.look(receipt.id) for receipt in receipts]
    assert [record.task for record in records] == [
        "plain", "later", "fair", "unique", "unique", "urgent", "elsewhere",
    ]  # fmt: skip
    assert len({record.id for record in records}) == 6


async def test_nothing_to_enqueue_is_not_an_error(store: Store) -> None:
    """[E1]"""
    assert await store.enqueue([]) == []


async def test_a_job_keeps_all_it_carries(rig: Rig) -> None:
    """[E2] Payload and options come back as they went in, before and after the claim."""
    options = Options(
        max_attempts=7,
        timeout=12.5,
        unique_key="k:1",
        ordering_key="o",
        concurrency_key="c",
        tags=("red", "ünïcode"),
        headers={"x-tenant": "42"},
        trace="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )
    payload = json.dumps({"to": "a@b.c", "n": [1, 2.5, None, True], "s": 'quote " \\ 💡\n'})
    new = NewJob(task="mail.send", payload=payload, queue="mail", priority=Priority.HIGH, options=options)
    (receipt,) = await rig.store.enqueue([new])
    record = await rig.look(receipt.id)
    assert (record.task, record.queue, record.priority) == ("mail.send", "mail", Priority.HIGH)
    assert (record.state, record.attempt, record.deaths) == (State.READY, 1, 0)
    assert json.loads(record.payload) == json.loads(payload)
    assert record.options == options
    assert (record.worker, record.claim, record.claimed_at, record.finished_at) == (None, None, None, None)
    assert (record.errors, record.result, record.checkpoint, record.reason) == ((), None, None, None)
    claimed = await rig.run(await rig.worker(), receipt.id, "mail")
    assert (claimed.task, claimed.queue, claimed.priority) == ("mail.send", "mail", Priority.HIGH)
    assert (claimed.attempt, claimed.deaths, claimed.options) == (1, 0, options)
    assert json.loads(claimed.payload) == json.loads(payload)
    assert claimed.enqueued_at == pytest.approx(record.enqueued_at, abs=1e-3)


async def test_many_jobs_in_one_call_keep_their_order(rig: Rig) -> None:
    """[E1] [C2] Three thousand at once: three thousand ids, claimed in the same order."""
    ids = await rig.add(*(["t"] * 3000))
    assert len(set(ids)) == 3000
    worker = await rig.worker()
    seen: list[int] = []
    while len(seen) < 3000:
        claimed = await rig.claim(worker, limit=700)
        assert claimed
        seen += [job.id for job in claimed]
    assert seen == ids
    assert await rig.claim(worker) == []


async def test_a_delayed_job_waits_for_its_time(rig: Rig) -> None:
    """[E2] Neither claim nor promote finds it before it is due."""
    receipt = await rig.one(delay=600)
    assert receipt.status == "scheduled"
    record = await rig.look(receipt.id)
    assert record.state is State.SCHEDULED
    assert record.run_at == pytest.approx(record.enqueued_at + 600, abs=5)
    worker = await rig.worker()
    await rig.clock.advance(500)
    assert (await rig.store.promote()).due == 0
    assert await rig.claim(worker) == []
    await rig.clock.advance(200)
    assert (await rig.store.promote()).due == 1
    assert await rig.state(receipt.id) is State.READY
    assert (await rig.run(worker, receipt.id)).attempt == 1


async def test_run_at_names_the_moment_itself(rig: Rig) -> None:
    """[E2] A moment in the future schedules; one that has passed enqueues at once."""
    now = (await rig.look((await rig.one(queue="probe")).id)).enqueued_at
    later = await rig.one(run_at=now + 600)
    assert later.status == "scheduled"
    assert (await rig.look(later.id)).run_at == pytest.approx(now + 600, abs=0.01)
    past = await rig.one(run_at=now - 600)
    assert past.status == "enqueued"
    assert [job.id for job in await rig.claim(await rig.worker())] == [past.id]


@pytest.mark.parametrize("delay", [0, 0.0])
async def test_no_delay_is_at_once(rig: Rig, delay: float) -> None:
    """[E2]"""
    assert (await rig.one(delay=delay)).status == "enqueued"


async def test_a_fair_key_holds_a_job_aside(rig: Rig) -> None:
    """[C3] It is ready in the eyes of the user, and claimable once it is admitted, with a promote at the
    latest."""
    receipt = await rig.one(fair_key="tenant-1")
    assert receipt.status in ("held", "enqueued")
    assert await rig.state(receipt.id) is State.READY
    await rig.store.promote()
    assert (await rig.run(await rig.worker(), receipt.id)).options.fair_key == "tenant-1"


async def test_all_or_none(rig: Rig) -> None:
    """[E1] [E6] A call that is refused has written nothing: no job, no key, no queue with work."""
    twin = await rig.one(unique_key="taken")
    batch = [
        job("a"),
        job("b", queue="other"),
        job("c", unique_key="mine", idempotency_key="once"),
        job("d", delay=5),
        job("e", unique_key="taken", on_conflict="reject"),
    ]
    with pytest.raises(AlreadyEnqueued) as refused:
        await rig.store.enqueue(batch)
    assert refused.value.job == twin.id
    assert [record.id for record in await rig.listing()] == [twin.id]
    worker = await rig.worker()
    assert [job.id for job in await rig.claim(worker, "default", "other")] == [twin.id]
    assert (await rig.one(unique_key="mine", idempotency_key="once")).status == "enqueued"


async def test_the_first_enqueue_declares_its_queue(rig: Rig) -> None:
    """[E5] A queue needs no set-up."""
    await rig.one(queue="brand-new")
    assert "brand-new" in [queue.name for queue in await rig.store.queues()]
    assert len(await rig.claim(await rig.worker(), "brand-new")) == 1


async def test_memory_has_no_transaction_to_join() -> None:
    """[E1] Where there is no transaction, asking for one is a mistake worth hearing of."""
    store = SQLiteStore(":memory:")
    with pytest.raises(ConfigurationError, match="connection"):
        await store.enqueue([job()], connection=object())
    assert (await store.depth()) == {}
