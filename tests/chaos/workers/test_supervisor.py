"""What goes wrong with one child, with its start, or with the hand-back of its jobs is no reason to give up
the others, nor to stay for ever.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.workers.row import Row
from tests.stopwatch import within
from windlass.cluster.member import Member
from windlass.core.retry import Backoff
from windlass.core.slots import MAX_SLOTS
from windlass.errors import ConfigurationError, StoreUnavailable
from windlass.settings import Settings
from windlass.store.records import WakeUp
from windlass.store.sqlite import SQLiteStore
from windlass.worker.engine.assignment import Assignment
from windlass.worker.processes import channel as channels
from windlass.worker.processes import supervisor as module
from windlass.worker.processes.channel import Assign, Channel, Shutdown, Wake
from windlass.worker.processes.process import Process
from windlass.worker.reports.status_memory import StatusMemory

BREAKS = """
@app.on_start
def start():
    if (here / "broken").exists():
        raise RuntimeError("no such luck")
"""


@pytest.fixture
async def row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Row]:
    caplog.set_level("INFO")
    monkeypatch.setattr(module, "RESTARTS", Backoff(0.05, 0.2))
    row = Row(tmp_path)
    yield row
    await row.close()


async def test_every_death_is_noticed_however_many_children_there_are() -> None:
    """Nothing waits for them in a thread of the loop: with six children and two cores there would be none
    left for the sixth."""
    executor = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(executor)
    member = Member(SQLiteStore(":memory:"), Settings(), {"work": 1})
    processes, endings = [], []
    for _ in range(3):
        ours, theirs = socket.socketpair()
        with theirs:
            child = subprocess.Popen(  # noqa: ASYNC220 - starting it is quick
                [sys.executable, "-c", "import time; time.sleep(60)"],
                pass_fds=(theirs.fileno(),),
            )
        process = Process(child, await Channel.over(ours), StatusMemory.make(MAX_SLOTS), member)
        listening = asyncio.create_task(process.listen(lambda: None))
        processes.append(process)
        endings.append(asyncio.create_task(process.wait(listening)))
    try:
        for process, ending in reversed(list(zip(processes, endings, strict=True))):
            await asyncio.sleep(0)
            process.kill()
            async with within(10.0):
                assert await asyncio.shield(ending) == -9
    finally:
        for process in processes:
            process.kill()
        await asyncio.gather(*endings)
        for process in processes:
            process.status_memory.close()


async def test_a_child_that_cannot_start_does_not_stop_one_that_works(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    row.write("""
@app.on_start
def start():
    try:
        os.close(os.open(here / "first", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        while not (here / "proceed").exists():
            time.sleep(0.01)
        if (here / "broken").exists():
            raise RuntimeError("no such luck")
""")
    (row.folder / "broken").touch()
    await row.start(processes=2)
    await row.until(lambda: row.up == 1)
    (row.folder / "proceed").touch()
    await row.until(lambda: caplog.text.count("cannot be started: a start hook failed") >= 2)
    assert row.supervisor.readiness() == (
        True,
        {
            "store": "reached",
            "writes": "done",
            "hand_backs": "done",
            "processes": 1,
            "unresponsive": 0,
            "stopping": False,
            "coordinator": True,
        },
    )
    (row.folder / "broken").unlink()
    await row.until(lambda: row.up == 2)
    row.supervisor.stop()
    await row.left()
    assert "stopping now" not in caplog.text


async def test_an_app_that_never_started_is_refused(row: Row) -> None:
    row.write(BREAKS)
    (row.folder / "broken").touch()
    await row.start(processes=2)
    with pytest.raises(ConfigurationError, match="no such luck"):
        await row.left()
    assert not row.supervisor._children


async def test_a_signal_that_comes_twice_at_once_lets_jobs_finish(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    """And a probe still sees the process that shuts down."""
    await row.start()
    job = await row.enqueue()
    row.supervisor.stop()
    row.supervisor.stop()
    ready, readiness = row.supervisor.readiness()
    assert (ready, readiness["processes"], readiness["stopping"]) == (False, 1, True)
    (row.folder / "gate").touch()
    await row.left()
    record = await row.line.job(job)
    assert (record.state, record.attempt, record.deaths) == ("succeeded", 1, 0)
    assert "handed back" not in caplog.text


async def test_a_supervisor_leaves_though_the_store_does_not_answer(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    """The jobs of a dead child wait for its lease then, and the log says so."""
    await row.start(shutdown=0.5, grace=0.5)
    await row.enqueue()
    (child,) = row.supervisor._children
    with row.line.cut():
        child.kill()
        await row.until(lambda: "cannot hand jobs back yet" in caplog.text)
        row.supervisor.stop()
        await row.left(within=10.0)
    assert "when its lease of 30 s expires" in caplog.text


async def test_a_process_that_cannot_be_started_is_tried_again(
    row: Row, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No memory, no descriptors: and nothing is left of the tries."""
    start, tries = subprocess.Popen, 0

    def popen(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        nonlocal tries
        tries += 1
        if tries in (2, 3, 4):
            raise OSError("Cannot allocate memory")
        return start(*args, **kwargs)

    monkeypatch.setattr(subprocess, "Popen", popen)
    await row.start(processes=2, start="exec")
    await row.until(lambda: row.up == 2)
    assert caplog.text.count("cannot start a process: Cannot allocate memory") == 3
    targets = {_target(fd) for fd in os.listdir("/proc/self/fd")}
    assert sum("windlass-status-" in target for target in targets) == 2
    row.supervisor.stop()
    await row.left()


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


async def test_a_child_that_talks_nonsense_is_replaced(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    """No heartbeat could be sent for it."""
    row.write("""
@app.on_start
def start():
    if (here / "broken").exists():
        os.write(int(sys.argv[1]), b"hello\\n")
        (here / "broken").unlink()
""")
    (row.folder / "broken").touch()
    await row.start(processes=2, start="exec")
    await row.until(lambda: "sent an invalid message; killing it" in caplog.text)
    await row.until(lambda: row.up == 2)
    row.supervisor.stop()
    await row.left()


async def test_a_process_that_is_too_big_from_the_start_is_not_replaced_in_a_row(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    await row.start(max_memory=2**20)
    await row.until(lambda: caplog.text.count("--max-memory is 1 MiB; if the app needs that much") >= 2)
    assert caplog.text.count("a new process starts in") >= 1
    row.supervisor.stop()
    await row.left()


async def test_k9_mended_code_starts_at_once(
    row: Row, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[K9] Not when the pause after a failed start is over; nor is a child called started that cannot be."""
    monkeypatch.setattr(module, "RESTARTS", Backoff(600.0, 600.0))
    await row.start(reloads=True)
    await row.until(lambda: row.up == 1)
    row.write("def broken(:\n")
    row.supervisor.reload()
    await row.until(lambda: "or when the code has changed" in caplog.text)
    assert row.up == 0
    assert caplog.text.count("is up, process") == 1
    row.write("")
    row.supervisor.reload()
    await row.until(lambda: row.up == 1)
    row.supervisor.stop()
    await row.left()


async def test_a_child_that_does_not_read_costs_its_supervisor_no_memory() -> None:
    """It is stopped, slots are sent each second, and wake-ups as they come; what else there is to say waits
    for it."""
    ours, theirs = socket.socketpair()
    sender, reader = await Channel.over(ours), await Channel.over(theirs)
    assignment = Assignment({f"queue-{number}": 1 for number in range(100)})
    for _ in range(5000):
        sender.send(Assign(assignment))
        sender.send(Wake(WakeUp(("queue-1",))))
    assert sender._writer.transport.get_write_buffer_size() < channels.UNREAD + 4000
    sender.send(Shutdown())
    heard = [message async for message in _until_shutdown(reader)]
    assert heard[-1] == Shutdown()
    assert heard[0] == Assign(assignment)
    sender.send(Assign(assignment))
    assert await anext(reader.messages()) == Assign(assignment)
    await sender.close()
    await reader.close()


async def _until_shutdown(reader: Channel) -> AsyncIterator[object]:
    async for message in reader.messages():
        yield message
        if isinstance(message, Shutdown):
            return


async def test_m6_not_ready_while_jobs_cannot_be_handed_back(row: Row) -> None:
    """Heartbeats arrived, so `/readyz` said ready while the jobs of a dead child were stuck."""
    await row.start(processes=2)
    await row.until(lambda: row.up == 2 and all(child.workers for child in row.supervisor._children))
    refused = asyncio.Event()
    mended = asyncio.Event()

    async def refuse(*_: Any) -> None:
        if not mended.is_set():
            refused.set()
            raise StoreUnavailable("no answer in time through the pooler")

    row.line.before["held"] = row.line.before["retire"] = refuse
    next(iter(row.supervisor._children)).kill()
    await refused.wait()
    await row.until(lambda: row.supervisor.readiness()[1]["hand_backs"] == "failing")
    ready, readiness = row.supervisor.readiness()
    assert (ready, readiness["store"]) == (False, "reached")
    mended.set()
    await row.until(lambda: row.supervisor.readiness()[0])
    assert row.supervisor.readiness()[1]["hand_backs"] == "done"
    row.supervisor.stop()
    await row.left()
