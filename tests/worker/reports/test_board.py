"""The table of running jobs that a supervisor can read from outside [C8]."""

import math
import os
import time

from windlass.worker.reports.board import WORD, Board


def test_what_runs_is_on_the_board_and_what_has_ended_is_not() -> None:
    board = Board.make(3)
    first, second = board.enter(11, 100.0), board.enter(12, 200.0)
    assert board.running() == {11: 100.0, 12: 200.0}
    board.leave(first)
    assert board.running() == {12: 200.0}
    board.leave(second)
    assert board.running() == {}
    board.close()


def test_another_process_sees_the_same() -> None:
    """[C8] Through the descriptor alone: the file has no name."""
    board = Board.make(2)
    other = Board(os.dup(board.fd))
    board.enter(2**62 + 1, 5.0)
    assert other.running() == {2**62 + 1: 5.0}
    other.close()
    assert board.running() == {2**62 + 1: 5.0}
    board.close()


def test_a_full_board_turns_nobody_away() -> None:
    """What finds no place runs unwatched, and its end disturbs no other."""
    board = Board.make(1)
    place, none = board.enter(1, 1.0), board.enter(2, 2.0)
    assert none == -1
    board.leave(none)
    assert board.running() == {1: 1.0}
    board.leave(place)
    assert board.enter(3, 3.0) == place
    board.close()


def test_places_are_used_again() -> None:
    board = Board.make(4)
    for job in range(1, 100):
        board.leave(board.enter(job, 1.0))
    places = [board.enter(job, 1.0) for job in range(1, 5)]
    assert -1 not in places
    assert len(set(places)) == 4
    board.close()


def test_a_large_board_takes_the_memory_of_what_was_filled() -> None:
    """There is room for each slot of each queue that a worker serves, and most have few."""
    board = Board.make(10**6)
    others = [board.enter(job, 1.0) for job in range(1, 100)]
    for place in others[:50]:
        board.leave(place)
    assert list(board.running()) == list(range(51, 100))
    assert os.fstat(board.fd).st_blocks * 512 < 2**16
    board.close()


def test_c6_what_should_have_ended_is_found() -> None:
    """[C6] With some grace: the worker itself comes first."""
    board = Board.make(3)
    now = time.monotonic()
    board.enter(1, now - 10)
    board.enter(2, now - 1)
    board.enter(3, now + 10)
    assert board.overdue(5.0) == [1]
    assert board.overdue(0.0) == [1, 2]
    board.close()


def test_an_entry_that_is_being_written_is_not_overdue() -> None:
    """[C8] The id is there and the deadline not yet: nobody must be killed for that."""
    board = Board.make(1)
    WORD.pack_into(board._memory, board.enter(7, 5.0) + WORD.size, 0.0)
    assert board.running() == {7: 0.0}
    assert board.overdue(0.0) == []
    board.close()


def test_fault_32_signs_of_life_stand_beside_the_jobs() -> None:
    """[fault 32] A loop that turns, an answer of the store, and that no answer is waited for."""
    board = Board.make(1)
    board.enter(7, 5.0)
    assert (board.ticked_at, board.answered_at) == (0.0, 0.0)
    before = time.monotonic()
    board.tick()
    board.answered()
    assert before <= board.ticked_at <= board.answered_at <= time.monotonic()
    board.answered(room=False)
    assert board.answered_at == math.inf
    assert board.running() == {7: 5.0}
    board.close()
