"""A child that does not move, told from one that does. Real ones are in chaos/workers/test_frozen.py."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.chaos.kit import until
from windlass.testing import Clock
from windlass.worker.engine.unresponsive import AWAY
from windlass.worker.processes.standstill import Standstills, switches

WAKES = "import time\nwhile True: time.sleep(0.01)"


class Child:
    """A child of which only its sign of life is known."""

    def __init__(self) -> None:
        self.sign: object = 0

    def sign_of_life(self) -> object:
        return self.sign


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


def test_time_counts_from_the_last_move(clock: Clock) -> None:
    standstills, still, moving = Standstills[Child](clock), Child(), Child()
    for moves in range(10):
        moving.sign = moves
        assert standstills.seconds([still, moving]) == {still: float(moves), moving: 0.0}
        clock.advance(1.0)
    still.sign = 1
    assert standstills.seconds([still]) == {still: 0.0}


def test_one_that_cannot_be_seen_moves(clock: Clock) -> None:
    standstills, unseen = Standstills[Child](clock), Child()
    unseen.sign = None
    for _ in range(10):
        assert standstills.seconds([unseen]) == {unseen: 0.0}
        clock.advance(1.0)


def test_counting_begins_anew_where_the_watcher_was_stopped_itself(clock: Clock) -> None:
    standstills, still = Standstills[Child](clock), Child()
    standstills.seconds([still])
    clock.advance(AWAY + 1)
    assert standstills.seconds([still]) == {still: 0.0}
    clock.advance(1.0)
    assert standstills.seconds([still]) == {still: 1.0}


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that wakes a hundred times a second."""
    process = subprocess.Popen([sys.executable, "-c", WAKES])
    yield process
    process.kill()
    process.wait()


async def test_the_threads_of_a_stopped_process_are_not_switched(sleeper: subprocess.Popen[bytes]) -> None:
    last: int | None = None

    async def moved() -> bool:
        nonlocal last
        before, last = last, switches(sleeper.pid)
        return None not in (before, last) and last != before

    async def stands() -> bool:
        return not await moved()

    await until(moved, 10.0)
    os.kill(sleeper.pid, signal.SIGSTOP)
    await until(stands, 10.0, pause=0.2)
    os.kill(sleeper.pid, signal.SIGCONT)
    await until(moved, 10.0)


def test_of_a_process_that_is_gone_nothing_is_known(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    sleeper.wait()
    assert switches(sleeper.pid) is None
