"""Who may have a hand in the folder of sockets beside a file, and what is left alone there [K12]."""

import asyncio
import logging
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import memory
from tests.store.sqlite.connections.test_datagrams import folder_of, reachable, sockets
from tests.store.sqlite.kit import job, opened, start

ALICE, BOB, STRANGER, TEAM, OTHERS = 20001, 20002, 20003, 20100, 20101
"""Users and groups, which need no names."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database in a folder into which everybody may write, and a folder of somebody's own."""
    tmp_path.chmod(0o777)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("years of work")
    return tmp_path / "jobs.db"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A database in a folder of a group, which others are let through to."""
    with tempfile.TemporaryDirectory(dir=memory()) as name:
        os.chown(name, ALICE, TEAM)
        Path(name).chmod(0o2770)
        yield Path(name) / "jobs.db"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def commits_and_waits(path: Path) -> bool:
    """Enqueue twice and wait; whether others could wake it."""
    async with opened(path) as store:
        await store.enqueue([job()])
        await store.enqueue([job()])
        assert await store.wait(["default"], 20)
        assert await store.wait(["default"], 20)
        return (await store.polling(["default"])).wakes


async def test_a_link_is_not_followed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """[K12] Whatever it leads to stays as it is, nothing is put there, and one warning says so."""
    os.symlink(path.parent / "own", folder_of(path))
    assert not await commits_and_waits(path)
    assert os.listdir(path.parent / "own") == ["thesis.txt"]
    (warning,) = warnings(caplog)
    assert f"{folder_of(path)} is not used to wake other processes" in warning
    os.unlink(folder_of(path))
    assert await commits_and_waits(path)


async def test_only_sockets_are_touched(path: Path) -> None:
    """[K12] What else is in the folder stays there, also a link to the socket of a dead process."""
    async with opened(path) as store:
        waiting = asyncio.create_task(store.wait(["default"], 20))
        await asyncio.to_thread(reachable, path)
        folder = Path(folder_of(path))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
            dead.bind(str(path.parent / "own" / "dead"))
        (folder / "notes.txt").write_text("mine")
        (folder / "link").symlink_to(path.parent / "own" / "thesis.txt")
        (folder / "dead").symlink_to(path.parent / "own" / "dead")
        await store.enqueue([job()])
        assert await waiting
    assert sorted(os.listdir(folder)) == ["dead", "link", "notes.txt"]
    assert sorted(os.listdir(path.parent / "own")) == ["dead", "thesis.txt"]


async def test_a_folder_that_everybody_may_write_is_not_used(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """[K12] The file may be written by its owner only."""
    os.mkdir(folder_of(path))
    os.chmod(folder_of(path), 0o777)  # noqa: S103 - that is the point
    assert not await commits_and_waits(path)
    (warning,) = warnings(caplog)
    assert "more users may write there (mode 0777" in warning


@as_root
async def test_a_folder_that_a_stranger_made_is_not_used(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """[K12] Nor what is in it, not even sockets."""
    os.mkdir(folder_of(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(folder_of(path) + "/dead")
    os.chown(folder_of(path), STRANGER, OTHERS)
    assert not await commits_and_waits(path)
    assert sockets(path) == ["dead"]
    (warning,) = warnings(caplog)
    assert f"user {STRANGER} made it" in warning


async def test_the_folder_is_as_private_as_the_file(path: Path) -> None:
    """[K12] Whatever the umask of the process that makes it."""
    before = os.umask(0)
    try:
        async with opened(path) as store:
            os.chmod(path, 0o600)
            waiting = asyncio.create_task(store.wait(["default"], 20))
            await asyncio.to_thread(reachable, path)
            (name,) = os.listdir(folder_of(path))
            made = folder_of(path), os.path.join(folder_of(path), name)
            assert [os.stat(one).st_mode & 0o7777 for one in made] == [0o700, 0o600]
            await store.enqueue([job()])
            assert await waiting
    finally:
        os.umask(before)
    assert sockets(path) == []


def act(path: Path, user: int, umask: int, action: str, queue: str) -> "subprocess.Popen[str]":
    """Do it as this user of the group, in a process that has opened the file."""
    process = start("as_user", path, user, TEAM, f"{umask:o}", action, queue)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def wakes(path: Path, waiter: tuple[int, int], other: tuple[int, int], queue: str) -> int:
    """Have one user with its umask wait for what the other enqueues; who owns the folder meanwhile."""
    with act(path, *waiter, "wait", queue) as waiting:
        reachable(path)
        owner = os.stat(folder_of(path)).st_uid
        with act(path, *other, "enqueue", queue) as enqueuing:
            pass
        assert waiting.stdout is not None
        assert waiting.stdout.read() == "True\n"
    assert [waiting.returncode, enqueuing.returncode] == [0, 0]
    assert not os.path.lexists(folder_of(path))
    return owner


@as_root
def test_users_of_a_group_wake_each_other(shared: Path) -> None:
    """[K12] Whoever of them makes the folder, and whatever his umask."""
    with act(shared, ALICE, 0o007, "enqueue", "first"):
        pass
    shared.chmod(0o660)  # as the guide says
    assert wakes(shared, (BOB, 0o077), (ALICE, 0o007), "one") == BOB
    assert wakes(shared, (ALICE, 0o007), (BOB, 0o077), "two") == ALICE


@as_root
def test_root_serves_who_owns_the_file(shared: Path) -> None:
    """[K12] The folder that a command of root makes is the owner's, and the owner wakes it."""
    with act(shared, ALICE, 0o077, "enqueue", "first"):
        pass
    assert wakes(shared, (0, 0o077), (ALICE, 0o077), "one") == ALICE
