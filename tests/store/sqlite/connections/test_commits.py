"""Group commit: calls that come together share transactions, and share nothing else."""

import asyncio
from pathlib import Path

import pytest

from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import foreign, job, opened
from windlass.errors import AlreadyEnqueued, StoreError
from windlass.store.records import WorkerInfo
from windlass.store.sqlite import SQLiteStore


async def count_commits(store: SQLiteStore) -> list[int]:
    """A list that grows with every commit of the store's writer."""
    commits: list[int] = []

    def note() -> bool:
        commits.append(1)
        return False

    await store.database.write(lambda tx: tx.connection.set_commit_hook(note))
    commits.clear()
    return commits


async def test_calls_that_queue_up_share_a_commit(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        commits = await count_commits(store)
        receipts = await asyncio.gather(*(store.enqueue([job()]) for _ in range(200)))
        assert len({answer[0].id for answer in receipts}) == 200
        assert len(commits) <= 50
    check(path)


async def test_one_call_that_fails_does_not_undo_another(tmp_path: Path) -> None:
    """Each call has its savepoint; the one that is refused takes back its own jobs only."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job(unique_key="k")])
        commits = await count_commits(store)
        refused = [job("mine"), job(unique_key="k", on_conflict="reject")]
        answers = await asyncio.gather(
            *(store.enqueue([job()]) for _ in range(20)),
            store.enqueue(refused),
            *(store.enqueue([job()]) for _ in range(20)),
            return_exceptions=True,
        )
        assert isinstance(answers[20], AlreadyEnqueued)
        assert sum(isinstance(answer, list) for answer in answers) == 40
        assert len(commits) <= 20
        assert (await store.depth())["default"].ready == 41
    check(path)


async def test_an_answer_comes_after_its_commit(tmp_path: Path) -> None:
    """What was answered is seen by any other connection at once."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.open()
        other = foreign(path)
        for count in range(1, 20):
            await store.enqueue([job()])
            assert other.execute("SELECT count(*) FROM windlass_job").get == count
        other.close()


async def test_a_cancelled_caller_harms_nobody(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        calls = [asyncio.create_task(store.enqueue([job()])) for _ in range(50)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        kept = [answer for answer in answers if isinstance(answer, list)]
        assert len(kept) == 25
        assert (await store.depth())["default"].ready >= 25
    check(path)


async def test_several_event_loops_use_one_store(tmp_path: Path) -> None:
    """The synchronous calls of an application run in a loop of their own."""
    path = tmp_path / "w.db"
    async with opened(path) as store:

        async def elsewhere() -> int:
            (receipt,) = await store.enqueue([job()])
            return receipt.id

        ids = await asyncio.gather(*(asyncio.to_thread(asyncio.run, elsewhere()) for _ in range(8)))
        assert len(set(ids)) == 8


async def test_a_closed_store_says_so_and_opens_again(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "w.db")
    with pytest.raises(StoreError, match="not open"):
        await store.enqueue([job()])
    await store.open()
    await store.open()
    await store.enqueue([job()])
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="not open"):
        await store.register(WorkerInfo(id=1))
    await store.open()
    assert (await store.depth())["default"].ready == 1
    await store.close()
