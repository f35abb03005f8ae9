"""The bookkeeping of the tests about flow: it sees what it is there to see."""

import pytest

from tests.chaos.workers.flow_books import Allowance, Span, most_at_once, spans
from tests.chaos.workers.jobs import Entry


def test_a_bucket_that_grants_what_it_may() -> None:
    """The burst at once, then one a tenth of a second."""
    grants = [0.0] * 10 + [0.1 * n for n in range(1, 30)]
    assert Allowance(10, 10).excess(grants, late=0.0) == pytest.approx(0.0)


def test_one_token_too_many_shows_in_any_window() -> None:
    """Also where the whole run looks fine, since it had paused before."""
    grants = [100.0 + 0.1 * n for n in range(11)] + [101.0] * 10
    assert Allowance(10, 10).excess([0.0, *grants], late=0.0) == pytest.approx(1.0)


def test_what_is_seen_late_is_forgiven_that_much() -> None:
    grants = [0.0] * 12
    assert Allowance(10, 10).excess(grants, late=0.0) == pytest.approx(2.0)
    assert Allowance(10, 10).excess(grants, late=0.2) == pytest.approx(0.0)


def test_a_change_counts_at_the_larger_rate_while_it_is_made() -> None:
    rising, falling = Allowance(10, 1), Allowance(100, 1)
    rising.changed(5.0, 6.0, 100)
    falling.changed(5.0, 6.0, 10)
    assert rising.grown(10.0, 0.0) == 5 * 10 + 5 * 100
    assert falling.grown(10.0, 0.0) == 6 * 100 + 4 * 10


def test_how_many_run_at_once() -> None:
    """One that ends as another begins is not beside it."""
    assert most_at_once([]) == 0
    assert most_at_once([Span(0, 2, 1), Span(2, 3, 2), Span(1, 4, 3)]) == 2


def test_a_run_that_was_cut_off_ended_with_its_process() -> None:
    start = Entry(what="start", job=1, fence=1, pid=7, at=1.0)
    assert spans([start], {7: 3.0}) == [Span(1.0, 3.0, 1)]
    with pytest.raises(AssertionError, match="has no end"):
        spans([start], {})
