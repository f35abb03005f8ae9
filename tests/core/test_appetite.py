"""How far ahead a worker claims: a little where jobs are short, nothing where they are long."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.appetite import AHEAD, LONG, MOST_AHEAD, Appetite

times = st.floats(0, 3600, allow_nan=False)


def after(*seconds: float) -> Appetite:
    appetite = Appetite()
    for run in seconds:
        appetite.note(run)
    return appetite


def test_nothing_is_claimed_ahead_of_what_is_not_known() -> None:
    assert Appetite().ahead(16) == 0


def test_short_jobs_are_claimed_ahead() -> None:
    short = after(*[0.001] * 100)
    assert 0.9 < short.ahead(8) / (8 * AHEAD / 0.001) < 1.1
    assert short.ahead(0) == 0
    assert after(*[0.0] * 1000).ahead(16) == MOST_AHEAD


def test_one_long_job_is_enough_to_be_careful() -> None:
    """Better too careful than stuck: what waits behind a long job is kept from other workers."""
    appetite = after(*[0.0001] * 200)
    assert appetite.ahead(8) > 0
    appetite.note(LONG)
    assert appetite.ahead(8) == 0
    for _ in range(100):
        appetite.note(0.0001)
    assert appetite.ahead(8) > 0


@given(st.lists(times, max_size=50), st.integers(0, 64))
def test_the_answer_is_always_bounded(seconds: list[float], slots: int) -> None:
    appetite = after(*seconds)
    assert 0 <= appetite.ahead(slots) <= MOST_AHEAD
    if seconds and seconds[-1] >= LONG:
        assert appetite.ahead(slots) == 0
