"""Enqueue, signal and checkpoint in the caller's own transaction: apsw connections to the file [E1] [P6]."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import drain, foreign, job, opened
from windlass.core.states import Kind
from windlass.errors import AlreadyEnqueued, ClaimLost, ConfigurationError, QueueFull
from windlass.store.records import Checkpoint, ClaimedJob, Outcome, Wait, WorkerInfo
from windlass.store.sqlite import SQLiteStore


async def running(store: SQLiteStore) -> ClaimedJob:
    """A job that worker 1 runs."""
    await store.register(WorkerInfo(id=1))
    await store.enqueue([job()])
    (claim,) = await store.claim(1, ["default"], 1)
    return claim.jobs[0]


async def test_jobs_share_the_fate_of_the_transaction(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        mine = foreign(path)
        mine.execute("CREATE TABLE orders (id INTEGER)")
        mine.execute("BEGIN IMMEDIATE; INSERT INTO orders VALUES (1)")
        (receipt,) = await store.enqueue([job("kept", unique_key="k")], connection=mine)
        assert await store.job(receipt.id) is None
        mine.execute("COMMIT")
        assert await store.job(receipt.id) is not None
        mine.execute("BEGIN IMMEDIATE; INSERT INTO orders VALUES (2)")
        await store.enqueue([job("gone"), job("gone too", unique_key="other")], connection=mine)
        mine.execute("ROLLBACK")
        assert [claimed.task for claimed in await drain(store, 1)] == ["kept"]
        await store.enqueue([job(unique_key="other", on_conflict="reject")])
        mine.close()
    check(path)


async def test_a_refusal_leaves_the_callers_transaction_alive(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job(unique_key="k")])
        mine = foreign(path)
        mine.execute("BEGIN IMMEDIATE")
        with pytest.raises(AlreadyEnqueued):
            await store.enqueue([job("a"), job("b", unique_key="k", on_conflict="reject")], connection=mine)
        await store.enqueue([job("c")], connection=mine)
        mine.execute("COMMIT")
        mine.close()
        assert (await store.depth())["default"].ready == 2
    check(path)


async def test_a_full_queue_leaves_the_callers_transaction_alive(tmp_path: Path) -> None:
    """[F4] Nothing is added, and that it was refused is counted with what the caller commits."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.set_queue("default", {"max_depth": 1})
        await store.enqueue([job()])
        mine = foreign(path)
        mine.execute("BEGIN IMMEDIATE")
        with pytest.raises(QueueFull):
            await store.enqueue([job(), job()], connection=mine)
        await store.enqueue([job(queue="other")], connection=mine)
        mine.execute("COMMIT")
        mine.close()
        assert {name: depth.ready for name, depth in (await store.depth()).items()} == {
            "default": 1,
            "other": 1,
        }
        assert [queue.refused for queue in await store.queues() if queue.name == "default"] == [2]
    check(path)


async def test_other_connections_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        with (
            closing(sqlite3.connect(tmp_path / "other.db")) as stranger,
            pytest.raises(ConfigurationError, match=r"sqlite3\.Connection"),
        ):
            await store.enqueue([job()], connection=stranger)
        elsewhere = foreign(tmp_path / "other.db")
        with pytest.raises(ConfigurationError, match=r"other\.db"):
            await store.enqueue([job()], connection=elsewhere)
        mine = foreign(path)
        with pytest.raises(ConfigurationError, match="BEGIN"):
            await store.enqueue([job()], connection=mine)
        mine.close()
        elsewhere.close()
        assert await store.depth() == {}


async def test_a_checkpoint_shares_the_fate_of_the_transaction(tmp_path: Path) -> None:
    """[P6] Rolled back it was never saved; committed it is there with the data."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        mine = await running(store)
        own = foreign(path)
        own.execute("CREATE TABLE rows (n INTEGER)")
        for n, (verb, saved) in enumerate((("ROLLBACK", None), ("COMMIT", 1), ("ROLLBACK", 1)), 0):
            own.execute("BEGIN IMMEDIATE")
            own.execute("INSERT INTO rows VALUES (?)", (n,))
            await store.checkpoint(1, mine, Checkpoint("{}", done=n), connection=own)
            own.execute(verb)
            found = (await store.checkpoints([mine.id])).get(mine.id)
            assert (found.done if found else None) == saved
        assert own.execute("SELECT n FROM rows").fetchall() == [(1,)]
        await store.finish(1, 1, [Outcome(job=mine)])
        own.execute("BEGIN IMMEDIATE")
        with pytest.raises(ClaimLost):
            await store.checkpoint(1, mine, Checkpoint("{}"), connection=own)
        own.execute("INSERT INTO rows VALUES (9); COMMIT")
        own.close()
    check(path)


async def test_a_handlers_own_transaction_saves_its_progress(tmp_path: Path) -> None:
    """[P6] [C5] Data and checkpoint together, again and again; nothing of a block that raises, or that comes
    too late."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        mine = await running(store)
        look = foreign(path)
        look.execute("CREATE TABLE rows (n INTEGER)")

        async def save(n: int) -> None:
            async with store.saving(1, mine, lambda: Checkpoint("{}", done=n)) as own:
                own.execute("INSERT INTO rows VALUES (?)", (n,))
                assert n != 3, "three is one too many"

        for n in (1, 2):
            await save(n)
        with pytest.raises(AssertionError, match="three"):
            await save(3)
        assert (await store.checkpoints([mine.id]))[mine.id].done == 2
        await store.finish(1, 1, [Outcome(job=mine)])
        with pytest.raises(ClaimLost):
            await save(4)
        assert look.execute("SELECT n FROM rows").fetchall() == [(1,), (2,)]
        look.close()
    check(path)


async def test_w2_a_signal_shares_the_fate_of_the_transaction(tmp_path: Path) -> None:
    """Rolled back, it was never sent; committed, the job goes on with it."""
    path = tmp_path / "w.db"
    wait = Wait(name="wait:go", signal="go", timeout=3600)
    async with opened(path) as store:
        held = await running(store)
        await store.wait_for_signal(1, held, wait)
        await store.finish(1, 1, [Outcome(job=held, kind=Kind.SNOOZE, delay=3600)])
        mine = foreign(path)
        mine.execute("BEGIN IMMEDIATE")
        assert await store.signal(held.id, "go", "1", connection=mine) == "delivered"
        mine.execute("ROLLBACK")
        assert await store.claim(1, ["default"], 1) == []
        assert [each.job for each in await store.waits()] == [held.id]
        mine.execute("BEGIN IMMEDIATE")
        assert await store.signal(held.id, "go", "2", connection=mine) == "delivered"
        mine.execute("COMMIT")
        mine.close()
        (claim,) = await store.claim(1, ["default"], 1)
        answer = await store.wait_for_signal(1, claim.jobs[0], wait)
        assert answer.step is not None
        assert answer.step.result == "2"
    check(path)
