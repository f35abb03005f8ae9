"""An embedded worker that is told to go at a bad moment: while it starts, and while jobs run [K2]."""

import asyncio
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.apps import endless
from tests.stopwatch import Stopwatch
from tests.worker.line import Line, until
from windlass import State, Windlass
from windlass.running import loopthread
from windlass.store.protocol import Store
from windlass.worker.engine.embedded import Worker

REPOSITORY = Path(__file__).parents[3]


def tasks_of_members() -> list[str]:
    """The members at work on the loop thread."""
    tasks = asyncio.all_tasks(loopthread.current().loop)
    return [repr(task) for task in tasks if "Member.run" in repr(task) or "_belong" in repr(task)]


async def entered(worker: Worker) -> None:
    async with worker:
        pytest.fail("it must not start")


async def cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelled_in_a_start_hook(wired: Windlass, line: Line) -> None:
    """Nobody would ever leave a block that was not entered."""
    waits, stopped = asyncio.Event(), []
    wired.on_stop(lambda: stopped.append("hook"))

    @wired.on_start
    async def slow() -> None:
        waits.set()
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    entering = asyncio.create_task(entered(wired.worker(["default"])))
    await waits.wait()
    await cancelled(entering)
    assert asyncio.all_tasks() == before
    assert stopped == ["hook"]
    assert await line.workers() == []


async def test_cancelled_while_the_member_begins(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member begins a moment later, finds that nobody waits for it, and ends."""
    asked, proceed = threading.Event(), threading.Event()
    handle = wired._store_handle()
    real = handle.shared

    @asynccontextmanager
    async def shared() -> AsyncIterator[Store]:
        asked.set()
        await until(proceed.is_set)
        async with real() as store:
            yield store

    monkeypatch.setattr(handle, "shared", shared)
    before = asyncio.all_tasks()
    entering = asyncio.create_task(entered(wired.worker(["default"])))
    await until(asked.is_set)
    entering.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert asyncio.all_tasks() == before
    await until(lambda: not tasks_of_members())


async def test_k2_the_end_of_the_block_says_that_it_waits(
    wired: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    """[K2] And for how long at most; a cancel then hands the jobs back."""
    waits, started = endless(wired)
    job = await waits.aenqueue()
    worker = wired.worker(["default"])

    async def block() -> None:
        async with worker:
            await started.wait()

    with caplog.at_level(logging.INFO, "windlass.worker"):
        running = asyncio.create_task(block())
        await until(lambda: "waiting up to 30 s for 1 running job" in caplog.text)
        assert await job.astatus() == State.RUNNING
        await cancelled(running)
    record = await job.arecord()
    assert (record.state, record.attempt, record.deaths) == (State.READY, 1, 0)


ASYNC = """
import asyncio, logging, sys
from windlass import Windlass

logging.basicConfig(level="INFO")
app = Windlass(sys.argv[1])

@app.task(name="waits")
async def waits():
    print("started", flush=True)
    await asyncio.Event().wait()

async def main():
    async with app.worker(["default"]):
        await asyncio.Event().wait()

asyncio.run(main())
"""
PLAIN = """
import logging, sys, threading
from windlass import Windlass

logging.basicConfig(level="INFO")
app = Windlass(sys.argv[1])
inside = threading.Event()

@app.task(name="waits")
async def waits():
    import asyncio
    await asyncio.to_thread(inside.wait)
    print("started", flush=True)
    await asyncio.Event().wait()

with app.worker(["default"]):
    inside.set()
    threading.Event().wait()
"""


@pytest.mark.parametrize("program", [ASYNC, PLAIN], ids=["async", "plain"])
def test_k2_the_second_ctrl_c_hands_back(tmp_path: Path, program: str) -> None:
    """[K2] Not left as running, for others to wait a lease for."""
    url = f"sqlite:///{tmp_path.as_posix()}/jobs.db"
    (tmp_path / "program.py").write_text(program)
    with Windlass(url) as app:
        job = app.enqueue("waits")
        with subprocess.Popen(
            [sys.executable, str(tmp_path / "program.py"), url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                assert process.stdout.readline() == "started\n"
                process.send_signal(signal.SIGINT)
                while "waiting up to 30 s for 1 running job" not in (said := process.stderr.readline()):
                    assert said, "it ended without a word"
                assert job.status() == State.RUNNING
                watch = Stopwatch()
                process.send_signal(signal.SIGINT)
                rest = process.stderr.read()
                process.wait(20)
            finally:
                process.kill()
        assert watch.seconds() < 15
        assert "handed back" in rest
        record = job.record()
    assert (record.state, record.attempt, record.deaths) == (State.READY, 1, 0)
