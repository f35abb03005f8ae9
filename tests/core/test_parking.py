"""How long automatic enqueues of a key are parked [O7]."""

import pytest

from windlass.core.parking import parked_until


@pytest.mark.parametrize(
    ("deaths", "minutes"), [(3, 30), (4, 60), (5, 120), (6, 240), (7, 360), (8, 360), (10**6, 360)]
)
def test_twice_as_long_each_time_up_to_six_hours(deaths: int, minutes: float) -> None:
    """[O7] From the last death on; the exponent is bounded."""
    assert parked_until(deaths, 1000.0) == 1000.0 + minutes * 60


@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_a_few_deaths_park_nothing(deaths: int) -> None:
    """[O7]"""
    assert parked_until(deaths, 1000.0) is None


def test_the_threshold_is_a_setting() -> None:
    """[O7]"""
    assert parked_until(1, 0.0, after=1) == 1800
    assert parked_until(4, 0.0, after=5) is None
    assert parked_until(6, 0.0, after=5) == 3600
