"""What a coordinator sees change is told once [M2]."""

from windlass.cluster.notices import Notices
from windlass.core.flow.breaker import BreakerState
from windlass.store.records import BudgetRecord, Rotation
from windlass.worker.reports.recorder import Recorder


def budget(state: BreakerState) -> list[BudgetRecord]:
    return [BudgetRecord(name="api", rate=1.0, burst=1, state=state, failures=5, paused_for=30.0)]


def texts(record: Recorder) -> list[str]:
    return [event.text for event in record.events.oldest(99, record.clock)]


def test_f7_a_breaker_that_opens_and_closes() -> None:
    notices = Notices(record := Recorder())
    for state in ("open", "open", "half-open", "closed", "closed", "open"):
        notices.breakers(budget(state))
    assert texts(record) == [
        "the breaker of budget api is half-open",
        "the breaker of budget api is closed",
        "the breaker of budget api is open after 5 failures in a row, for 30 s",
    ]


def test_f7_a_new_coordinator_takes_what_it_finds_for_granted() -> None:
    notices = Notices(record := Recorder())
    notices.breakers(budget("closed"))
    notices.forget()
    notices.breakers(budget("open"))
    assert texts(record) == []


def test_a_segment_that_is_blocked_is_told_of_once() -> None:
    notices = Notices(record := Recorder())
    for blocked in (None, "job 5 runs", "job 5 runs", None):
        notices.rotated(Rotation(blocked=blocked))
    assert texts(record) == ["job 5 runs", "a segment can be reclaimed again"]
