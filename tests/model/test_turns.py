"""The ring walk of fair keys, as the oracle has it [C3]."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.model.oracle.turns import turns

KEYS = st.text("abcz\u00e9", min_size=0, max_size=2)
HELD = st.dictionaries(KEYS, st.integers(0, 8), max_size=6)
LAST = st.none() | KEYS
ROOMS = st.integers(-3, 40)


def test_one_of_each_in_turn() -> None:
    """[C3]"""
    assert turns({"a": 3, "b": 1, "c": 2}, None, 10) == ["a", "b", "c", "a", "c", "a"]


def test_it_goes_on_after_the_last_key_and_wraps() -> None:
    """[C3] The key itself may be gone, or new ones may stand beside it."""
    assert turns({"a": 1, "c": 1, "d": 1}, "c", 3) == ["d", "a", "c"]
    assert turns({"a": 1, "c": 1, "d": 1}, "b", 3) == ["c", "d", "a"]
    assert turns({"a": 1}, "z", 1) == ["a"]


@given(HELD, LAST, ROOMS)
def test_no_more_than_there_is_and_than_fits(held: dict[str, int], last: str | None, room: int) -> None:
    """[C3] And no less: the lane is filled while anybody has jobs."""
    served = turns(held, last, room)
    assert len(served) == max(0, min(room, sum(held.values())))
    assert all(count <= held[key] for key, count in Counter(served).items())


@given(HELD, LAST, ROOMS)
def test_nobody_is_two_turns_ahead(held: dict[str, int], last: str | None, room: int) -> None:
    """[C3] A key that still has jobs was served at most once less than any other."""
    served = Counter(turns(held, last, room))
    hungry = [served[key] for key, count in held.items() if count > served[key]]
    if hungry:
        assert max(served.values(), default=0) <= min(hungry) + 1


@given(HELD, LAST, st.integers(0, 20), st.integers(0, 20))
def test_two_steps_are_one_walk(held: dict[str, int], last: str | None, first: int, second: int) -> None:
    """[C3] Where a step ends makes no difference to whose turn it is: the position is all it takes."""
    begun = turns(held, last, first)
    left = Counter(held)
    left.subtract(begun)
    went_on = turns(left, begun[-1] if begun else last, second)
    assert begun + went_on == turns(held, last, first + second)


@given(HELD, LAST, ROOMS)
def test_it_changes_nothing_it_was_given(held: dict[str, int], last: str | None, room: int) -> None:
    before = dict(held)
    turns(held, last, room)
    assert held == before
