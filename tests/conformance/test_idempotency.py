"""Idempotency keys: sending again adds nothing, for as long as the key is remembered [E7]."""

import pytest

from tests.conformance.kit import Rig, job
from windlass.core.states import State
from windlass.errors import AlreadyEnqueued

DAY = 86400.0


async def test_sending_again_names_the_first_job(rig: Rig) -> None:
    """[E7] Exactly one job, whatever the second call says."""
    first = await rig.one("first", idempotency_key="x")
    again = await rig.one("again", idempotency_key="x", queue="other", delay=60)
    assert first.status == "enqueued"
    assert (again.id, again.status) == (first.id, "repeated")
    assert [record.task for record in await rig.listing()] == ["first"]


async def test_sending_a_whole_batch_again(rig: Rig) -> None:
    """[E7] A connection lost after COMMIT: the same call once more yields the same ids and no more jobs."""
    batch = [job(f"t{n}", idempotency_key=f"k{n}", queue=f"q{n % 2}") for n in range(20)]
    first = await rig.store.enqueue(batch)
    again = await rig.store.enqueue(batch)
    assert [receipt.id for receipt in again] == [receipt.id for receipt in first]
    assert {receipt.status for receipt in again} == {"repeated"}
    assert len(await rig.listing()) == 20


async def test_one_of_many_has_its_number_behind_the_key(rig: Rig) -> None:
    """[E2] [E7] That counts beyond the 255 characters of a key, as `enqueue_many` sends it."""
    batch = [job(f"t{n}", idempotency_key=f"{'k' * 255}/{n}") for n in (0, 17)]
    first = await rig.store.enqueue(batch)
    assert [receipt.status for receipt in first] == ["enqueued", "enqueued"]
    assert [receipt.id for receipt in await rig.store.enqueue(batch)] == [receipt.id for receipt in first]


async def test_keys_count_within_one_call(rig: Rig) -> None:
    """[E7]"""
    first, again, other = await rig.store.enqueue(
        [job("a", idempotency_key="x"), job("b", idempotency_key="x"), job("c", idempotency_key="y")]
    )
    assert (again.id, again.status) == (first.id, "repeated")
    assert other.status == "enqueued"
    assert [job.task for job in await rig.claim(await rig.worker())] == ["a", "c"]


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.DEAD, State.CANCELLED, State.RUNNING])
async def test_the_key_outlives_its_job(rig: Rig, state: State) -> None:
    """[E7] [E2] Finished, turned out of the logs or deleted: it was here, and that is remembered."""
    first = await rig.bring(state, await rig.worker(), idempotency_key="x")
    assert (await rig.one(idempotency_key="x")).id == first
    await rig.turn()
    await rig.store.delete([first])
    again = await rig.one(idempotency_key="x")
    assert (again.id, again.status) == (first, "repeated")


async def test_the_key_is_forgotten_after_its_retention(rig: Rig) -> None:
    """[E2] Kept 24 h from the first enqueue, whether or not anybody has swept."""
    first = await rig.one(idempotency_key="x")
    await rig.clock.advance(DAY - 60)
    assert (await rig.one(idempotency_key="x")).status == "repeated"
    await rig.clock.advance(120)
    again = await rig.one(idempotency_key="x")
    assert again.status == "enqueued"
    assert again.id != first.id
    assert (await rig.one(idempotency_key="x")).id == again.id


async def test_expire_sweeps_forgotten_keys(rig: Rig) -> None:
    """[K6] Only those past their retention, and no more than the limit in one step."""
    await rig.store.enqueue([job(idempotency_key=f"k{n}") for n in range(5)])
    await rig.clock.advance(DAY - 60)
    assert (await rig.store.expire()).keys == 0
    await rig.one(idempotency_key="young")
    await rig.clock.advance(120)
    assert (await rig.store.expire(limit=3)).keys == 3
    assert (await rig.store.expire()).keys == 2
    assert (await rig.one(idempotency_key="young")).status == "repeated"


async def test_it_is_asked_before_the_unique_key(rig: Rig) -> None:
    """[E7] [E6] A repeat is a repeat and no second enqueue: nothing is rejected, nothing remembered."""
    worker = await rig.worker()
    batch = [job(unique_key="k", idempotency_key="x", on_conflict="reject")]
    (first,) = await rig.store.enqueue(batch)
    assert [receipt.status for receipt in await rig.store.enqueue(batch)] == ["repeated"]
    claimed = await rig.run(worker, first.id)
    assert [receipt.status for receipt in await rig.store.enqueue(batch)] == ["repeated"]
    await rig.finish(worker, claimed)
    assert await rig.claim(worker) == []


async def test_a_skipped_enqueue_sent_again_is_a_repeat(rig: Rig) -> None:
    """[E7] Its answer was lost, the twin has ended since: it still stood for this one."""
    worker = await rig.worker()
    twin = await rig.one(unique_key="k")
    assert (await rig.one(unique_key="k", idempotency_key="x")).status == "skipped"
    await rig.finish(worker, await rig.run(worker, twin.id))
    again = await rig.one(unique_key="k", idempotency_key="x")
    assert (again.id, again.status) == (twin.id, "repeated")


async def test_a_rerun_sent_again_is_a_repeat(rig: Rig) -> None:
    """[E7] [E6] Exactly one rerun, also where the second call comes after the rerun has begun."""
    worker = await rig.worker()
    twin = await rig.one(unique_key="k")
    claimed = await rig.run(worker, twin.id)
    assert (await rig.one(unique_key="k", idempotency_key="x")).status == "rerun"
    await rig.finish(worker, claimed)
    (rerun,) = await rig.claim(worker)
    again = await rig.one(unique_key="k", idempotency_key="x")
    assert (again.id, again.status) == (twin.id, "repeated")
    await rig.finish(worker, rerun)
    assert await rig.claim(worker) == []


async def test_a_rejected_enqueue_is_not_remembered(rig: Rig) -> None:
    """[E7] Nothing was written, so sending it again is the first time."""
    twin = await rig.one(unique_key="k")
    with pytest.raises(AlreadyEnqueued):
        await rig.one(unique_key="k", idempotency_key="x", on_conflict="reject")
    await rig.store.delete([twin.id])
    assert (await rig.one(unique_key="k", idempotency_key="x")).status == "enqueued"
