"""Threads that are left behind, and threads that are not."""

import asyncio
import threading

import pytest

from windlass.worker.handlers.threads import Threads


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
