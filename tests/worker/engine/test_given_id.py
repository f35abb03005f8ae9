"""[K13] A worker was given an id that another one has: it is refused, or takes its place now or later."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from tests.stopwatch import Stopwatch, within
from tests.worker.line import Line, until
from windlass import Windlass
from windlass.core.retry import DeathPolicy
from windlass.errors import ConfigurationError, StoreUnavailable
from windlass.store.protocol import Store
from windlass.store.records import WorkerInfo
from windlass.worker.engine.given_id import GivenId
from windlass.worker.engine.process_key import process_key

ENDED = f"{process_key().rpartition('/')[0].rpartition('/')[0]}/{2**22 + 1}/1"
"""A process of this machine that does not run."""


@pytest.fixture(autouse=True)
async def opened(line: Line) -> AsyncIterator[None]:
    await line.real.open()
    yield
    await line.real.close()


def info(worker: int, **about: object) -> WorkerInfo:
    return WorkerInfo(id=worker, label=f"w-{worker}", host="there", pid=5, name="pod-0", **about)  # type: ignore[arg-type]


@asynccontextmanager
async def beating(store: Store, worker: int) -> AsyncIterator[None]:
    async def heartbeat() -> None:
        while True:
            await store.heartbeat(worker)
            await asyncio.sleep(0.1)

    task = asyncio.create_task(heartbeat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_second_live_one_is_refused(line: Line) -> None:
    """It says who has the id, where, since when, and what to do; and the first one goes on."""
    await line.real.register(info(1, lease=30.0))
    watch = Stopwatch()
    async with beating(line.real, 1):
        with pytest.raises(ConfigurationError) as told:
            await GivenId(line.real, DeathPolicy()).register(info(2))
    assert watch.seconds() < 10.0  # with its first heartbeat, not with its lease
    for part in ("pod-0", "w-1", "process 5 on there", "since 20", "UTC", "--id"):
        assert part in str(told.value)
    assert [worker.id for worker in await line.real.workers()] == [1]


async def test_one_whose_process_has_ended_is_replaced_at_once(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for its lease; its jobs are offered again."""
    await line.real.register(info(1, lease=600.0, process=ENDED))
    async with within(5):
        await GivenId(line.real, DeathPolicy()).register(info(2))
    assert [worker.id for worker in await line.real.workers()] == [2]
    assert "its process has ended" in caplog.text


async def test_one_that_is_silent_is_waited_for(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    """It may be on a machine that cannot be asked: its lease must pass, and that is said."""
    await line.real.register(info(1, lease=1.0))
    began, watch = time.monotonic(), Stopwatch()
    with caplog.at_level(logging.WARNING, "windlass.worker"):
        await GivenId(line.real, DeathPolicy()).register(info(2))
    assert time.monotonic() - began >= 1.0
    assert watch.seconds() < 5.0
    assert [worker.id for worker in await line.real.workers()] == [2]
    assert "waiting up to 1 s" in caplog.text


async def test_an_embedded_worker(wired: Windlass, line: Line) -> None:
    """Its label has the id, also the next time."""
    for _ in range(2):
        async with wired.worker(["default"], id="pod-0"):
            (one,) = await line.real.workers()
            assert one.name == "pod-0"
            assert one.label.endswith("-worker-pod-0")
            assert await (await wired.aenqueue("windlass.echo", 1)).aresult("10s") == 1


async def test_a_second_embedded_one_is_refused(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are in this process, so that the first is not gone: its heartbeats come."""
    monkeypatch.setitem(wired.__dict__, "settings", msgspec.structs.replace(wired.settings, lease=1.5))
    async with wired.worker(["default"], id="pod-0"):
        (first,) = await line.real.workers()
        with pytest.raises(ConfigurationError, match="pod-0 is taken"):
            await wired.worker(["default"], id="pod-0").run()
        assert [worker.id for worker in await line.real.workers()] == [first.id]


async def test_it_does_not_wait_for_itself(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was registered and did not hear of it, and the store was away for one more try."""
    monkeypatch.setitem(wired.__dict__, "settings", msgspec.structs.replace(wired.settings, lease=30.0))
    tries = 0

    async def goes(*_: object) -> None:
        nonlocal tries
        tries += 1
        if tries == 2:
            raise StoreUnavailable("no route to host")

    async def comes_back(_: object) -> None:
        if tries == 1:
            raise StoreUnavailable("the connection broke after the commit")

    line.before["register"], line.after["register"] = goes, comes_back
    async with within(10), wired.worker(["default"], id="pod-0"):
        assert await (await wired.aenqueue("windlass.echo", 1)).aresult("10s") == 1
        assert [known.name for known in await line.real.workers()] == ["pod-0"]


async def test_a_stop_ends_the_wait(wired: Windlass, line: Line, caplog: pytest.LogCaptureFixture) -> None:
    """It was told to stop while the id was taken."""
    await line.real.register(info(1, lease=600.0))
    worker = wired.worker(["default"], id="pod-0")
    running = asyncio.create_task(worker.run())
    async with within(10):
        await until(lambda: "waiting up to 600 s" in caplog.text)
        worker.stop()
        await running
    assert [known.id for known in await line.real.workers()] == [1]


@pytest.mark.parametrize("wrong", ["a b", "x" * 81, "ä", "a/b"])
def test_an_id_that_cannot_be(wrong: str, wired: Windlass) -> None:
    with pytest.raises(ConfigurationError, match="cannot be a worker id"):
        wired.worker(["default"], id=wrong)
