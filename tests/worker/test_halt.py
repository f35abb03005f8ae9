"""What a signal means to a supervisor, and how long it may take to leave."""

import asyncio

import pytest

from windlass.testing import Clock
from windlass.worker.halt import SAME_WORD, Halt, Word
from windlass.worker.life import HEALTHY, Life


def test_the_first_signal_drains_and_the_second_releases() -> None:
    clock = Clock(1000.0)
    halt = Halt(30.0, 5.0, clock)
    assert halt.hear() == Word.DRAIN
    assert (halt.draining.is_set(), halt.hurrying.is_set()) == (True, False)
    clock.advance(SAME_WORD)
    assert halt.hear() == Word.RELEASE
    assert halt.hurrying.is_set()


def test_two_signals_at_once_are_one_word() -> None:
    """An init system may signal the process and its group."""
    clock = Clock(1000.0)
    halt = Halt(30.0, 5.0, clock)
    assert halt.hear() == Word.DRAIN
    clock.advance(SAME_WORD / 2)
    assert halt.hear() == Word.AGAIN
    assert not halt.hurrying.is_set()


def test_an_end_of_its_own_is_no_word_from_outside() -> None:
    halt = Halt(30.0, 5.0)
    halt.drain()
    assert halt.hear() == Word.DRAIN
    assert not halt.hurrying.is_set()


async def test_time_runs_out_a_grace_after_the_jobs_had_theirs() -> None:
    halt = Halt(60.0, 0.0)
    waiting = asyncio.create_task(halt.out_of_time())
    halt.drain()
    await asyncio.sleep(0)
    assert not waiting.done()
    halt.hurrying.set()
    await asyncio.wait_for(waiting, 5.0)
    late = Halt(0.0, 0.0)
    late.drain()
    await asyncio.wait_for(late.out_of_time(), 5.0)


@pytest.mark.parametrize(("age", "bloated"), [(HEALTHY - 1, True), (HEALTHY, False)])
def test_a_child_that_is_too_big_at_once_is_told_from_one_that_grew(age: float, bloated: bool) -> None:
    clock = Clock(1000.0)
    life = Life(clock=clock)
    clock.advance(age)
    assert not life.bloated
    life.recycle(60 * 2**20)
    assert life.follow.is_set()
    assert life.bloated is bloated


def test_the_advice_names_a_figure_that_is_enough() -> None:
    life = Life(clock=Clock(1000.0))
    life.recycle(60 * 2**20)
    assert life.advice(20 * 2**20).endswith(
        "--max-memory is 20 MiB; where the app needs as much by itself, set it to 128MiB"
    )
