"""What is shown, from what was stored: points of charts, timelines, strips. Values in, values out."""

import pytest

from windlass.core.histogram import bucket
from windlass.core.rollup import HOUR, MINUTE, Gauges, Reading, Sample, rate
from windlass.core.states import State
from windlass.operations.events import timeline
from windlass.operations.gauges import COARSE, shown
from windlass.operations.measures import Range, point, points, range_of
from windlass.operations.parents import CELLS, strip
from windlass.store.records import EventRecord, Failure, JobRecord, Options

NOW = 1_700_000_030.0


@pytest.mark.parametrize(
    ("last", "span", "least", "most"),
    [(0, MINUTE, 1, 2), (3600, MINUTE, 60, 61), (6 * 3600, MINUTE, 360, 361), (86400, HOUR, 24, 25),
     (10**9, HOUR, 720, 721)],
)  # fmt: skip
def test_a_chart_has_a_bounded_number_of_points(last: float, span: int, least: int, most: int) -> None:
    wanted = range_of(last, NOW)
    assert wanted.span == span
    drawn = points([], wanted)
    assert least <= len(drawn) <= most
    assert all(each.per_second == 0 and each.run_p95 is None for each in drawn)


def test_a_point_tells_rates_and_percentiles() -> None:
    counts = {"succeeded": 120, "retry": 3, "dead": 3, "looks": 4, "ready": 40, "waited": 8000}
    sample = Sample(at=0, queue="q", counts=counts, runs={bucket(1.0): 90, bucket(100.0): 10})
    shown = point(sample, 60.0)
    assert (shown.per_second, shown.failed_per_second) == (2.0, 0.1)
    assert (shown.ready, shown.oldest) == (10.0, 2.0)
    assert shown.run_p50 == pytest.approx(1, rel=0.1)
    assert shown.run_p95 == pytest.approx(100, rel=0.1)


def test_the_present_minute_counts_as_far_as_it_has_come() -> None:
    minute = int(NOW) - int(NOW) % 60
    passed = NOW - minute
    rows = [Sample(at=minute - 60, counts={"succeeded": 60}), Sample(at=minute, counts={"succeeded": 30})]
    assert rate(rows, NOW) == pytest.approx(90 / (60 + passed), abs=0.01)


def gauges(at: int, total: int, n: int, most: int) -> Gauges:
    return Gauges(at=at, of="worker", values={"cpu": Reading(total, n, most)})


def test_several_workers_are_shown_together_and_one_by_its_average() -> None:
    """[M3] Three workers in one minute, one in the next, and nobody in the third."""
    begin = 1_700_000_000 // COARSE * COARSE
    rows = [gauges(begin, 900, 3, 600), gauges(begin + 60, 500, 1, 800)]
    first, then, none = shown(rows, Range(MINUTE, begin, begin + 179.0), MINUTE)
    assert (first.workers(), first.together("cpu"), first.mean("cpu"), first.most("cpu")) == (
        3,
        0.9,
        0.3,
        0.6,
    )
    assert (then.workers(), then.together("cpu")) == (1, 0.5)
    assert (none.workers(), none.together("cpu"), none.most("cpu"), none.mean("lag")) == (None,) * 4
    (whole,) = shown(rows, Range(MINUTE, begin, begin + 179.0), COARSE)
    assert (whole.workers(), whole.together("cpu"), whole.mean("cpu")) == (2, 0.7, 0.35)


def test_an_hour_is_shown_by_its_minutes() -> None:
    """[M3] All sixty, or those that have surely been reported."""
    begin = 1_700_000_000 // HOUR * HOUR
    hour = [gauges(begin, 60 * 500, 60, 900)]
    (whole, _) = shown(hour, Range(HOUR, begin, begin + 5000.0), HOUR)
    assert (whole.workers(), whole.together("cpu")) == (1, 0.5)
    (part,) = shown([gauges(begin, 10 * 500, 10, 900)], Range(HOUR, begin, begin + 675.0), HOUR)
    assert (part.workers(), part.together("cpu")) == (1, 0.5)


def job(**fields: object) -> JobRecord:
    plain = {
        "id": 1, "task": "t", "queue": "q", "priority": 2, "state": State.READY, "payload": "{}",
        "attempt": 1, "deaths": 0, "options": Options(), "enqueued_at": 100.0,
    }  # fmt: skip
    return JobRecord(**{**plain, **fields})  # type: ignore[arg-type]


def test_a_plain_success_is_told_by_its_record() -> None:
    done = job(state=State.SUCCEEDED, claimed_at=101.0, finished_at=101.5)
    shown = timeline(done, [], "w-1")
    assert [(each.kind, each.worker) for each in shown] == [
        ("enqueued", ""),
        ("claimed", "w-1"),
        ("succeeded", ""),
    ]
    assert shown[-1].ms == 500.0
    assert all(each.id is None for each in shown)


def test_a_job_that_waits_half_way_was_not_enqueued_to_run_later() -> None:
    """Its record's `run_at` is when its wait is over; of a job that nobody has run, when it is due."""
    waits = job(state=State.SCHEDULED, run_at=700.0)
    put_off = EventRecord(id=9, at=102.0, kind="snooze", text="waits for signal yes", job=1, attempt=1)
    assert timeline(waits, [], None)[0].text == "to run after 10 min"
    assert [each.text for each in timeline(waits, [put_off], None)] == ["", "waits for signal yes"]


def test_a_failure_is_told_once_and_by_who_knows_more() -> None:
    errors = (Failure("ValueError", "one", "", 1, 102.0), Failure("ValueError", "two", "", 2, 104.0))
    event = EventRecord(
        id=9, at=102.0, kind="retry", text="ValueError: one", job=1, worker="w", attempt=1, ms=7.0
    )
    shown = timeline(job(state=State.RETRYING, attempt=3, errors=errors), [event], None)
    assert [(each.kind, each.attempt, each.ms) for each in shown] == [
        ("enqueued", 0, None), ("retry", 1, 7.0), ("failed", 2, None),
    ]  # fmt: skip


def test_a_strip_shows_each_part_or_the_worst_of_several() -> None:
    assert strip([State.SUCCEEDED, State.RUNNING, State.SCHEDULED, State.WAITING]) == ("srqw", 1)
    many = [State.SUCCEEDED] * 1_000_000
    many[777_777] = State.DEAD
    drawn, each = strip(many)
    assert (len(drawn), each) == (CELLS, 500)
    assert drawn.count("d") == 1
    assert drawn[777_777 // 500] == "d"
    assert strip([]) == ("", 1)
