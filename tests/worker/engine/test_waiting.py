"""A change event cuts short what a task awaits, and nothing else."""

import asyncio

import pytest

from windlass.worker.engine import waiting
from windlass.worker.engine.waiting import ChangeEvent, answered


async def test_what_ends_by_itself_gives_its_result() -> None:
    """And the event may come later."""
    changed = ChangeEvent()
    assert await changed.unless_set(asyncio.sleep(0, "done")) == "done"
    changed.set()
    assert changed.is_set()


async def test_the_signal_cuts_short_whoever_awaits_something() -> None:
    """Also where two do, and what they awaited is cancelled."""
    changed, ended = ChangeEvent(), 0

    async def endless() -> bool:
        nonlocal ended
        try:
            return await asyncio.Event().wait()
        finally:
            ended += 1

    waiting = [asyncio.create_task(changed.unless_set(endless())) for _ in range(2)]
    await asyncio.sleep(0)
    changed.set()
    assert await asyncio.gather(*waiting) == [None, None]
    assert ended == 2
    assert [task.cancelling() for task in waiting] == [0, 0]


async def test_a_signal_that_is_set_already_begins_nothing() -> None:
    """The worker looks at once."""
    changed, begun = ChangeEvent(), []

    async def begin() -> bool:
        begun.append(True)
        return True

    changed.set()
    assert await changed.unless_set(begin()) is None
    assert not begun


async def test_a_cancellation_and_a_timeout_of_others_pass_through() -> None:
    """They are not the event's."""
    changed = ChangeEvent()
    waiting = asyncio.create_task(changed.unless_set(asyncio.sleep(3600)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    async def late() -> None:
        raise TimeoutError("theirs")

    with pytest.raises(TimeoutError, match="theirs"):
        await changed.unless_set(late())


async def test_who_leaves_waits_for_the_answer_to_a_call() -> None:
    """A statement that is broken off is an error in the server's log."""
    sent, answer = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def call() -> None:
        sent.set()
        await answer.wait()
        done.append("answered")

    asking = asyncio.create_task(answered(call()))
    await sent.wait()
    asking.cancel()
    await asyncio.sleep(0)
    assert not asking.done()
    answer.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert done == ["answered"]


@pytest.mark.parametrize("again", [False, True])
async def test_who_leaves_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch, *, again: bool) -> None:
    """Nothing is left behind: after its time, or told again, the call is broken off."""
    monkeypatch.setattr(waiting, "ANSWER_TIME", 3600 if again else 0.01)
    sent = asyncio.Event()
    ends: list[str] = []

    async def call() -> None:
        sent.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("broken off")

    asking = asyncio.create_task(answered(call()))
    await sent.wait()
    asking.cancel()
    if again:
        await asyncio.sleep(0)
        asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert ends == ["broken off"]


async def test_what_a_call_raises_is_raised() -> None:
    async def call() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        await answered(call())
