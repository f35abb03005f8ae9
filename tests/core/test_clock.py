"""Times that were written down before the clock was set back [fault 31]."""

from windlass.core.clock import left
from windlass.core.order import effective


def test_what_seems_to_last_longer_than_it_may_is_over() -> None:
    """[fault 31]"""
    assert left(130.0, 30.0, 100.0) == 30.0
    assert left(130.0, 30.0, 99.5) == 30.5
    assert (left(130.0, 30.0, 90.0), left(130.0, 30.0, 130.0), left(0.0, 30.0, 100.0)) == (0.0, 0.0, 0.0)


def test_a_job_from_a_time_to_come_has_waited_for_nothing() -> None:
    """[fault 31] [C2] It was put behind those of lower priorities, for as long as the clock was set back."""
    assert effective(2, -3600.0, 60.0) == 2
