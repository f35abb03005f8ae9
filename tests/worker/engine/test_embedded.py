"""A worker inside a process that also does other things: as a block, as a call, from code without a loop."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apps import endless
from tests.stopwatch import Stopwatch, within
from tests.worker.line import Line, set_quick, until, until_it_is
from windlass import Context, Retry, State, Windlass
from windlass.core.retry import Backoff
from windlass.errors import ConfigurationError, ResultTimeout, StoreError, StoreFull, StoreUnavailable
from windlass.running.loopthread import loop_name, prefer_uvloop
from windlass.store.records import Outcome
from windlass.worker.handlers.threads import Threads


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Every thread of a worker ends with it; only the process's own loop thread may stay."""
    before = set(threading.enumerate())
    yield
    watch = Stopwatch()
    while left := [t.name for t in threading.enumerate() if t not in before and t.name in OURS]:
        assert watch.seconds() < 5, left
        time.sleep(0.005)


OURS = ("windlass-worker", "windlass-job")


async def test_as_a_block(wired: Windlass, line: Line) -> None:
    """It works while the block lasts, runs both kinds of functions, and leaves no task behind."""
    wired.task(name="plain")(_plain)
    tasks = asyncio.all_tasks()
    async with wired.worker(["default"]):
        assert await (await wired.aenqueue("windlass.echo", 1)).aresult("10s") == 1
        assert await (await wired.aenqueue("plain", 2)).aresult("10s") == 3
    assert asyncio.all_tasks() == tasks
    assert await line.workers() == []
    later = await wired.aenqueue("windlass.echo", 1)
    assert await later.astatus() == State.READY


async def test_a_result_that_cannot_come_is_told(wired: Windlass) -> None:
    """A plain call of result() on the worker's own loop would keep the job from ending; one that has ended
    is no trouble, nor is one without a worker here, nor another thread."""
    inside: list[str] = []

    @wired.task(name="calls")
    async def calls() -> None:
        with pytest.raises(RuntimeError) as told:
            wired.enqueue("windlass.echo", 1).result()
        inside.append(str(told.value))

    async with wired.worker(["default"]):
        job = await wired.aenqueue("windlass.echo", 5)
        with pytest.raises(RuntimeError, match=rf"job {job.id} has not ended, .*await job\.aresult\(\)"):
            job.result("10s")
        assert await asyncio.to_thread(job.result, "10s") == 5
        assert job.result() == 5
        await (await wired.aenqueue("calls")).aresult("10s")
    assert "await job.aresult()" in inside[0]
    with pytest.raises(ResultTimeout):
        (await wired.aenqueue("windlass.echo", 1)).result(0.01)


