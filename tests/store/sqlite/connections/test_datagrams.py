"""Waking other processes by datagrams, and what happens where none can arrive [K12]."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stopwatch import Stopwatch, within
from windlass.store.records import NewJob
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.connections import datagrams, wake

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
    """Polls are half a minute apart, so that only a datagram can have been the reason."""
    monkeypatch.setattr(wake, "SHORTEST", 30.0)


async def two(path: Path) -> tuple[SQLiteStore, SQLiteStore]:
    stores = SQLiteStore(path), SQLiteStore(path)
    for store in stores:
        await store.open()
    return stores


def folder_of(path: Path) -> str:
    return f"{path}-wake"


def sockets(path: Path) -> list[str]:
    try:
        return os.listdir(folder_of(path))
    except FileNotFoundError:
        return []


def waiter(path: Path) -> "subprocess.Popen[str]":
    """Another process that waits for jobs, and can be reached."""
    process = subprocess.Popen([sys.executable, "-c", WAITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    reachable(path)
    return process


def reachable(path: Path) -> None:
    """Somebody who waits can be reached."""
    watch = Stopwatch()
    while not sockets(path):
        assert watch.seconds() < 10
        time.sleep(0.001)


async def waits(store: SQLiteStore, path: Path) -> "asyncio.Task[bool]":
    """One who waits for jobs, and can be reached."""
    task = asyncio.create_task(store.wait(["mail"], 20))
    await asyncio.to_thread(reachable, path)
    return task


@pytest.mark.usefixtures("no_polls")
async def test_a_commit_of_another_store_wakes(tmp_path: Path) -> None:
    """[K12] At once: the next poll would come in half a minute."""
    path = tmp_path / "jobs.db"
    one, other = await two(path)
    for _ in range(3):
        waiting = await waits(one, path)
        async with within(10):
            (receipt,) = await other.enqueue([JOB])
            assert await waiting
        await other.cancel([receipt.id])
    await one.close()
    await other.close()
    assert sockets(path) == []


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


async def test_what_a_killed_process_leaves_is_removed(tmp_path: Path) -> None:
    """[K12] By the next commit, and it disturbs nobody."""
    path = tmp_path / "jobs.db"
    store = SQLiteStore(path)
    await store.open()
    with await asyncio.to_thread(waiter, path) as process:
        process.send_signal(signal.SIGKILL)
    assert len(sockets(path)) == 1
    await store.enqueue([JOB])
    assert sockets(path) == []
    await store.close()


async def test_without_sockets_polling_finds_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[K12] A path that is too long, a file system without sockets: nothing fails."""
    monkeypatch.setattr(datagrams, "OPEN_FILES", str(tmp_path / "nothing"))
    one, other = SQLiteStore(tmp_path / "jobs.db"), SQLiteStore(tmp_path / "jobs.db")
    await one.open()
    await other.open()
    assert not (await one.polling(["mail"])).wakes
    waiting = asyncio.create_task(one.wait(["mail"], 20))
    await asyncio.sleep(0.05)
    await other.enqueue([JOB])
    assert await waiting
    await one.close()
    await other.close()
    assert sockets(tmp_path / "jobs.db") == []


@contextlib.contextmanager
def bound(made: socket.socket, folder: str) -> Iterator[None]:
    """A socket in the folder, as that of a process that never reads."""
    os.mkdir(folder)
    opened = os.open(folder, os.O_RDONLY)
    try:
        made.bind(f"/proc/self/fd/{opened}/deaf")
        yield
    finally:
        os.close(opened)


async def test_one_that_is_asleep_holds_up_no_commit(tmp_path: Path) -> None:
    """[K12] Its socket is full: whoever commits goes on."""
    path = tmp_path / "jobs.db"
    store = SQLiteStore(path)
    await store.open()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf, bound(deaf, folder_of(path)):
        async with within(20):
            for _ in range(400):
                await store.enqueue([JOB])
    await store.close()


async def test_a_store_that_closes_while_somebody_waits(tmp_path: Path) -> None:
    """The loop forgets the socket before its number is used again."""
    path = tmp_path / "jobs.db"
    for _ in range(3):
        store = SQLiteStore(path)
        await store.open()
        waiting = await waits(store, path)
        await store.close()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
