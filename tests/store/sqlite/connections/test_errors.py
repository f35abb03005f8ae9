"""A full disk and a locked file [fault 22]: a clear error, nothing half done, nothing corrupted."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.stopwatch import Stopwatch, within
from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import drain, foreign, job, opened
from windlass.errors import ConfigurationError, StoreFull, StoreUnavailable
from windlass.store.records import Checkpoint, WorkerInfo
from windlass.store.sqlite import SQLiteStore

BIG = '"' + "x" * 10_000 + '"'


async def limit_pages(store: SQLiteStore, pages: int) -> None:
    """Let the store's file grow to so many pages and no further."""
    await store.database.write(lambda tx: tx.connection.pragma("max_page_count", pages))


async def fill(store: SQLiteStore) -> int:
    """Enqueue until the store is full; how many jobs were acknowledged."""
    for count in range(10_000):
        try:
            await store.enqueue([job(payload=BIG) for _ in range(3)])
        except StoreFull:
            return 3 * count
    raise AssertionError("the store is never full")


async def test_a_full_file_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    """`max_page_count` reached: what was acknowledged is there, what was refused is not, and room helps."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await limit_pages(store, 200)
        count = await fill(store)
        assert count > 0
        with pytest.raises(StoreFull, match="nothing was written"):
            await store.enqueue([job(payload=BIG) for _ in range(3)])
        assert (await store.depth())["default"].ready == count
        check(path)
        await limit_pages(store, 220)
        assert len(await drain(store, 1)) == count
        await limit_pages(store, 200)
        assert (await store.rotate(force=True)).removed == count
        assert await fill(store) > 0
    check(path)


async def test_one_call_that_does_not_fit_leaves_the_others_alone(tmp_path: Path) -> None:
    """Calls that share a transaction share no failure."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await limit_pages(store, 200)
        small = [store.enqueue([job()]) for _ in range(5)]
        huge = store.enqueue([job(payload=BIG) for _ in range(100)])
        more = [store.enqueue([job()]) for _ in range(5)]
        answers = await asyncio.gather(*small, huge, *more, return_exceptions=True)
        assert isinstance(answers[5], StoreFull)
        assert sum(isinstance(answer, list) for answer in answers) == 10
        assert (await store.depth())["default"].ready == 10
    check(path)


class SmallDisk(apsw.VFS):
    """A disk that is full once so many bytes were written, as SQLite sees it."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.real = apsw.vfs_names()[0]
        super().__init__("small-disk", self.real, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return SmallDiskFile(self, name, flags)


class SmallDiskFile(apsw.VFSFile):
    """A file on the small disk."""

    def __init__(self, disk: SmallDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(disk.real, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._disk.room is not None:
            self._disk.room -= len(data)
            if self._disk.room < 0:
                raise apsw.FullError("no space left on the small disk")
        super().xWrite(data, offset)


@pytest.fixture
def small_disk() -> Iterator[SmallDisk]:
    """Every file that SQLite opens lies on a disk whose room the test decides."""
    disk = SmallDisk()
    yield disk
    disk.unregister()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path: Path, small_disk: SmallDisk) -> None:
    """The write-ahead log cannot grow, in the middle of a commit."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job()])
        small_disk.room = 300_000
        count = 1 + await fill(store)
        small_disk.room = 0
        with pytest.raises(StoreFull):
            await store.enqueue([job()])
        assert (await store.depth())["default"].ready == count
        small_disk.room = None
        check(path)
        await store.enqueue([job()])
        assert len(await drain(store, 1)) == count + 1
    check(path)


async def test_a_locked_file_is_unavailable_and_readers_do_not_care(tmp_path: Path) -> None:
    """Another process holds the write lock: writes fail after the time-out, lookups go on, and so do writes
    once it has let go. Nobody waits for the time-outs of those before him."""
    path = tmp_path / "w.db"
    async with opened(path, busy_timeout=0.4) as store:
        (receipt,) = await store.enqueue([job()])
        other = foreign(path)
        other.execute("BEGIN IMMEDIATE")
        watch = Stopwatch()
        calls = [asyncio.create_task(store.enqueue([job()])) for _ in range(10)]
        await asyncio.sleep(0)
        assert await store.job(receipt.id) is not None
        assert watch.seconds() < 0.4
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
        assert watch.seconds() < 4 * 0.4
        other.execute("COMMIT")
        other.close()
        await store.enqueue([job()])
        assert (await store.depth())["default"].ready == 2
    check(path)


async def test_a_write_waits_for_a_short_lock(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path, busy_timeout=10) as store:
        other = foreign(path)
        other.execute("BEGIN IMMEDIATE")
        call = asyncio.create_task(store.enqueue([job()]))
        await asyncio.sleep(0.05)
        assert not call.done()
        other.execute("COMMIT")
        other.close()
        async with within(5):
            await call


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """A worker would otherwise try again for ever to open what cannot be there."""
    with pytest.raises(ConfigurationError, match=r"there is no folder .*nowhere; make it"):
        async with opened(tmp_path / "nowhere" / "w.db"):
            pass


@pytest.mark.parametrize("path", ["", "file:w.db?mode=ro"])
async def test_only_plain_files_will_do(path: str) -> None:
    with pytest.raises(ConfigurationError, match="needs a plain file path, or :memory:"):
        async with opened(path):
            pass


async def test_a_checkpoint_that_cannot_be_bound_ends_no_thread(tmp_path: Path) -> None:
    """The error is the caller's, and the writer serves the next one: heartbeats come the same way."""
    async with opened(tmp_path / "w.db") as store:
        await store.register(WorkerInfo(id=5, queues=("default",)))
        await store.enqueue([job()])
        [claim] = await store.claim(5, ["default"], 1)
        async with within(10):
            for _ in range(2):
                with pytest.raises(OverflowError):
                    await store.checkpoint(5, claim.jobs[0], Checkpoint("1", done=2**70))
            await store.heartbeat(5)
            await store.checkpoint(5, claim.jobs[0], Checkpoint("2", done=2))
