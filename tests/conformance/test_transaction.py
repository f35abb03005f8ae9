"""A handler's own transaction, in which its job ends: data and outcome together or not at all [C5].

Each test keeps its data in a table of its own, reached through the connection that the store lends.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conformance.kit import Rig, failure, job
from windlass.core.states import Kind, State
from windlass.errors import ClaimLost, ConfigurationError, WorkerLost
from windlass.store.records import Checkpoint, ClaimedJob, Depth, Outcome


async def execute(connection: Any, sql: str) -> None:
    """Run a statement on whichever driver's connection this is."""
    if hasattr(connection, "fetchval"):
        await connection.execute(sql)
    else:
        connection.execute(sql)


async def total(connection: Any) -> int:
    """The number of rows in the test's table, as this connection sees it."""
    sql = "SELECT count(*) FROM ledger"
    if hasattr(connection, "fetchval"):
        return int(await connection.fetchval(sql))
    return int(connection.execute(sql).get)


@asynccontextmanager
async def ending(rig: Rig, worker: int, claimed: ClaimedJob, **fields: Any) -> AsyncIterator[Any]:
    """The transaction in which this job ends, as the worker's next flush."""
    outcome = Outcome(job=claimed, **fields)
    async with rig.store.transaction(worker, rig.next_flush(worker), lambda: outcome) as connection:
        yield connection


class Undo(Exception):
    """Raised by a block that wants nothing of it kept."""


@pytest.fixture
async def ledger(rig: Rig) -> Rig:
    """A store that lends transactions, with a table beside its own."""
    if not rig.lends:
        pytest.skip("a store in memory lends no transactions")
    worker = await rig.worker()
    (id,) = await rig.add("setup", queue="setup")
    async with ending(rig, worker, await rig.run(worker, id, "setup")) as connection:
        await execute(connection, "CREATE TABLE ledger (n integer)")
    await rig.store.retire(worker)
    return rig


async def kept(rig: Rig) -> int:
    """How many rows are in the table once all is said and done."""
    worker = await rig.worker()
    (id,) = await rig.add("look", queue="look")
    async with ending(rig, worker, await rig.run(worker, id, "look")) as connection:
        return await total(connection)


async def test_a_store_in_memory_has_none(rig: Rig) -> None:
    """[C5] It says so when the block is entered, and the job goes on."""
    if rig.lends:
        pytest.skip("this store lends transactions")
    worker = await rig.worker()
    (id,) = await rig.add("t")
    claimed = await rig.run(worker, id)
    with pytest.raises(ConfigurationError, match="or PostgreSQL"):
        async with ending(rig, worker, claimed):
            pytest.fail("the block must not run")
    assert await rig.state(id) is State.RUNNING


async def test_data_and_outcome_are_committed_together(ledger: Rig) -> None:
    """[C5] While the block runs nobody sees either."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    async with ending(ledger, worker, await ledger.run(worker, id), result='"done"') as connection:
        await execute(connection, "INSERT INTO ledger VALUES (1)")
        assert await total(connection) == 1
        assert await ledger.state(id) is State.RUNNING
    record = await ledger.look(id)
    assert (record.state, record.result) == (State.SUCCEEDED, '"done"')
    assert await kept(ledger) == 1
    assert await ledger.depth() == Depth()
    assert await ledger.store.unfinished(worker) == []


async def test_a_block_that_raises_keeps_nothing(ledger: Rig) -> None:
    """[C5] The job still runs, and its attempt may end in another way."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    claimed = await ledger.run(worker, id)

    async def handler() -> None:
        async with ending(ledger, worker, claimed) as connection:
            await execute(connection, "INSERT INTO ledger VALUES (1)")
            raise Undo

    with pytest.raises(Undo):
        await handler()
    assert await ledger.state(id) is State.RUNNING
    assert (await ledger.finish(worker, claimed, Kind.RETRY, error=failure())).applied == 1
    assert await kept(ledger) == 0


async def test_errors_of_the_block_are_its_own(ledger: Rig) -> None:
    """[C5] A broken statement raises what the driver raises, not an error of the store."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    with pytest.raises(Exception, match="no_such_table") as caught:
        async with ending(ledger, worker, await ledger.run(worker, id)) as connection:
            await execute(connection, "INSERT INTO no_such_table VALUES (1)")
    assert not type(caught.value).__module__.startswith("windlass")
    assert await ledger.state(id) is State.RUNNING


async def test_the_outcome_is_asked_for_when_the_block_has_ended(ledger: Rig) -> None:
    """[C5] So that it may hold what the block found out; a block that raises is not asked."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    claimed = await ledger.run(worker, id)
    found: list[str] = []
    with pytest.raises(Undo):
        async with ledger.store.transaction(worker, ledger.next_flush(worker), lambda: pytest.fail("asked")):
            raise Undo
    flush = ledger.next_flush(worker)
    async with ledger.store.transaction(worker, flush, lambda: Outcome(job=claimed, result=found[0])):
        found.append("42")
    assert (await ledger.look(id)).result == "42"


