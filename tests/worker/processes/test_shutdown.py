"""What a signal means to a supervisor, and how long it may take to leave."""

import asyncio

import pytest

from tests.stopwatch import within
from windlass.testing import Clock
from windlass.worker.processes.child_run import HEALTHY, ChildRun
from windlass.worker.processes.shutdown import SAME_SIGNAL, Shutdown, Stop


def test_the_first_signal_begins_it_and_the_second_stops_now() -> None:
    clock = Clock(1000.0)
    shutdown = Shutdown(30.0, 5.0, clock)
    assert shutdown.signalled() == Stop.FINISH
    assert (shutdown.begun.is_set(), shutdown.stopping_now.is_set()) == (True, False)
    clock.advance(SAME_SIGNAL)
    assert shutdown.signalled() == Stop.NOW
    assert shutdown.stopping_now.is_set()


def test_two_signals_at_once_are_one_word() -> None:
    """An init system may signal the process and its group."""
    clock = Clock(1000.0)
    shutdown = Shutdown(30.0, 5.0, clock)
    assert shutdown.signalled() == Stop.FINISH
    clock.advance(SAME_SIGNAL / 2)
    assert shutdown.signalled() == Stop.REPEATED
    assert not shutdown.stopping_now.is_set()


def test_an_end_of_its_own_is_no_word_from_outside() -> None:
    shutdown = Shutdown(30.0, 5.0)
    shutdown.begin()
    assert shutdown.signalled() == Stop.FINISH
    assert not shutdown.stopping_now.is_set()


async def test_time_runs_out_a_grace_after_the_jobs_had_theirs() -> None:
    shutdown = Shutdown(60.0, 0.0)
    waiting = asyncio.create_task(shutdown.out_of_time())
    shutdown.begin()
    await asyncio.sleep(0)
    assert not waiting.done()
    shutdown.stopping_now.set()
    async with within(5.0):
        await waiting
    late = Shutdown(0.0, 0.0)
    late.begin()
    async with within(5.0):
        await late.out_of_time()


@pytest.mark.parametrize(("age", "bloated"), [(HEALTHY - 1, True), (HEALTHY, False)])
def test_a_child_that_is_too_big_at_once_is_told_from_one_that_grew(age: float, bloated: bool) -> None:
    clock = Clock(1000.0)
    run = ChildRun(1, clock=clock)
    clock.advance(age)
    assert not run.bloated
    run.recycle(60 * 2**20)
    assert run.follow.is_set()
    assert run.bloated is bloated


def test_the_advice_names_a_figure_that_is_enough() -> None:
    run = ChildRun(1, clock=Clock(1000.0))
    run.recycle(60 * 2**20)
    assert run.advice(20 * 2**20).endswith(
        "--max-memory is 20 MiB; if the app needs that much by itself, set it to 128MiB"
    )
