"""Forks after the store was opened [fault 22]: it works on both sides, or says clearly why it cannot."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import drain, in_child, job, opened
from windlass.store.sqlite import SQLiteStore

ROOT = Path(__file__).resolve().parents[4]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_both_sides_of_a_fork_go_on(tmp_path: Path) -> None:
    """The store was open and had written; the child enqueues through it, and then the parent does, too."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job("before")])

        async def enqueue_in_child() -> None:
            assert (await store.depth())["default"].ready == 1
            await store.enqueue([job("child")])
            assert holds_locks(path)
            await store.close()

        assert in_child(lambda: asyncio.new_event_loop().run_until_complete(enqueue_in_child())) == 0
        await store.enqueue([job("parent")])
        assert [claimed.task for claimed in await drain(store, 1)] == ["before", "child", "parent"]
    check(path)


def holds_locks(path: Path) -> bool:
    """Whether this process holds file locks of its own on the database: SQLite must not only believe so."""
    inode = path.stat().st_ino
    locks = Path("/proc/locks")
    if not locks.exists():
        return True  # no way to see them here
    mine = [line.split() for line in locks.read_text().splitlines()]
    return any(fields[4] == str(os.getpid()) and fields[5].endswith(f":{inode}") for fields in mine)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_a_fork_amid_writes_waits_for_the_commit(tmp_path: Path) -> None:
    """Forks while calls are under way: every answer arrives, and the file stays sound."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        calls = [asyncio.create_task(store.enqueue([job() for _ in range(50)])) for _ in range(40)]
        for _ in range(5):
            await asyncio.sleep(0.002)
            assert in_child(lambda: None) == 0
        receipts = await asyncio.gather(*calls)
        assert len({receipt.id for answer in receipts for receipt in answer}) == 2000
        assert len(await drain(store, 1, 500)) == 2000
    check(path)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_a_store_that_was_never_opened_crosses_a_fork(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    store = SQLiteStore(path)

    async def work() -> None:
        await store.open()
        await store.enqueue([job()])
        await store.close()

    assert in_child(lambda: asyncio.new_event_loop().run_until_complete(work())) == 0
    check(path)


BEHIND_PYTHONS_BACK = """
import asyncio, ctypes, os, signal, sys, time
from tests.store.sqlite.kit import drain, job, opened
from windlass.errors import ConfigurationError

async def refused(store):
    try:
        await store.enqueue([job()])
    except ConfigurationError as error:
        assert "open the store after the fork" in str(error), error
        return
    raise AssertionError("the connection was used")

async def main():
    async with opened(sys.argv[1]) as store:
        await store.enqueue([job()])
        time.sleep(0.05)  # the store's threads come to rest: none holds a lock of the interpreter
        if (child := ctypes.PyDLL(None).fork()) == 0:
            status = 1
            try:
                signal.alarm(20)
                asyncio._set_running_loop(None)
                asyncio.new_event_loop().run_until_complete(refused(store))
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        await store.enqueue([job()])
        assert len(await drain(store, 1)) == 2

asyncio.run(main())
"""


def test_a_fork_behind_pythons_back_is_a_clear_error(tmp_path: Path) -> None:
    """A fork made in C runs no hooks before it, so a connection comes across. It is not used, nor closed.

    It runs in a process of its own: among other threads such a fork copies locks that they hold, and the
    child waits for them forever, which is true of any program and says nothing about this one."""
    path = tmp_path / "w.db"
    command = [sys.executable, "-c", BEHIND_PYTHONS_BACK, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    check(path)
