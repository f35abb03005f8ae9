"""Priorities and ageing [C2], and the ring walk of fair keys [C3]."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.order import LaneHead, claim_order, effective, turns
from windlass.core.states import Priority

WAITS = st.floats(0, 1e6)
STEPS = st.floats(0.1, 1e5)
HEADS = st.lists(
    st.builds(LaneHead, st.integers(1, 99), st.just("q"), st.sampled_from(list(Priority)), WAITS),
    max_size=12,
)


def head(lane: int, priority: Priority, waited: float = 0.0) -> LaneHead:
    return LaneHead(lane, "q", priority, waited)


def test_the_higher_priority_first() -> None:
    """[C2]"""
    heads = [
        head(1, Priority.LOW),
        head(2, Priority.URGENT),
        head(3, Priority.NORMAL),
        head(4, Priority.HIGH),
    ]
    assert [lane.lane for lane in claim_order(heads)] == [2, 4, 3, 1]


@pytest.mark.parametrize(
    ("waited", "priority"), [(0, 3), (59.9, 3), (60, 2), (119, 2), (120, 1), (180, 0), (240, -1)]
)
def test_one_step_a_minute(waited: float, priority: int) -> None:
    """[C2] Without a floor: what has waited longest wins in the end against urgent work, too."""
    assert effective(Priority.LOW, waited, 60.0) == priority


def test_ageing_can_be_switched_off() -> None:
    """[C2]"""
    old, new = head(1, Priority.LOW, 1e6), head(2, Priority.URGENT)
    assert claim_order([old, new], step=0) == [new, old]
    assert claim_order([old, new], step=60) == [old, new]


def test_among_equals_the_longest_wait_then_the_lane() -> None:
    """[C2]"""
    heads = [head(3, Priority.LOW, 70), head(2, Priority.NORMAL, 5), head(1, Priority.NORMAL, 5)]
    assert [lane.lane for lane in claim_order(heads)] == [3, 1, 2]


@given(HEADS, STEPS)
def test_nobody_is_lost_and_the_order_is_one(heads: list[LaneHead], step: float) -> None:
    ordered = claim_order(heads, step)
    assert sorted(map(repr, ordered)) == sorted(map(repr, heads))
    ranks = [effective(lane.priority, lane.waited, step) for lane in ordered]
    assert ranks == sorted(ranks)


@given(HEADS, STEPS)
def test_low_is_never_starved(others: list[LaneHead], step: float) -> None:
    """[C2] Once it has waited four steps longer than everybody else, it is first."""
    longest = max((lane.waited for lane in others), default=0.0)
    low = head(100, Priority.LOW, longest + 4 * step + 1)
    assert claim_order([*others, low], step)[0] == low


@pytest.mark.parametrize(
    ("value", "priority"),
    [
        ("urgent", Priority.URGENT),
        ("LOW", Priority.LOW),
        (1, Priority.HIGH),
        (Priority.NORMAL, Priority.NORMAL),
    ],
)
def test_parse(value: str | int, priority: Priority) -> None:
    """[E2]"""
    assert Priority.parse(value) is priority


@pytest.mark.parametrize("value", ["highest", "", 4, -1])
def test_parse_refuses(value: str | int) -> None:
    """[E4]"""
    with pytest.raises(ValueError):
        Priority.parse(value)


# -- fair keys [C3] ---------------------------------------------------------------------------------

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
