"""A handler's own transaction in which it makes progress: data and checkpoint together or not at all [P6].
Tables of the test's own are reached as in test_transaction."""

from functools import partial

import pytest

from tests.conformance.kit import Rig
from tests.conformance.test_transaction import Undo, execute, kept, ledger
from windlass.core.states import Kind, State
from windlass.errors import ClaimLost, ConfigurationError, WorkerLost
from windlass.store.records import Checkpoint, Step

__all__ = ["ledger"]
SAVED = Checkpoint('{"n":1}', done=1, total=2)


async def test_a_store_in_memory_has_none(rig: Rig) -> None:
    """[P6] It says so, and the job goes on."""
    if rig.lends:
        pytest.skip("this store lends transactions")
    worker = await rig.worker()
    (id,) = await rig.add("t")
    claimed = await rig.run(worker, id)
    with pytest.raises(ConfigurationError, match="or PostgreSQL"):
        async with rig.store.saving(worker, claimed, lambda: SAVED):
            pytest.fail("the block must not run")
    with pytest.raises(ConfigurationError, match="connection="):
        await rig.store.checkpoint(worker, claimed, SAVED, connection=object())
    assert await rig.store.checkpoints([id]) == {}
    assert await rig.state(id) is State.RUNNING


async def test_data_and_progress_are_committed_together(ledger: Rig) -> None:
    """[P6] While the block runs nobody sees either; the job goes on, and may save again."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    claimed = await ledger.run(worker, id)
    for n in (1, 2):
        async with ledger.store.saving(worker, claimed, partial(Checkpoint, f'{{"n":{n}}}', n)) as connection:
            await execute(connection, "INSERT INTO ledger VALUES (1)")
            assert len(await ledger.store.checkpoints([id])) == n - 1
        assert (await ledger.store.checkpoints([id]))[id].done == n
    assert await ledger.state(id) is State.RUNNING
    assert (await ledger.finish(worker, claimed)).applied == 1
    assert await kept(ledger) == 2


async def test_a_block_that_raises_keeps_nothing(ledger: Rig) -> None:
    """[P6] And is not asked for its progress."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    claimed = await ledger.run(worker, id)

    def ask() -> Checkpoint:
        pytest.fail("it was asked")

    async def handler() -> None:
        async with ledger.store.saving(worker, claimed, ask) as connection:
            await execute(connection, "INSERT INTO ledger VALUES (1)")
            raise Undo

    with pytest.raises(Undo):
        await handler()
    assert await ledger.store.checkpoints([id]) == {}
    assert await ledger.state(id) is State.RUNNING
    assert await kept(ledger) == 0


@pytest.mark.parametrize(("end", "error"), [("finish", ClaimLost), ("die", WorkerLost)])
async def test_one_who_has_lost_the_job_keeps_nothing(ledger: Rig, end: str, error: type[Exception]) -> None:
    """[C5] Whether the attempt has ended or its worker."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    claimed = await ledger.run(worker, id)
    if end == "finish":
        await ledger.finish(worker, claimed, Kind.RELEASED)
    else:
        await ledger.die(worker)
    with pytest.raises(error):
        async with ledger.store.saving(worker, claimed, lambda: SAVED) as connection:
            await execute(connection, "INSERT INTO ledger VALUES (1)")
    assert await ledger.store.checkpoints([id]) == {}
    assert await kept(ledger) == 0


async def test_progress_in_a_transaction_of_the_callers(ledger: Rig) -> None:
    """[P6] It exists if and only if that transaction commits."""
    worker = await ledger.worker()
    one, two = await ledger.add("one", "two")
    first, second = await ledger.claim(worker)
    async with ledger.store.saving(worker, first, lambda: Checkpoint("0")) as connection:
        await ledger.store.checkpoint(worker, second, SAVED, connection=connection)
        assert await ledger.store.checkpoints([one, two]) == {}
    found = await ledger.store.checkpoints([one, two])
    assert (found[one].data, found[two].data, found[two].done) == ("0", '{"n":1}', 1)

    async def undone() -> None:
        async with ledger.store.saving(worker, first, lambda: Checkpoint("9")) as connection:
            await ledger.store.checkpoint(worker, second, Checkpoint("9"), connection=connection)
            raise Undo

    with pytest.raises(Undo):
        await undone()
    assert await ledger.store.checkpoints([one, two]) == found


async def test_a_stranger_has_no_progress_to_make(ledger: Rig) -> None:
    """[C5] Nor in a transaction of its own."""
    worker, other = await ledger.worker(), await ledger.worker()
    await ledger.add("one", "two")
    (mine,), (its,) = await ledger.claim(worker, limit=1), await ledger.claim(other, limit=1)
    with pytest.raises(ClaimLost):
        async with ledger.store.saving(worker, mine, lambda: SAVED) as connection:
            await ledger.store.checkpoint(worker, its, SAVED, connection=connection)
    assert await ledger.store.checkpoints([mine.id, its.id]) == {}


async def test_progress_in_a_transaction_counts_for_the_parent(ledger: Rig) -> None:
    """[P10]"""
    worker = await ledger.worker()
    id = await ledger.parent(worker, 1)
    (part,) = await ledger.claim(worker)
    async with ledger.store.saving(worker, part, lambda: SAVED):
        pass
    parent = await ledger.parent_record(id)
    assert (parent.done, parent.records) == (1, 1)


async def test_w1_a_step_that_was_done_before_takes_its_data_back(ledger: Rig) -> None:
    """[C5] The step stands for the data of its own transaction, and for no other."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    claimed = await ledger.run(worker, id)
    step = Step(name="pay", result="5")
    async with ledger.store.saving_step(worker, claimed, lambda: step) as connection:
        await execute(connection, "INSERT INTO ledger VALUES (1)")

    async def again() -> None:
        async with ledger.store.saving_step(worker, claimed, lambda: step) as connection:
            await execute(connection, "INSERT INTO ledger VALUES (1)")

    with pytest.raises(ClaimLost, match="done this step before"):
        await again()
    assert await kept(ledger) == 1
    assert [each.result for each in await ledger.store.steps(id)] == ["5"]
