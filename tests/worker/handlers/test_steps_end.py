"""A run ends when its steps have ended: none of them runs beside itself in the next attempt [W1]."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.worker.line import Line
from tests.worker.worker_sessions import on_session
from windlass import Context, Retry, Windlass
from windlass.errors import JobFailed
from windlass.worker.handlers.run import Why

pytestmark = pytest.mark.usefixtures("often")


class Slow:
    """The function of a step that goes on until it is let go, in a task or in a thread."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self._proceed = asyncio.Event()
        self._proceed_in_thread = threading.Event()
        self.cancelled = asyncio.Event()
        self.runs = 0
        self.at_once = 0
        self.most_at_once = 0

    def proceed(self) -> None:
        self._proceed.set()
        self._proceed_in_thread.set()

    async def begun(self) -> None:
        assert await asyncio.to_thread(self.began.wait, 10)

    def in_thread(self) -> str:
        self._begin()
        self._proceed_in_thread.wait(20)
        self.at_once -= 1
        return "done"

    async def on_loop(self) -> str:
        self._begin()
        try:
            await self._proceed.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            await asyncio.sleep(0.01)  # unwinds
            raise
        finally:
            self.at_once -= 1
        return "done"

    def _begin(self) -> None:
        self.runs += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.began.set()


@pytest.fixture
async def slow() -> AsyncIterator[Slow]:
    slow = Slow()
    yield slow
    slow.proceed()


class Tried:
    """A step that fails in the first attempt, once the slow one runs."""

    def __init__(self, slow: Slow) -> None:
        self.failed = asyncio.Event()
        self.runs = 0
        self._slow = slow

    async def once(self) -> None:
        await self._slow.begun()
        self.runs += 1
        if self.runs == 1:
            self.failed.set()
            raise OSError("the first time")


@pytest.mark.parametrize("where", ["on_loop", "in_thread"])
async def test_w1_a_retry_begins_when_the_steps_of_the_failed_attempt_have_ended(
    any_app: Windlass, slow: Slow, where: str
) -> None:
    """What was begun is kept, and returned to the retry."""
    tried = Tried(slow)

    @any_app.task(retry=Retry(3, base=0))
    async def work(ctx: Context) -> tuple[Any, ...]:
        return await asyncio.gather(ctx.step("slow", getattr(slow, where)), ctx.step("tried", tried.once))

    await any_app.amigrate()
    job = await work.aenqueue()
    async with any_app.worker({"default": 2}):
        await tried.failed.wait()
        other = await work.aenqueue()  # one that is enqueued later has begun and ended
        slow.proceed()
        assert await other.aresult("20s") == ("done", None)
        assert await job.aresult("20s") == ("done", None)
    assert (slow.runs, tried.runs) == (2, 3)
    assert (await job.arecord()).attempt == 2


async def test_w1_a_run_that_waits_for_its_steps_is_still_running(
    wired: Windlass, line: Line, slow: Slow
) -> None:
    tried = Tried(slow)

    @wired.task(retry=Retry(3, base=0))
    async def work(ctx: Context) -> tuple[Any, ...]:
        return await asyncio.gather(ctx.step("slow", slow.on_loop), ctx.step("tried", tried.once))

    job = await work.aenqueue()
    async with on_session(wired, line) as session:
        await tried.failed.wait()
        (run,) = session.running
        for _ in range(50):
            await asyncio.sleep(0)
        assert list(session.running) == [run]
        assert await job.astatus() == "running"
        slow.proceed()
        await job.aresult("10s")
    assert slow.most_at_once == slow.runs == 1


async def test_w1_a_task_group_that_cancels_a_thread_of_a_step_ends_after_it(
    app: Windlass, slow: Slow
) -> None:
    """The retry begins the step again, as its task was cancelled, but not beside its first run."""
    tried = Tried(slow)
    let_go = asyncio.Event()

    @app.task(retry=Retry(3, base=0))
    async def work(ctx: Context) -> int:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.step("slow", slow.in_thread))
                group.create_task(ctx.step("tried", tried.once))
        finally:
            let_go.set()
        return ctx.attempt

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 2}):
        await let_go.wait()
        assert slow.at_once == 1
        slow.proceed()
        assert await job.aresult("20s") == 2
    assert (slow.runs, slow.most_at_once) == (2, 1)


async def test_w1_a_step_is_tried_again_when_the_thread_of_its_last_try_has_ended(app: Windlass) -> None:
    """A timeout cannot stop it."""
    at_once: Counter[str] = Counter()
    tries: list[int] = []
    timed_out = threading.Event()

    def stubborn() -> int:
        at_once["now"] += 1
        at_once["most"] = max(at_once["most"], at_once["now"])
        tries.append(len(tries))
        if len(tries) == 1:
            timed_out.wait(10)
        at_once["now"] -= 1
        return len(tries)

    @app.task
    async def work(ctx: Context) -> int:
        step = asyncio.ensure_future(ctx.step("stubborn", stubborn, timeout="50ms", retry=Retry(3, base=0)))
        await asyncio.wait([step], timeout=0.3)
        timed_out.set()
        return await step

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        assert await job.aresult("20s") == 2
    assert at_once["most"] == 1


