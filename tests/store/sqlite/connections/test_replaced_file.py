"""[fault 22] A file that is renamed, removed or replaced under an open store: the next write is refused, and
nothing that was acknowledged is ever in a file that nobody finds again."""

import os
from pathlib import Path

import pytest

from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import job, opened
from windlass.core.states import State
from windlass.errors import StoreUnavailable
from windlass.store.records import Outcome, WorkerInfo


async def test_a_file_that_was_renamed_takes_nothing(tmp_path: Path) -> None:
    """Jobs were acknowledged that went with it. When it is back, so is the store."""
    path, away = tmp_path / "w.db", tmp_path / "away.db"
    async with opened(path) as store:
        await store.enqueue([job()])
        path.rename(away)
        with pytest.raises(StoreUnavailable, match=r"is not there any more.*nothing was written.*restart"):
            await store.enqueue([job(), job()])
        with pytest.raises(StoreUnavailable, match="is not there any more"):
            await store.depth()
        assert not path.exists()
        away.rename(path)
        await store.enqueue([job()])
        assert (await store.depth())["default"].ready == 2
    check(path)


async def test_a_file_that_was_replaced_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    """A restored backup, say: this process says so until it is restarted, and does the new one no harm."""
    path, new = tmp_path / "w.db", tmp_path / "new.db"
    async with opened(path) as store:
        await store.enqueue([job()])
        async with opened(new) as other:
            await other.enqueue([job(), job()])
        for name in "w.db-wal", "w.db-shm":
            (tmp_path / name).unlink()  # as one who restores a backup must: they are the old one's
        os.replace(new, path)
        async with opened(path) as second:
            await second.enqueue([job()])
            with pytest.raises(StoreUnavailable, match="is another file than the one that was opened"):
                await store.enqueue([job(), job()])
            await store.close()
            assert (tmp_path / "w.db-wal").exists(), "it is the new one's"
            await second.enqueue([job()])
            assert (await second.depth())["default"].ready == 4
        await store.open()
        assert (await store.depth())["default"].ready == 4
    check(path)


async def test_a_handlers_own_transaction_is_refused_as_well(tmp_path: Path) -> None:
    """[C5] It opens a connection of its own, which would have made a new file."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job()])
        (claim,) = await store.claim(1, ["default"], 1)
        path.rename(tmp_path / "away.db")
        with pytest.raises(StoreUnavailable, match="is not there any more"):
            async with store.transaction(1, 1, lambda: Outcome(job=claim.jobs[0])):
                pass
        assert not path.exists()
        (tmp_path / "away.db").rename(path)
        record = await store.job(claim.jobs[0].id)
        assert record is not None
        assert record.state is State.RUNNING
