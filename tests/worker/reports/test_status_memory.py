"""The table of running jobs that a supervisor can read from outside [C8]."""

import math
import os
import time

from windlass.worker.reports.status_memory import WORD, StatusMemory


def test_what_runs_is_in_the_memory_and_what_has_ended_is_not() -> None:
    memory = StatusMemory.make(3)
    first, second = memory.enter(11, 100.0), memory.enter(12, 200.0)
    assert memory.running() == {11: 100.0, 12: 200.0}
    memory.leave(first)
    assert memory.running() == {12: 200.0}
    memory.leave(second)
    assert memory.running() == {}
    memory.close()


def test_another_process_sees_the_same() -> None:
    """[C8] Through the descriptor alone: the file has no name."""
    memory = StatusMemory.make(2)
    other = StatusMemory(os.dup(memory.fd))
    memory.enter(2**62 + 1, 5.0)
    assert other.running() == {2**62 + 1: 5.0}
    other.close()
    assert memory.running() == {2**62 + 1: 5.0}
    memory.close()


def test_a_full_memory_turns_nobody_away() -> None:
    """A job that finds no place runs unwatched, and its end disturbs no other."""
    memory = StatusMemory.make(1)
    place, none = memory.enter(1, 1.0), memory.enter(2, 2.0)
    assert none == -1
    memory.leave(none)
    assert memory.running() == {1: 1.0}
    memory.leave(place)
    assert memory.enter(3, 3.0) == place
    memory.close()


def test_places_are_used_again() -> None:
    memory = StatusMemory.make(4)
    for job in range(1, 100):
        memory.leave(memory.enter(job, 1.0))
    places = [memory.enter(job, 1.0) for job in range(1, 5)]
    assert -1 not in places
    assert len(set(places)) == 4
    memory.close()


def test_a_large_memory_takes_the_memory_of_what_was_filled() -> None:
    """There is room for each slot of each queue that a worker serves, and most have few."""
    memory = StatusMemory.make(10**6)
    others = [memory.enter(job, 1.0) for job in range(1, 100)]
    for place in others[:50]:
        memory.leave(place)
    assert list(memory.running()) == list(range(51, 100))
    assert os.fstat(memory.fd).st_blocks * 512 < 2**16
    memory.close()


def test_c6_what_should_have_ended_is_found() -> None:
    """[C6] With some grace: the worker itself comes first."""
    memory = StatusMemory.make(3)
    now = time.monotonic()
    memory.enter(1, now - 10)
    memory.enter(2, now - 1)
    memory.enter(3, now + 10)
    assert memory.overdue(5.0) == [1]
    assert memory.overdue(0.0) == [1, 2]
    memory.close()


def test_an_entry_that_is_being_written_is_not_overdue() -> None:
    """[C8] The id is there and the deadline not yet: nobody must be killed for that."""
    memory = StatusMemory.make(1)
    WORD.pack_into(memory._memory, memory.enter(7, 5.0) + WORD.size, 0.0)
    assert memory.running() == {7: 0.0}
    assert memory.overdue(0.0) == []
    memory.close()


def test_fault_32_signs_of_life_stand_beside_the_jobs() -> None:
    """[fault 32] A loop that turns, an answer of the store, and that no answer is waited for."""
    memory = StatusMemory.make(1)
    memory.enter(7, 5.0)
    assert (memory.ticked_at, memory.answered_at) == (0.0, 0.0)
    before = time.monotonic()
    memory.tick()
    memory.answered()
    assert before <= memory.ticked_at <= memory.answered_at <= time.monotonic()
    memory.answered(room=False)
    assert memory.answered_at == math.inf
    assert memory.running() == {7: 5.0}
    memory.close()
