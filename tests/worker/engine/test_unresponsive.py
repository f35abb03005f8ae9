"""[fault 32] A child that is alive and takes nothing, told from one that has a reason. The real ones are in
tests/chaos/workers/test_unresponsive.py."""

import math
from collections.abc import Iterator

import pytest

from windlass.testing import Clock
from windlass.worker.engine.unresponsive import AWAY, UnresponsiveWatch
from windlass.worker.reports.status_memory import ANSWERED, TICKED, WORD, StatusMemory

LIMIT = 10.0


class Child:
    """A child of which only the status memory is known."""

    def __init__(self, clock: Clock) -> None:
        self.status_memory = StatusMemory.make(2)
        self._clock = clock

    def turn(self) -> None:
        WORD.pack_into(self.status_memory._memory, TICKED, self._clock())

    def answered(self, at: float | None = None) -> None:
        WORD.pack_into(self.status_memory._memory, ANSWERED, self._clock() if at is None else at)


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def child(clock: Clock) -> Iterator[Child]:
    child = Child(clock)
    yield child
    child.status_memory.close()


def found_unresponsive(
    clock: Clock,
    child: Child,
    seconds: float,
    *,
    turns: bool = True,
    answers: bool = False,
    excused: bool = False,
    watch: UnresponsiveWatch[Child] | None = None,
) -> bool:
    """Return whether it is unresponsive after so many seconds."""
    watch = watch or UnresponsiveWatch(LIMIT, clock)
    unresponsive: list[Child] = []
    until = clock() + seconds
    while clock() < until:
        if turns:
            child.turn()
        if answers:
            child.answered()
        unresponsive = watch.unresponsive({child: excused})
        clock.advance(0.5)
    return unresponsive == [child]


def test_silence_while_its_loop_turns(clock: Clock, child: Child) -> None:
    assert not found_unresponsive(clock, child, LIMIT)
    assert found_unresponsive(clock, child, LIMIT + 1)


def test_answers(clock: Clock, child: Child) -> None:
    watch = UnresponsiveWatch[Child](LIMIT, clock)
    assert not found_unresponsive(clock, child, 5 * LIMIT, answers=True, watch=watch)
    assert found_unresponsive(clock, child, LIMIT + 1, watch=watch)


def test_no_room(clock: Clock, child: Child) -> None:
    """Full, paused, drained of tokens or quarantined: it waits for nothing."""
    child.answered(math.inf)
    assert not found_unresponsive(clock, child, 5 * LIMIT)


def test_a_loop_that_stands_still_with_nothing_to_do(clock: Clock, child: Child) -> None:
    child.turn()
    child.answered(math.inf)
    assert found_unresponsive(clock, child, LIMIT + 1, turns=False)


def test_a_loop_that_a_handler_holds(clock: Clock, child: Child) -> None:
    """[C6] That is work: its deadline ends it, not we. When it has ended, the time is counted anew."""
    watch = UnresponsiveWatch[Child](LIMIT, clock)
    child.turn()
    place = child.status_memory.enter(7, clock() + 1000)
    assert not found_unresponsive(clock, child, 5 * LIMIT, turns=False, watch=watch)
    child.status_memory.leave(place)
    assert not found_unresponsive(clock, child, LIMIT, watch=watch)
    assert found_unresponsive(clock, child, 1.0, watch=watch)


def test_jobs_that_run_are_no_excuse_while_the_loop_turns(clock: Clock, child: Child) -> None:
    child.status_memory.enter(7, clock() + 1000)
    assert found_unresponsive(clock, child, LIMIT + 1)


def test_an_excuse_counts_until_it_is_over(clock: Clock, child: Child) -> None:
    """The store is out of reach, it was stopped by a signal, it starts or leaves."""
    watch = UnresponsiveWatch[Child](LIMIT, clock)
    assert not found_unresponsive(clock, child, 5 * LIMIT, excused=True, watch=watch)
    assert not found_unresponsive(clock, child, LIMIT, watch=watch)
    assert found_unresponsive(clock, child, 1.0, watch=watch)


def test_a_supervisor_that_was_away_itself(clock: Clock, child: Child) -> None:
    """Its machine slept, or it was stopped together with its children."""
    watch = UnresponsiveWatch[Child](LIMIT, clock)
    assert not found_unresponsive(clock, child, LIMIT, watch=watch)
    clock.advance(AWAY + 1)
    assert not found_unresponsive(clock, child, LIMIT, watch=watch)


def test_no_worker_is_unresponsive_where_that_is_switched_off(clock: Clock, child: Child) -> None:
    assert not found_unresponsive(clock, child, 50 * LIMIT, watch=UnresponsiveWatch(0.0, clock))
