"""Threads that are left behind, and threads that are not."""

import asyncio
import contextvars
import threading
from collections.abc import Callable

import pytest

from tests.stopwatch import within
from windlass.worker.handlers.threads import Call, Threads


class Noted(Call, kw_only=True):
    """A call of a function."""

    function: Callable[[], object]

    def work(self) -> object:
        return self.function()


def noted(function: Callable[[], object]) -> tuple[Noted, asyncio.Event]:
    """A call, and the event of its answer."""
    answered = asyncio.Event()
    return Noted(lambda _: answered.set(), contextvars.copy_context(), function=function), answered


async def test_a_thread_in_the_middle_of_its_function_is_left_behind() -> None:
    """The note says where it stood, and it takes no further call."""
    threads, started, proceed = Threads(), threading.Event(), threading.Event()

    def stuck() -> threading.Thread:
        started.set()
        proceed.wait(30)
        return threading.current_thread()

    call = asyncio.create_task(threads.run(stuck))
    await asyncio.to_thread(started.wait, 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await call
    assert "proceed.wait(30)" in cancelled.value.__notes__[0]
    proceed.set()
    assert await threads.run(int, "5") == 5
    threads.close()


async def test_a_thread_whose_answer_is_there_is_not_left_behind() -> None:
    """The answer was given, the caller not yet awake: its thread may have another job by now."""

    class Late(Threads):
        """Its first caller is cancelled in the very turn of the loop that brings the answer."""

        def _deliver(self) -> None:
            super()._deliver()
            first.cancel()

    threads, started, proceed = Late(), threading.Event(), threading.Event()

    def next_one() -> str:
        started.set()
        proceed.wait(30)
        return "done"

    first = asyncio.create_task(threads.run(threading.current_thread))
    second = asyncio.create_task(threads.run(next_one))
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await first
    assert not hasattr(cancelled.value, "__notes__")
    assert await asyncio.to_thread(started.wait, 10)
    proceed.set()
    assert await second == "done"
    threads.close()


async def test_an_answer_does_not_wait_for_the_next_call() -> None:
    """The last in line notifies the loop; where that one takes long, the loop looks by itself."""
    threads, proceed = Threads(), threading.Event()
    quick, has_answer = noted(lambda: 5)
    slow, is_through = noted(lambda: proceed.wait(30))
    threads.start(quick)
    threads.start(slow)
    async with within(10):
        await has_answer.wait()
    assert (quick.result(), slow.ended, is_through.is_set()) == (5, False, False)
    proceed.set()
    async with within(10):
        await is_through.wait()
    threads.close()


async def test_a_call_that_ended_cannot_be_given_up_and_one_in_line_can() -> None:
    threads, started, proceed = Threads(), threading.Event(), threading.Event()

    def first() -> None:
        started.set()
        proceed.wait(30)

    running, is_through = noted(first)
    threads.start(running)
    assert await asyncio.to_thread(started.wait, 10)
    waiting, never = noted(lambda: pytest.fail("it was given up"))
    told = asyncio.CancelledError()
    assert waiting.give_up(told)  # it is not in line yet
    threads.start(waiting)
    assert not hasattr(told, "__notes__")
    proceed.set()
    async with within(10):
        await is_through.wait()
    assert not running.give_up(told)
    assert not hasattr(told, "__notes__")
    assert await threads.run(int, "5") == 5
    assert waiting.ended
    assert (waiting.value, waiting.error, never.is_set()) == (None, None, False)
    threads.close()


async def test_an_error_on_delivery_keeps_no_answer_back() -> None:
    """Whoever is called with an answer may raise; the others hear of theirs."""
    threads, gate = Threads(), threading.Event()
    seen: asyncio.Queue[Exception] = asyncio.Queue()

    def fail(_: object) -> None:
        raise RuntimeError("of the one who was called")

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, about: seen.put_nowait(about["exception"]))
    try:
        threads.start(Noted(fail, contextvars.copy_context(), function=lambda: gate.wait(30)))
        other, answered = noted(lambda: 5)
        threads.start(other)
        gate.set()
        async with within(10):
            await answered.wait()
            error = await seen.get()
    finally:
        loop.set_exception_handler(None)
        threads.close()
    assert str(error) == "of the one who was called"


async def test_a_thread_that_cannot_be_started_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has no room for another one for a moment: the call waits, and is run then."""
    start, failures = threading.Thread.start, [RuntimeError("can't start new thread")]

    def sometimes(thread: threading.Thread) -> None:
        if failures:
            raise failures.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", sometimes)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # it is logged
    threads, (call, answered) = Threads(), noted(lambda: 42)
    threads.start(call)
    async with within(10):
        await answered.wait()
    assert call.value == 42
    assert not failures
