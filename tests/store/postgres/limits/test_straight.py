"""A new job whose gate has room goes straight to its lane, with its pass, where the enqueue is a transaction
of the store's own [F3]."""

import asyncio
from typing import Any

import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base
from windlass.store.postgres import PostgresStore
from windlass.store.records import NewJob, Options, Outcome

pytestmark = BOTH

HELD = "SELECT count(*)::int FROM windlass.held WHERE gate = $1"
PASSES = "SELECT count(*)::int FROM windlass.pass WHERE gate = $1"
LOCK_GATE = "SELECT windlass.gate_lock($1, 1000)"


def keyed(base: Base, n: int, limit: int = 1, **options: Any) -> list[NewJob]:
    """Jobs of the test's own key."""
    options.setdefault("concurrency_key", base.queue)
    named = Options(**options, key_limit=limit)
    return [NewJob(task="t", payload="{}", queue=base.queue, options=named) for _ in range(n)]


async def statuses(store: PostgresStore, jobs: list[NewJob]) -> list[str]:
    """What became of them."""
    return [receipt.status for receipt in await store.enqueue(jobs)]


async def counts(base: Base) -> tuple[int, int]:
    """How many have passed the key's gate, and wait there."""
    gate = f"key:{base.queue}"
    return await base.look.value(PASSES, gate), await base.look.value(HELD, gate)


async def test_as_many_go_straight_as_there_is_room_for(base: Base) -> None:
    """[F3] And no more, however the calls are cut; who comes later waits behind those who wait."""
    await base.lane()
    store, worker = await base.store(), await base.worker()
    assert await statuses(store, keyed(base, 2, 3)) == ["enqueued"] * 2
    assert await statuses(store, keyed(base, 3, 3)) == ["enqueued", "held", "held"]
    assert await counts(base) == (3, 2)
    (claim,) = await store.claim(worker, [base.queue], 10)
    assert len(claim.jobs) == 3
    assert await statuses(store, keyed(base, 1, 3)) == ["held"]
    await store.finish(worker, 1, [Outcome(job=job) for job in claim.jobs])
    assert await counts(base) == (3, 0)
    (claim,) = await store.claim(worker, [base.queue], 10)
    await store.finish(worker, 2, [Outcome(job=job) for job in claim.jobs])
    assert await counts(base) == (0, 0)


async def test_a_gate_that_another_is_at_is_not_waited_for(base: Base) -> None:
    """[F3] The jobs wait in its list, and whoever is there next lets them in."""
    await base.lane()
    store, holder = await base.store(), await base.session()
    await holder.begin()
    await holder.run(LOCK_GATE, f"key:{base.queue}")
    assert await statuses(store, keyed(base, 1)) == ["held"]
    await holder.rollback()
    await store.promote()
    assert await counts(base) == (1, 0)


async def test_a_callers_transaction_takes_no_gate(base: Base) -> None:
    """[S2] It may last: others of the key go on meanwhile."""
    await base.lane()
    store, caller = await base.store(), await base.session()
    await caller.begin()
    (receipt,) = await store.enqueue(keyed(base, 1), connection=caller.connection)
    assert receipt.status == "held"
    assert await statuses(store, keyed(base, 1)) == ["enqueued"]
    await caller.commit()
    assert await counts(base) == (1, 1)


@pytest.mark.parametrize("more", [{"ordering_key": "o"}, {"fair_key": "f"}])
async def test_a_job_with_more_on_its_way_takes_the_long_one(base: Base, more: dict[str, Any]) -> None:
    """[F6] [C3] Its order, or its turn, is not known yet."""
    await base.lane()
    store = await base.store()
    assert await statuses(store, keyed(base, 1, **more)) == ["held"]


async def test_a_cancelled_job_leaves_its_place_to_the_next(base: Base) -> None:
    """[O5] [F3] It waited in its lane, and had passed the gate."""
    await base.lane()
    store, worker = await base.store(), await base.worker()
    first, second = await store.enqueue(keyed(base, 2))
    assert await base.look.value("SELECT windlass.cancel($1)", first.id) == "cancelled"
    await store.promote()
    (claim,) = await store.claim(worker, [base.queue], 10)
    assert [job.id for job in claim.jobs] == [second.id]


async def test_of_calls_at_once_no_two_take_the_same_room(base: Base) -> None:
    """[F3] Three stores enqueue jobs of one key at the same time."""
    await base.lane()
    stores = [await base.store() for _ in range(3)]
    for _ in range(20):
        await asyncio.gather(*(store.enqueue(keyed(base, 1, 2)) for store in stores))
        assert (await counts(base))[0] <= 2
    assert sum(await counts(base)) == 60
