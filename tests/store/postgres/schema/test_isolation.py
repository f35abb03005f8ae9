"""A database whose default is not READ COMMITTED: every operation of the store still works [rule 2]."""

import pytest

from tests.store.postgres.kit import Base, Isolation
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind
from windlass.store.records import NewJob, Options, Outcome, WorkerInfo


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_the_whole_store_works_where_the_default_isolation_is_higher(
    alone: Base, isolation: Isolation
) -> None:
    """[rule 2] Enqueue, claim, finish, retry, promote, cancel, replace, rescue, rotate, expire."""
    name = await alone.look.value("SELECT current_database()")
    await alone.look.run(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    store = await alone.store()
    for worker in (1, 2):
        await store.register(WorkerInfo(id=worker))

    def job(**fields: object) -> NewJob:
        return NewJob(task="t", payload="{}", queue="mail", **fields)  # type: ignore[arg-type]

    plain, later, _ = await store.enqueue([job(), job(delay=0.001), job(options=Options(unique_key="k"))])
    (replaced,) = await store.enqueue([job(options=Options(unique_key="k"), on_conflict="replace")])
    assert replaced.status == "replaced"
    await alone.until("SELECT NOT EXISTS (SELECT FROM windlass.deferred WHERE run_at > clock_timestamp())")
    await store.promote()
    (claim,) = await store.claim(1, ["mail"], 10)
    assert sorted(held.id for held in claim.jobs) == sorted([plain.id, later.id, replaced.id])
    outcomes = [Outcome(job=held, kind=Kind.RETRY) for held in claim.jobs]
    assert (await store.finish(1, 1, outcomes)).applied == 3
    assert (await store.finish(1, 1, outcomes)).repeated == 3
    assert await store.cancel([plain.id]) == {plain.id: "cancelled"}
    (claim,) = await store.claim(2, ["mail"], 10)
    assert len(claim.jobs) == 2
    heartbeat = (await store.workers())[1].heartbeat
    rescued = await store.rescue(2, heartbeat, DeathPolicy())
    assert rescued is not None
    assert rescued.offered == 2
    for _ in range(9):
        assert (await store.rotate(force=True)).reclaimed
    (claim,) = await store.claim(1, ["mail"], 10)
    assert len(claim.jobs) == 1
    await store.expire()
    assert await store.retire(1) == 1
