"""Priorities and ageing [C2]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.order import LaneHead, claim_order, effective
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
