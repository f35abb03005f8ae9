"""How current a parent is, how fast it goes, how long it will take [P10]."""

from typing import Any

import pytest

from windlass.core.progress import STEADY, progress
from windlass.core.states import State
from windlass.store.records import ParentRecord

SPLIT_AT = 1000.0


def parent(**fields: Any) -> ParentRecord:
    """Ten parts of size 100, split at 1000."""
    known = {"id": 1, "task": "t", "queue": "q", "state": State.WAITING, "created_at": SPLIT_AT}
    return ParentRecord(**{**known, "total": 10, "size": 1000, **fields})


def test_one_look_tells_the_rate_since_it_was_split() -> None:
    current = progress([(SPLIT_AT + 20, parent(done=250, records=500, succeeded=2, out=4))])
    assert (current.fraction, current.percent, current.unit) == (0.25, 25, "size")
    assert (current.rate, current.records_rate, current.left) == (12.5, 25.0, 60.0)


def test_two_looks_tell_the_newer_rate() -> None:
    """[P10] What was before, a pause or a redrive, no longer counts."""
    before, after = parent(done=500, records=50), parent(done=600, records=70)
    current = progress([(SPLIT_AT + 86400, before), (SPLIT_AT + 86405, after)])
    assert (current.rate, current.records_rate, current.left) == (20.0, 4.0, 20.0)


def test_between_two_checkpoints_the_rate_does_not_fall_to_nothing() -> None:
    still = parent(done=500)
    current = progress([(SPLIT_AT + 99, still), (SPLIT_AT + 100, still)])
    assert (current.rate, current.left) == (5.0, 100.0)
    current = progress([(SPLIT_AT + 100 - STEADY, still), (SPLIT_AT + 100, still)])
    assert (current.rate, current.left) == (0.0, None)


def test_what_went_backwards_gives_no_negative_rate() -> None:
    current = progress([(SPLIT_AT + 90, parent(done=900)), (SPLIT_AT + 100, parent(done=500))])
    assert (current.rate, current.left) == (5.0, 100.0)


def test_without_sizes_parts_count() -> None:
    current = progress([(SPLIT_AT + 10, parent(size=0, succeeded=5, records=7))])
    assert (current.fraction, current.unit, current.rate, current.left) == (0.5, "parts", 0.5, 10.0)
    assert current.records_rate == 0.7


def test_nothing_done_yet_has_no_time_left() -> None:
    current = progress([(SPLIT_AT + 10, parent())])
    assert (current.fraction, current.percent, current.rate, current.left) == (0.0, 0, 0.0, None)


@pytest.mark.parametrize("now", [SPLIT_AT, SPLIT_AT - 5])
def test_just_split_or_by_a_clock_that_is_ahead(now: float) -> None:
    current = progress([(now, parent(done=10))])
    assert (current.rate, current.records_rate, current.left) == (None, None, None)


def test_no_parts_at_all() -> None:
    current = progress([(SPLIT_AT + 1, parent(total=0, size=0))])
    assert (current.fraction, current.percent, current.left) == (1.0, 100, None)


def test_a_hundred_percent_only_where_all_has_succeeded() -> None:
    """Everything is saved, and the last part has not returned yet."""
    current = progress([(SPLIT_AT + 1, parent(done=1000, succeeded=9, out=1))])
    assert (current.fraction, current.percent, current.left) == (1.0, 99, 0.0)
    assert progress([(SPLIT_AT + 1, parent(done=1000, succeeded=10))]).percent == 100
    assert progress([(SPLIT_AT + 1, parent(done=1200, succeeded=9))]).fraction == 1.0


def test_what_failed_parts_left_is_not_waited_for() -> None:
    half = {"done": 500, "succeeded": 5}
    assert progress([(SPLIT_AT + 50, parent(**half, out=5))]).left == 50.0
    assert progress([(SPLIT_AT + 50, parent(**half, dead=3, cancelled=1, out=1))]).left == 10.0
    assert progress([(SPLIT_AT + 50, parent(**half, dead=5))]).left is None


def test_one_that_is_being_cancelled_has_no_time_left() -> None:
    assert progress([(SPLIT_AT + 50, parent(done=500, out=5, cancel_requested=True))]).left is None


def test_once_it_has_ended_the_rate_is_that_of_all_its_time() -> None:
    """[P10] However much later one looks, and however often."""
    ended = parent(state=State.SUCCEEDED, succeeded=10, done=1000, records=50, finished_at=SPLIT_AT + 100)
    for looks in ([(SPLIT_AT + 9999, ended)], [(SPLIT_AT + 9990, ended), (SPLIT_AT + 9999, ended)]):
        current = progress(looks)
        assert (current.percent, current.rate, current.records_rate, current.left) == (100, 10.0, 0.5, None)