async def test_w1_a_step_is_not_tried_again_once_its_run_has_ended(app: Windlass, slow: Slow) -> None:
    tries: Counter[int] = Counter()
    failed = asyncio.Event()

    async def flaky(attempt: int) -> None:
        tries[attempt] += 1
        failed.set()
        if attempt == 1:
            raise OSError("again and again")

    async def fails() -> None:
        await failed.wait()
        raise ValueError

    @app.task(retry=Retry(2, base=0))
    async def work(ctx: Context) -> None:
        flakes = ctx.step("flaky", flaky, ctx.attempt, retry=Retry(9, base="1h"))
        if ctx.attempt == 1:
            await asyncio.gather(flakes, ctx.step("fails", fails))
        await flakes

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        await job.aresult("20s")
    assert tries == {1: 1, 2: 1}


@pytest.mark.parametrize("beside", ["wait", "sleep", "error", "return"])
async def test_w1_w2_steps_in_threads_of_a_plain_handler_end_before_its_run(
    any_app: Windlass, slow: Slow, beside: str
) -> None:
    ended = threading.Event()
    pool = ThreadPoolExecutor()
    begun: list[Future[str]] = []

    @any_app.task(retry=Retry(2, base=0))
    def work(ctx: Context) -> str:
        if begun and beside in ("error", "return"):
            return ctx.blocking.step("slow", slow.in_thread)
        begun.append(pool.submit(ctx.blocking.step, "slow", slow.in_thread))
        assert slow.began.wait(10)
        ended.set()
        if beside == "wait":
            ctx.blocking.wait("go")
        elif beside == "sleep":
            ctx.blocking.sleep("1.5s")
        elif beside == "error":
            raise OSError("beside a step")
        else:
            return "returned"
        return begun[-1].result()

    await any_app.amigrate()
    job = await work.aenqueue()
    await job.asignal("other", 1)
    async with any_app.worker({"default": 1}):
        await asyncio.to_thread(ended.wait, 10)
        for _ in range(20):
            assert await job.astatus() == "running"
        slow.proceed()
        if beside == "wait":
            await job.asignal("go", 1)
        assert await job.aresult("20s") == ("returned" if beside == "return" else "done")
    assert slow.runs == 1
    pool.shutdown()


@pytest.mark.parametrize("why", [Why.TIMEOUT, Why.SHUTDOWN, Why.LOST, Why.CANCELLED])
async def test_w1_c7_a_run_that_is_told_to_stop_cancels_the_steps_it_has_left(
    wired: Windlass, line: Line, slow: Slow, why: Why
) -> None:
    """And ends when they have unwound; its error stays that of its handler."""
    tried = Tried(slow)

    @wired.task(retry=Retry(2, base="1h"))
    async def work(ctx: Context) -> None:
        await asyncio.gather(ctx.step("slow", slow.on_loop), ctx.step("tried", tried.once))

    job = await work.aenqueue()
    async with on_session(wired, line) as session:
        await tried.failed.wait()
        (run,) = session.running
        session.slots.stop(run, why)
        await session.slots.all_ended(10)
        assert not session.running
        assert slow.cancelled.is_set()
        assert slow.at_once == 0
        await session.log.flush()
        state = await job.astatus()
        match why:
            case Why.TIMEOUT:
                assert state == "retrying"
                assert "the first time" in (await job.arecord()).errors[0].message
            case Why.CANCELLED:
                assert state == "cancelled"
            case _:
                assert state in ("ready", "running")


@pytest.mark.parametrize("why", [Why.TIMEOUT, Why.SHUTDOWN, Why.LOST])
async def test_w1_a_thread_of_a_step_is_left_behind_when_its_time_is_up(
    wired: Windlass, line: Line, slow: Slow, why: Why
) -> None:
    """As that of a plain handler is; a cancel alone waits for it."""

    @wired.task(retry=Retry(2, base="1h"))
    async def work(ctx: Context) -> None:
        await ctx.step("slow", slow.in_thread)

    job = await work.aenqueue()
    async with on_session(wired, line) as session:
        await slow.begun()
        (run,) = session.running
        session.cancel({job.id})
        for _ in range(50):
            await asyncio.sleep(0)
        assert list(session.running) == [run]
        session.slots.stop(run, why)
        await session.slots.all_ended(10)
        assert not session.running
        await session.log.flush()
        assert await job.astatus() == ("running" if why is Why.LOST else "cancelled")
    assert slow.at_once == 1


async def test_c5_steps_left_by_a_handler_end_with_the_lease(any_app: Windlass, slow: Slow) -> None:
    """A step in a task of its own, of which its handler's cancel says nothing."""
    left: list[asyncio.Task[str]] = []

    @any_app.task
    async def work(ctx: Context) -> None:
        left.append(asyncio.create_task(ctx.step("slow", slow.on_loop)))
        await slow.begun()
        await asyncio.Event().wait()

    await any_app.amigrate()
    job = await work.aenqueue()
    async with any_app.worker({"default": 1}):
        await slow.begun()
        await job.acancel()
        await slow.cancelled.wait()
        with contextlib.suppress(asyncio.CancelledError):
            await left[0]
        with pytest.raises(JobFailed):
            await job.aresult("10s")