async def test_a_lost_worker_commits_nothing(ledger: Rig) -> None:
    """[C5] It was rescued while its handler was at work; another has the job now."""
    lost, next_one = await ledger.worker(), await ledger.worker()
    (id,) = await ledger.add("t")
    claimed = await ledger.run(lost, id)
    await ledger.die(lost)
    with pytest.raises(WorkerLost):
        async with ending(ledger, lost, claimed) as connection:
            await execute(connection, "INSERT INTO ledger VALUES (1)")
    async with ending(ledger, next_one, await ledger.run(next_one, id)) as connection:
        await execute(connection, "INSERT INTO ledger VALUES (2)")
    assert await ledger.state(id) is State.SUCCEEDED
    assert await kept(ledger) == 1


async def test_nothing_is_committed_for_anothers_job(ledger: Rig) -> None:
    """[C5]"""
    owner, thief = await ledger.worker(), await ledger.worker()
    (id,) = await ledger.add("t")
    claimed = await ledger.run(owner, id)
    with pytest.raises(ClaimLost):
        async with ending(ledger, thief, claimed) as connection:
            await execute(connection, "INSERT INTO ledger VALUES (1)")
    assert await ledger.state(id) is State.RUNNING
    assert await kept(ledger) == 0


async def test_a_job_ends_once(ledger: Rig) -> None:
    """[C5] Neither a second transaction nor the same one again brings its data twice."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    claimed = await ledger.run(worker, id)
    flush = ledger.next_flush(worker)

    async def handler(flush: int) -> None:
        async with ledger.store.transaction(worker, flush, lambda: Outcome(job=claimed)) as connection:
            await execute(connection, "INSERT INTO ledger VALUES (1)")

    await handler(flush)
    for again in (flush, ledger.next_flush(worker)):
        with pytest.raises(ClaimLost):
            await handler(again)
    assert await kept(ledger) == 1


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.DEAD, Kind.CANCELLED])
async def test_it_may_end_in_any_way(ledger: Rig, kind: Kind) -> None:
    """[O1] With its data, as the attempt of a long job that saves its progress in its own tables."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t", unique_key="k")
    async with ending(ledger, worker, await ledger.run(worker, id), kind=kind, delay=60) as connection:
        await execute(connection, "INSERT INTO ledger VALUES (1)")
    states = {Kind.RETRY: State.RETRYING, Kind.SNOOZE: State.SCHEDULED}
    assert await ledger.state(id) is (states.get(kind) or State(kind.value))
    assert await kept(ledger) == 1


async def test_jobs_enqueued_in_it_share_its_fate(ledger: Rig) -> None:
    """[E1] [C5] The next step of a pipeline exists if and only if this one has ended."""
    worker = await ledger.worker()
    await ledger.store.set_queue("next", {})
    first, second = await ledger.add("t", "t")
    one, two = await ledger.claim(worker)

    async def handler() -> None:
        async with ending(ledger, worker, one) as connection:
            await ledger.store.enqueue([job("gone", queue="next")], connection=connection)
            raise Undo

    with pytest.raises(Undo):
        await handler()
    async with ending(ledger, worker, two) as connection:
        (receipt,) = await ledger.store.enqueue([job("kept", queue="next")], connection=connection)
    await ledger.store.promote()
    assert [claimed.task for claimed in await ledger.claim(worker, "next")] == ["kept"]
    assert await ledger.state(first) is State.RUNNING
    assert await ledger.state(second) is State.SUCCEEDED
    assert await ledger.state(receipt.id) is State.RUNNING


async def test_who_waits_for_the_job_hears_of_it(ledger: Rig) -> None:
    """[O8]"""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    async with ending(ledger, worker, await ledger.run(worker, id), result="1"):
        pass
    assert (await ledger.store.wait_finished(id, 10)).result == "1"


async def test_the_checkpoint_goes_with_the_job(ledger: Rig) -> None:
    """[C5] Also when its end is written here."""
    worker = await ledger.worker()
    (id,) = await ledger.add("t")
    claimed = await ledger.run(worker, id)
    await ledger.store.checkpoint(worker, claimed, Checkpoint("[1]"))
    async with ending(ledger, worker, claimed):
        pass
    assert await ledger.store.checkpoints([id]) == {}
