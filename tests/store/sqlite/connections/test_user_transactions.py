"""A handler's own transaction on SQLite: it waits without stopping the event loop, and holds the write lock
for no longer than its block [C5]."""

import asyncio
import os
import threading
from pathlib import Path

import apsw
import pytest

from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import foreign, in_child, job, opened
from windlass.core.states import State
from windlass.errors import ConfigurationError, StoreError, StoreUnavailable
from windlass.store.records import ClaimedJob, Heartbeat, Outcome, WorkerInfo
from windlass.store.sqlite import SQLiteStore


async def running(store: SQLiteStore, jobs: int = 1) -> list[ClaimedJob]:
    """Worker 1 with so many running jobs, and a table for what its handlers write."""
    await store.register(WorkerInfo(id=1))
    await store.enqueue([job(str(n)) for n in range(jobs)])
    await store.database.write(lambda tx: tx.run("CREATE TABLE ledger (n INTEGER)"))
    return [claimed for claim in await store.claim(1, ["default"], jobs) for claimed in claim.jobs]


async def end(store: SQLiteStore, flush: int, claimed: ClaimedJob) -> None:
    """The handler of this job writes one row, and ends."""
    async with store.transaction(1, flush, lambda: Outcome(job=claimed)) as connection:
        connection.execute("INSERT INTO ledger VALUES (?)", (flush,))
        await asyncio.sleep(0)


def rows(path: Path) -> int:
    connection = foreign(path)
    found = connection.execute("SELECT count(*) FROM ledger").get
    connection.close()
    return int(found)


async def test_waiting_for_the_lock_does_not_stop_the_loop(tmp_path: Path) -> None:
    """Another holds it, and lets go only because this loop still turns."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        (claimed,) = await running(store)
        other = foreign(path)
        other.execute("BEGIN IMMEDIATE")
        handler = asyncio.create_task(end(store, 1, claimed))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not handler.done()
        other.execute("COMMIT")
        await handler
        other.close()
    assert rows(path) == 1
    check(path)


async def test_a_lock_that_never_comes_is_told(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path, busy_timeout=0.05) as store:
        (claimed,) = await running(store)
        other = foreign(path)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="write lock"):
            await end(store, 1, claimed)
        other.execute("ROLLBACK")
        await end(store, 2, claimed)
        other.close()
    assert rows(path) == 1


async def test_many_handlers_beside_the_stores_own_writes(tmp_path: Path) -> None:
    """They take turns with each other and with the writer's thread; every row and every outcome is there."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        jobs = await running(store, 40)
        ends = [end(store, flush, claimed) for flush, claimed in enumerate(jobs, 1)]
        enqueues = [store.enqueue([job("more")]) for _ in range(100)]
        await asyncio.gather(*ends, *enqueues)
        depth = (await store.depth())["default"]
        assert (depth.running, depth.ready) == (0, 100)
    assert rows(path) == 40
    check(path)


async def test_the_stores_own_writes_wait_for_the_block(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        (claimed,) = await running(store)
        async with store.transaction(1, 1, lambda: Outcome(job=claimed)) as connection:
            connection.execute("INSERT INTO ledger VALUES (1)")
            waiting = asyncio.create_task(store.heartbeat(1))
            assert await store.job(claimed.id) is not None, "reading waits for nobody"
            assert not waiting.done()
        await waiting
    check(path)


async def test_the_next_handler_lets_them_go_first(tmp_path: Path) -> None:
    """Handlers that hand the lock to each other do not starve the heartbeat of their own process."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        first, second = await running(store, 2)
        beaten: list[bool] = []

        async def next_handler(heartbeat: "asyncio.Task[Heartbeat]") -> None:
            async with store.transaction(1, 2, lambda: Outcome(job=second)):
                beaten.append(heartbeat.done())

        async with store.transaction(1, 1, lambda: Outcome(job=first)):
            heartbeat = asyncio.create_task(store.heartbeat(1))
            await asyncio.sleep(0)
            handler = asyncio.create_task(next_handler(heartbeat))
            await asyncio.sleep(0)
        await handler
        assert beaten == [True]
    check(path)


async def test_a_block_that_ends_the_transaction_itself_is_told(tmp_path: Path) -> None:
    """The outcome could no longer share its fate: the job goes on, and the words say what to do."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        (claimed,) = await running(store)
        for verb in ("COMMIT", "ROLLBACK"):
            with pytest.raises(ConfigurationError, match="leave BEGIN, COMMIT and ROLLBACK"):
                async with store.transaction(1, 1, lambda: Outcome(job=claimed)) as connection:
                    connection.execute(verb)
        record = await store.job(claimed.id)
        assert record is not None
        assert record.state is State.RUNNING


async def test_an_open_cursor_is_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        first, second = await running(store, 2)
        async with store.transaction(1, 1, lambda: Outcome(job=first)) as connection:
            connection.execute("INSERT INTO ledger VALUES (1), (2)")
            connection.execute("SELECT n FROM ledger").fetchone()
        await end(store, 2, second)
    assert rows(path) == 3
    check(path)


async def test_a_cancelled_handler_keeps_nothing(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        (claimed,) = await running(store)
        inside = asyncio.Event()

        async def handler() -> None:
            async with store.transaction(1, 1, lambda: Outcome(job=claimed)) as connection:
                connection.execute("INSERT INTO ledger VALUES (1)")
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(handler())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.heartbeat(1)
    assert rows(path) == 0
    check(path)


async def test_it_is_used_from_the_thread_that_asks(tmp_path: Path) -> None:
    """Two loops in two threads, each with a transaction of its own."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        first, second = await running(store, 2)
        thread = threading.Thread(target=lambda: asyncio.run(end(store, 1, first)))
        thread.start()
        await end(store, 2, second)
        await asyncio.to_thread(thread.join)
    assert rows(path) == 2
    check(path)


async def test_a_store_that_is_not_open(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "w.db")
    with pytest.raises(StoreError, match="not open"):
        async with store.transaction(1, 1, lambda: pytest.fail("asked")):
            pytest.fail("the block must not run")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_a_fork_inside_the_block(tmp_path: Path) -> None:
    """[fault 22] The child is told that it cannot use the file; the parent's transaction is unharmed."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        (claimed,) = await running(store)

        async def use_in_child() -> None:
            with pytest.raises(ConfigurationError, match="forked inside a transaction"):
                await store.depth()

        async with store.transaction(1, 1, lambda: Outcome(job=claimed)) as connection:
            connection.execute("INSERT INTO ledger VALUES (1)")
            assert in_child(lambda: asyncio.new_event_loop().run_until_complete(use_in_child())) == 0
            with pytest.raises(apsw.BusyError):
                apsw.Connection(str(path)).execute("BEGIN IMMEDIATE")
        assert (await store.depth())["default"].running == 0
    assert rows(path) == 1
    check(path)
