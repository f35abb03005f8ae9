"""A signal cuts short what a task awaits, and nothing else."""

import asyncio

import pytest

from windlass.worker.engine.waiting import Signal


async def test_what_ends_by_itself_gives_its_result() -> None:
    """And the signal may come later."""
    signal = Signal()
    assert await signal.unless_set(asyncio.sleep(0, "done")) == "done"
    signal.set()
    assert signal.is_set()


async def test_the_signal_cuts_short_whoever_awaits_something() -> None:
    """Also where two do, and what they awaited is cancelled."""
    signal, ended = Signal(), 0

    async def endless() -> bool:
        nonlocal ended
        try:
            return await asyncio.Event().wait()
        finally:
            ended += 1

    waiting = [asyncio.create_task(signal.unless_set(endless())) for _ in range(2)]
    await asyncio.sleep(0)
    signal.set()
    assert await asyncio.gather(*waiting) == [None, None]
    assert ended == 2
    assert [task.cancelling() for task in waiting] == [0, 0]


async def test_a_signal_that_is_set_already_begins_nothing() -> None:
    """The worker looks at once."""
    signal, begun = Signal(), []

    async def begin() -> bool:
        begun.append(True)
        return True

    signal.set()
    assert await signal.unless_set(begin()) is None
    assert not begun


async def test_a_cancellation_and_a_timeout_of_others_pass_through() -> None:
    """They are not the signal's."""
    signal = Signal()
    waiting = asyncio.create_task(signal.unless_set(asyncio.sleep(3600)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    async def late() -> None:
        raise TimeoutError("theirs")

    with pytest.raises(TimeoutError, match="theirs"):
        await signal.unless_set(late())
