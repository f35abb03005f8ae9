"""Reading the next batch while the checkpoint of the present one is on its way [P6]."""

import asyncio
from typing import Any

import pytest

from windlass.chunks.reading import TURNS, Meanwhile, Reading


class Numbers:
    """Slices of numbers, up to `end`; each number is a slice. `fails` is one that cannot be read."""

    def __init__(self, end: int, fails: int | None = None) -> None:
        self._end = end
        self._fails = fails
        self.read = 0

    def take(self, n: int) -> Any:
        if self.read == self._fails:
            raise OSError("the disk is gone")
        if self.read == self._end:
            return None
        self.read += 1
        return Number(self.read)

    def close(self) -> None:
        """Nothing to close."""


class Number:
    """A slice."""

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self.done = cursor

    def __len__(self) -> int:
        return 1


async def begun(numbers: Numbers) -> Reading:
    """The first slice is given out."""
    reading = Reading(lambda _: numbers, None, 0)
    coming = reading.want(1)
    assert coming is not None
    reading.arrived(await asyncio.wrap_future(coming))
    assert reading.take() is not None
    return reading


async def turns(n: int) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


async def test_p6_the_next_batch_is_read_while_the_loop_waits() -> None:
    """[P6] One, and it is the next that is given out."""
    reading = await begun(numbers := Numbers(5))
    with Meanwhile(reading):
        await turns(3 * TURNS)
    assert numbers.read == 2
    assert reading.want(1) is None
    found = reading.take()
    assert found is not None
    assert found.cursor == 2
    reading.close()


async def test_p6_nothing_is_read_where_the_answer_is_quick() -> None:
    """[P6] Others go on meanwhile, and what was read would be cold when they are done."""
    reading = await begun(numbers := Numbers(5))
    with Meanwhile(reading):
        await turns(TURNS - 1)
    await turns(3 * TURNS)
    assert numbers.read == 1
    reading.close()


async def test_p6_what_cannot_be_read_is_raised_when_it_is_asked_for() -> None:
    """[P6] The present batch is done and saved before."""
    reading = await begun(Numbers(5, fails=1))
    with Meanwhile(reading):
        await turns(3 * TURNS)
    with pytest.raises(OSError, match="the disk is gone"):
        reading.want(1)
    reading.close()


async def test_p6_the_end_is_found_ahead() -> None:
    """[P6]"""
    reading = await begun(Numbers(1))
    with Meanwhile(reading):
        await turns(3 * TURNS)
    assert reading.ended
    assert reading.want(1) is None
    assert reading.take() is None
    reading.close()


async def test_p7_a_batch_that_was_read_ahead_is_read_anew_in_another_size() -> None:
    """[P7]"""
    reading = await begun(numbers := Numbers(5))
    with Meanwhile(reading):
        await turns(3 * TURNS)
    numbers.read = 1  # where a reader that begins at the cursor would go on
    coming = reading.want(7)
    assert coming is not None
    reading.arrived(await asyncio.wrap_future(coming))
    found = reading.take()
    assert found is not None
    assert found.cursor == 2
    reading.close()
