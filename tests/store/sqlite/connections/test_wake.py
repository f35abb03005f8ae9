"""Waking by what other processes commit, and what happens where that cannot be seen [K12]."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stopwatch import Stopwatch, within
from windlass.store.records import NewJob
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.connections import wake

JOB = NewJob(task="a", payload="{}", queue="mail")

WAITER = """
import asyncio, sys
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.connections import wake

wake.SHORTEST = 30.0

async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open()
    print("ready", flush=True)
    print(await store.wait(["mail"], 20), flush=True)
    await store.close()

asyncio.run(main())
"""


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls are half a minute apart, so that only a look at the log can have been the reason."""
    monkeypatch.setattr(wake, "SHORTEST", 30.0)


async def two(path: Path) -> tuple[SQLiteStore, SQLiteStore]:
    stores = SQLiteStore(path), SQLiteStore(path)
    for store in stores:
        await store.open()
    return stores


def waiter(path: Path) -> "subprocess.Popen[str]":
    """Another process that waits for jobs."""
    process = subprocess.Popen([sys.executable, "-c", WAITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


async def waits(store: SQLiteStore) -> "asyncio.Task[bool]":
    """One who waits for jobs, and has looked."""
    waiting = asyncio.create_task(store.wait(["mail"], 20))
    assert not (await asyncio.wait({waiting}, timeout=0.1))[0]
    return waiting


@pytest.mark.usefixtures("no_polls")
async def test_a_commit_of_another_store_wakes(tmp_path: Path) -> None:
    """[K12] At once: the next poll would come in half a minute."""
    path = tmp_path / "jobs.db"
    one, other = await two(path)
    for _ in range(3):
        waiting = await waits(one)
        async with within(10):
            (receipt,) = await other.enqueue([JOB])
            assert await waiting
        await other.cancel([receipt.id])
    await one.close()
    await other.close()


async def test_a_commit_of_another_process_wakes(tmp_path: Path) -> None:
    """[K12]"""
    path = tmp_path / "jobs.db"
    store = SQLiteStore(path)
    await store.open()
    with await asyncio.to_thread(waiter, path) as process:
        watch = Stopwatch()
        await store.enqueue([JOB])
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == "True\n"
        assert watch.seconds() < 5
    assert process.returncode == 0
    await store.close()


async def test_without_the_log_polling_finds_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[K12] A file system that does not tell when a file was written: nothing fails."""
    monkeypatch.setattr(wake, "_stamp", lambda wal: None)
    one, other = await two(tmp_path / "jobs.db")
    waiting = await waits(one)
    await other.enqueue([JOB])
    assert await waiting
    await one.close()
    await other.close()


@pytest.mark.usefixtures("no_polls")
async def test_a_commit_at_the_time_of_the_last_one_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[K12] The clock of files may stand still for some milliseconds: after a change it looks once more."""
    stamps = iter([(1, 1), (2, 1)])
    monkeypatch.setattr(wake, "_stamp", lambda wal: next(stamps, (2, 1)))
    rings = 0
    bell = wake.Bell(str(tmp_path / "jobs.db"))
    async with within(10):
        with bell.listening() as event:
            while rings < 2:
                await event.wait()
                event.clear()
                rings += 1
    assert next(stamps, None) is None


@pytest.mark.usefixtures("no_polls")
async def test_a_link_to_the_file_is_followed(tmp_path: Path) -> None:
    """[K12] SQLite keeps the log beside the file itself."""
    (tmp_path / "data").mkdir()
    (tmp_path / "jobs.db").symlink_to(tmp_path / "data" / "jobs.db")
    one, other = SQLiteStore(tmp_path / "jobs.db"), SQLiteStore(tmp_path / "data" / "jobs.db")
    await other.open()
    await one.open()
    waiting = await waits(one)
    async with within(10):
        await other.enqueue([JOB])
        assert await waiting
    await one.close()
    await other.close()


async def test_a_store_that_closes_while_somebody_waits(tmp_path: Path) -> None:
    """Its looks at the log end with it."""
    path = tmp_path / "jobs.db"
    for _ in range(3):
        store = SQLiteStore(path)
        await store.open()
        waiting = await waits(store)
        await store.close()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