@pytest.mark.parametrize("line", ["memory"], indirect=True)
async def test_fault_32_one_that_takes_nothing_is_told_of(
    wired: Windlass, line: Line, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[fault 32] Nobody can replace it: the log has the stacks, it is counted, and it is not ready."""
    monkeypatch.setattr("windlass.worker.engine.unresponsive.WATCH_EVERY", 0.02)
    set_quick(wired, unresponsive=0.6)
    mended = asyncio.Event()

    async def hang(*_: object) -> None:
        await mended.wait()

    worker = wired.worker(["default"])
    assert not worker.readiness()[0]
    async with worker:
        await until(lambda: worker.readiness()[0])
        line.before["claim"] = hang
        await until(lambda: not worker.readiness()[0])
        details = {"store": "reached", "writes": "done", "unresponsive": True, "working": True}
        assert worker.readiness() == (False, details)
        assert "takes no jobs: it got no answer to its claims for 0.6 s" in caplog.text
        await until(lambda: "the tasks of its loop:\nwindlass" in caplog.text)
        assert "in _claim_for_ever" in caplog.text
        mended.set()
        await until(lambda: worker.readiness()[0])
    assert not worker.readiness()[0]
    await line.real.rollup()
    assert sum(sample.counts.get("unresponsive", 0) for sample in await line.real.totals()) == 1


@pytest.mark.parametrize("operation", ["heartbeat", "finish"])
async def test_m6_one_whose_store_is_full_is_not_ready(wired: Windlass, line: Line, operation: str) -> None:
    """[M6] Whatever finds no room: its heartbeats, or what its jobs came to."""
    set_quick(wired, lease=3.0)
    worker = wired.worker(["default"])
    async with worker:
        await until(lambda: worker.readiness()[0])
        line.fail(operation, *[StoreFull("no room; nothing was written")] * 1000)
        job = await wired.aenqueue("windlass.echo", 1)
        await until(lambda: worker.readiness()[1]["writes"] == "full")
        assert not worker.readiness()[0]
        del line.before[operation]
        await until(lambda: worker.readiness()[0])
        assert await job.aresult("10s") == 1


def _plain(number: int) -> int:
    return number + 1


def test_from_code_without_a_loop(wired: Windlass) -> None:
    with wired.worker({"default": 2}):
        assert wired.enqueue("windlass.echo", 1).result("10s") == 1
    assert wired.enqueue("windlass.echo", 1).status() == State.READY


async def test_a_loop_that_runs_is_used_as_it_is(wired: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is installed; and from code without a loop, uvloop where it is. The log says which."""
    caplog.set_level("INFO", "windlass.worker")
    here, seen = asyncio.get_running_loop(), list[asyncio.AbstractEventLoop]()

    @wired.task(name="look")
    async def look() -> None:
        seen.append(asyncio.get_running_loop())

    def enter() -> None:
        with wired.worker(["default"]):
            look.enqueue().result("10s")

    async with wired.worker(["default"]):
        await (await look.aenqueue()).aresult("10s")
    await asyncio.to_thread(enter)
    first, second = seen
    assert first is here
    for loop in seen:
        assert f"; event loop: {loop_name(loop)}" in caplog.text
    if prefer_uvloop() is not None:
        assert loop_name(second) == "uvloop"


def test_an_error_in_the_block_passes_and_the_worker_ends(wired: Windlass) -> None:
    with pytest.raises(KeyError, match="of the block"), wired.worker(["default"]):
        raise KeyError("of the block")


def test_a_worker_that_was_stopped_before_the_block_ends(wired: Windlass) -> None:
    with wired.worker(["default"]) as worker:
        worker.stop()
        assert worker._thread is not None
        worker._thread.join(10)
        assert not worker._thread.is_alive()


async def test_run_until_stopped(wired: Windlass) -> None:
    worker = wired.worker(["default"])
    running = asyncio.create_task(worker.run())
    assert await (await wired.aenqueue("windlass.echo", 1)).aresult("10s") == 1
    worker.stop()
    await running


async def test_the_second_stop_hands_back(wired: Windlass) -> None:
    """[K2] The first waits for what runs, the second does not."""
    waits, started = endless(wired)
    job = await waits.aenqueue()
    worker = wired.worker(["default"])
    running = asyncio.create_task(worker.run())
    await started.wait()
    worker.stop()
    assert worker._engine is not None
    await until(lambda: worker._engine is not None and worker._engine.stopping)
    assert worker._engine.busy == 1
    assert not running.done()
    await asyncio.to_thread(worker.stop)  # from any thread
    await running
    record = await job.arecord()
    assert (record.state, record.attempt) == (State.READY, 1)


@pytest.mark.parametrize("when", ["before", "during"])
async def test_a_stop_before_the_start_is_not_forgotten(wired: Windlass, when: str) -> None:
    """A signal may come while the start hooks run, or even sooner."""
    worker = wired.worker(["default"])
    if when == "before":
        worker.stop()
    else:
        wired.on_start(worker.stop)
    async with within(10):
        await worker.run()


async def test_cancelling_run_hands_back(wired: Windlass) -> None:
    """[K2]"""
    waits, started = endless(wired)
    stopped: list[str] = []
    wired.on_stop(lambda: stopped.append("hook"))
    job = await waits.aenqueue()
    running = asyncio.create_task(wired.worker(["default"]).run())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    record = await job.arecord()
    assert (record.state, record.attempt, record.deaths) == (State.READY, 1, 0)
    assert stopped == ["hook"]


async def test_k9_a_start_hook_that_fails_stops_the_worker_with_its_error(wired: Windlass) -> None:
    """[K9] What the others have opened is closed."""
    seen: list[str] = []
    wired.on_start(lambda: seen.append("first"))
    wired.on_stop(lambda: seen.append("stop"))

    @wired.on_start
    async def fails() -> None:
        raise OSError("no database of mine")

    with pytest.raises(OSError, match="no database of mine"):
        async with wired.worker(["default"]):
            pytest.fail("it must not start")
    assert seen == ["first", "stop"]
    with pytest.raises(OSError, match="no database of mine"):
        await asyncio.to_thread(_enter, wired)


def _enter(app: Windlass) -> None:
    with app.worker(["default"]):
        pytest.fail("it must not start")


async def test_an_error_of_the_store_at_the_start_surfaces(wired: Windlass, line: Line) -> None:
    line.fail("queues", StoreError("this store is broken"))
    with pytest.raises(StoreError, match="this store is broken"):
        async with wired.worker(["default"]):
            pytest.fail("it must not start")


async def test_the_stop_hooks_run_when_the_member_cannot_begin(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[K9] Whatever was opened is closed, and the error is the member's."""
    stopped: list[str] = []
    wired.on_stop(lambda: stopped.append("hook"))

    def shared() -> Any:
        raise StoreError("the shared store is broken")

    monkeypatch.setattr(wired._store_handle(), "shared", shared)
    with pytest.raises(StoreError, match="the shared store is broken"):
        await wired.worker(["default"]).run()
    assert stopped == ["hook"]


async def test_a_store_that_is_not_there_yet_is_waited_for(
    wired: Windlass, line: Line, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C9]"""
    monkeypatch.setattr("windlass.worker.engine.waiting.RECONNECT", Backoff(0.02))
    line.fail("open", StoreUnavailable("not yet"), StoreUnavailable("nor now"))
    async with wired.worker(["default"]):
        assert await (await wired.aenqueue("windlass.echo", 1)).aresult("10s") == 1
    assert caplog.text.count("cannot open the store") == 2


async def test_k9_hooks_and_middleware_are_around_the_work(wired: Windlass) -> None:
    """[K9] Start, then middleware around each run, word of each failure, and stop at the end."""
    seen: list[str] = []

    @wired.on_start
    async def opens(app: Windlass) -> None:
        app.state.pool = "open"
        seen.append("start")

    @wired.on_stop
    def closes() -> None:
        seen.append("stop")

    @wired.middleware
    async def around(ctx: Context, call_next: Any) -> Any:
        seen.append(f"before {ctx.task}")
        return await call_next() * 2

    @wired.on_failure
    def failed(ctx: Context, error: BaseException, outcome: Outcome) -> None:
        seen.append(f"{ctx.task}: {error}, {outcome.kind.value}")

    @wired.task(name="fails", retry=Retry(1))
    async def fails() -> None:
        raise OSError("broken")

    async with wired.worker({"default": 1}):
        assert wired.state.pool == "open"
        assert await (await wired.aenqueue("windlass.echo", 2)).aresult("10s") == 4
        await until_it_is((await fails.aenqueue()).astatus, State.DEAD)
    assert seen == ["start", "before windlass.echo", "before fails", "fails: broken, retry", "stop"]


async def test_two_workers_in_one_process_share_the_work(wired: Windlass) -> None:
    """[C1] [K1] Each job once; two slots over two workers are one each."""
    running, most = 0, 0
    together = asyncio.Event()

    @wired.task(queue="shared")
    async def meets(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            together.set()
        await together.wait()
        await asyncio.sleep(0)
        running -= 1
        return number

    async with wired.worker({"shared": 2}), wired.worker({"shared": 2}):
        ids = await meets.aenqueue_many([(number,) for number in range(10)])
        assert [await meets.job(id).aresult("10s") for id in ids] == list(range(10))
    assert most <= 4


async def test_a_thread_between_two_calls_ends_too() -> None:
    """A worker may leave just when a thread has given its answer and is not idle yet."""
    proceed = threading.Event()

    class Slow(Threads):
        """Its threads take their time between two calls."""

        def next_call(self, thread: Any) -> Any:
            if self.answers:
                proceed.wait(10)
            self.answers += 1
            return super().next_call(thread)

        answers = 0

    threads = Slow()
    ran_in = await threads.run(threading.current_thread)
    threads.close()
    proceed.set()
    await asyncio.to_thread(ran_in.join, 5)
    assert not ran_in.is_alive()


async def test_a_plain_function_left_behind_does_not_keep_the_worker(wired: Windlass) -> None:
    """[K2] Its job is handed back, and the worker ends."""
    proceed, started = threading.Event(), threading.Event()

    @wired.task
    def stuck() -> None:
        started.set()
        proceed.wait(30)

    job = await stuck.aenqueue()
    worker = wired.worker(["default"])
    running = asyncio.create_task(worker.run())
    try:
        await until(started.is_set)
        worker.stop()
        worker.stop()
        async with within(8):
            await running
        assert await job.astatus() == State.READY
        assert worker._engine is not None
        assert worker._engine.left_behind
    finally:
        proceed.set()


def test_k7_a_worker_without_queues_does_not_start(wired: Windlass) -> None:
    """[K7]"""
    none: list[Any] = [[], {}, " , ", ["", "  "]]
    for queues in none:
        app = Windlass("sqlite:///:memory:")
        app._tasks.clear()
        with pytest.raises(ConfigurationError, match="serves no queue"):
            app.worker(queues)


async def test_k7_queues_come_from_the_settings_or_from_the_tasks() -> None:
    """[K7]"""
    with Windlass("sqlite:///:memory:", queues=" mail=2 ,, mail, imports ") as app:
        assert app.worker()._queues == {"mail": None, "imports": None}
    with Windlass("sqlite:///:memory:") as app:
        app.task(queue="files")(_plain)
        assert app.worker()._queues == {"default": None, "files": None}
        assert app.worker("a=1,b")._queues == {"a": 1, "b": None}
