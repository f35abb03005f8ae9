"""How long a queue cools [O3]."""

import math

import pytest

from windlass.core.cooldown import cool_delay


@pytest.mark.parametrize(("throttles", "delay"), [(0, 60), (1, 120), (4, 960), (5, 1800), (10**6, 1800)])
def test_twice_as_long_each_time_up_to_the_cap(throttles: int, delay: float) -> None:
    """[O3] The exponent is bounded."""
    assert cool_delay(throttles, base=60, cap=1800, backoff=True) == delay


@pytest.mark.parametrize("throttles", [0, 1, 50])
def test_flat_without_back_off(throttles: int) -> None:
    """[O3] And within the cap all the same."""
    assert cool_delay(throttles, base=60, cap=1800, backoff=False) == 60
    assert cool_delay(throttles, base=60, cap=20, backoff=False) == 20


@pytest.mark.parametrize(
    ("hint", "delay"),
    [(None, 60), (0, 60), (-5, 60), (59, 60), (61, 61), (1e12, 1800), (math.inf, 1800), (math.nan, 60)],
)
def test_a_hint_is_a_floor(hint: float | None, delay: float) -> None:
    """[O3] Bounded by the cap; what is no number of seconds is no hint."""
    assert cool_delay(0, base=60, cap=1800, backoff=True, hint=hint) == delay
