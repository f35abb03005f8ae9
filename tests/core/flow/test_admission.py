"""Backpressure with its memory [F4], and load shedding [F5]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.flow.admission import Pressure, is_full, is_shed, pressure, shed_level
from windlass.core.states import Priority

LIMIT = 100


def course(*depths: int, limit: int = LIMIT) -> list[Pressure]:
    """The pressure after each of these depths."""
    found: list[Pressure] = []
    now: Pressure = "none"
    for depth in depths:
        now = pressure(depth, limit, now)
        found.append(now)
    return found


def test_f4_off_by_default() -> None:
    """[F4]"""
    assert pressure(10**9, None, "full") == "none"
    assert not is_full(10**9, None, "full", Priority.LOW)


def test_f4_it_rises_at_70_and_100_and_falls_at_60() -> None:
    """[F4]"""
    assert course(0, 69, 70, 99, 100, 120) == ["none", "none", "soft", "soft", "full", "full"]
    assert course(70, 61, 60, 69) == ["soft", "soft", "none", "none"]
    assert course(100, 99, 61, 60, 61) == ["full", "full", "full", "none", "none"]


@given(st.integers(1, 500), st.lists(st.floats(0, 1.5), max_size=30))
def test_f4_the_hysteresis(limit: int, fills: list[float]) -> None:
    """[F4] Never full unless it was full since it was last at 60 %, and so with soft."""
    peak, now = 0.0, "none"
    before: Pressure = "none"
    for depth in (int(fill * limit) for fill in fills):
        fill = depth / limit
        peak = fill if fill <= 0.6 else max(peak, fill)
        now = before = pressure(depth, limit, before)
        wanted = "full" if peak >= 1 else "soft" if peak >= 0.7 else "none"
        assert now == (wanted if fill > 0.6 or peak >= 1 else "none")


@pytest.mark.parametrize("priority", Priority)
def test_f4_full_refuses_and_urgent_only_at_120(priority: Priority) -> None:
    """[F4] Soft refuses nobody."""
    urgent = priority is Priority.URGENT
    assert not is_full(99, LIMIT, "soft", priority)
    assert is_full(100, LIMIT, "full", priority) is not urgent
    assert is_full(61, LIMIT, "full", priority) is not urgent
    assert is_full(119, LIMIT, "full", priority) is not urgent
    assert is_full(120, LIMIT, "full", priority)


def test_f5_off_by_default() -> None:
    """[F5]"""
    level = shed_level(10**9, 1e9, 1e9, (None, None, None))
    assert level == 0
    assert not any(is_shed(level, priority) for priority in Priority)


def test_f5_the_level_is_the_worst_of_three() -> None:
    """[F5]"""
    limits = (100, 60.0, 0.5)
    assert shed_level(50, 6.0, 0.1, limits) == 0.5
    assert shed_level(50, 54.0, 0.1, limits) == 0.9
    assert shed_level(50, 54.0, 1.0, limits) == 2.0
    assert shed_level(50, 54.0, 1.0, (100, None, None)) == 0.5


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        (0.0, Priority), (0.69, Priority),
        (0.7, (Priority.URGENT, Priority.HIGH, Priority.NORMAL)),
        (0.89, (Priority.URGENT, Priority.HIGH, Priority.NORMAL)),
        (0.9, (Priority.URGENT, Priority.HIGH)), (0.99, (Priority.URGENT, Priority.HIGH)),
        (1.0, (Priority.URGENT,)), (100.0, (Priority.URGENT,)),
    ],
)  # fmt: skip
def test_f5_who_is_kept_at_which_level(level: float, kept: tuple[Priority, ...]) -> None:
    """[F5]"""
    assert [priority for priority in Priority if not is_shed(level, priority)] == list(kept)


@given(st.floats(0, 2), st.floats(0, 2), st.sampled_from(Priority))
def test_f5_more_load_never_lets_more_in(a: float, b: float, priority: Priority) -> None:
    """[F5]"""
    low, high = sorted((a, b))
    assert is_shed(high, priority) >= is_shed(low, priority)
