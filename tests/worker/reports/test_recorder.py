"""What a process counts [M1] and notes [M2] until it is told."""

import logging
import time
from collections import Counter

import pytest
from msgspec.structs import replace

from tests.worker.reports.outcomes import LAST, claimed, ended
from windlass.core.histogram import percentile
from windlass.core.rollup import COUNTS, Sample
from windlass.core.states import WORKERS_OWN, Kind
from windlass.endings import MAX_DELAY
from windlass.settings import Events
from windlass.store.records import Claim, Rescued
from windlass.worker.reports import eventbuffer, recorder
from windlass.worker.reports.recorder import Recorder


def recording(now: float = 1_700_000_030.0, *, events: Events = "notable", buffer: int = 100) -> Recorder:
    """A recorder that knows what time it is."""
    record = Recorder("w1", events=events, buffer=buffer)
    at = time.monotonic()
    record.clock.learn(now, at, at)
    return record


def counted(record: Recorder) -> dict[tuple[str, str], dict[str, int]]:
    return {(each.queue, each.task): each.counts for each in record.samples()}


def noted(record: Recorder) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in record.events.oldest(1000, record.clock)]


def test_m1_outcomes_are_counted_by_minute_queue_and_task() -> None:
    record = recording(1_700_000_050.0)
    batch = [
        ended(id=n, task="send" if n % 3 else "sync", queue="mail" if n % 2 else "bulk") for n in range(60)
    ]
    record.flushed(batch, time.monotonic())
    samples = record.samples()
    assert {each.at for each in samples} == {1_700_000_040}
    assert {(each.queue, each.task): each.counts["succeeded"] for each in samples} == Counter(
        (each.job.queue, each.job.task) for each in batch
    )
    assert record.done == 60
    assert record.samples() == []
    assert not len(record.events)


def test_m1_every_kind_is_counted_under_a_name_that_there_is() -> None:
    record = recording()
    record.flushed([ended(kind, id=n) for n, kind in enumerate(WORKERS_OWN)], time.monotonic())
    counts = counted(record)
    assert counts["mail", "send"] == {kind.value: 1 for kind in WORKERS_OWN if kind is not Kind.UNKNOWN}
    assert counts["mail", ""] == {"unknown": 1}  # names nobody here knows may be any number
    assert {name for each in counts.values() for name in each} <= COUNTS


def test_k9_what_never_ran_is_no_run() -> None:
    """[K9] A worker is renewed after so many jobs that it ran, not that it held."""
    record = recording()
    passed = [
        ended(kind, id=n, ms=None) for n, kind in enumerate((Kind.RELEASED, Kind.CANCELLED, Kind.UNKNOWN))
    ]
    own = ended(id=7, ms=None)  # in a transaction of its own
    record.flushed([*passed, own, ended(id=8), ended(Kind.RETRY, id=9), ended(Kind.RELEASED, id=10)], 0.0)
    assert record.done == 4


def test_m1_names_of_tasks_that_nobody_knows_are_not_kept() -> None:
    """They come from producers, and each would be rows for ever."""
    record = recording()
    kinds = (Kind.RELEASED, Kind.DEAD, Kind.CANCELLED, Kind.SUCCEEDED)
    batch = [ended(kind, id=n, task=f"typo{n}") for n, kind in enumerate(kinds)]
    record.flushed([*batch, ended(id=9), ended(id=10, task="typo")], 0.0, refused=(10,), tasks={"send"})
    assert counted(record) == {
        ("mail", ""): {"released": 1, "dead": 1, "cancelled": 1, "succeeded": 1, "refused": 1},
        ("mail", "send"): {"succeeded": 1},
    }


def test_m1_the_last_attempt_that_fails_is_a_death() -> None:
    record = recording()
    record.flushed([ended(Kind.RETRY), ended(Kind.RETRY, id=2, **LAST)], time.monotonic())
    assert counted(record)["mail", "send"] == {"retry": 1, "dead": 1}


def test_m1_run_times_and_waits() -> None:
    now = 1_700_000_030.0
    record = recording(now)
    record.flushed([ended(id=n, ms=5.0, ready_at=now - 0.2) for n in range(10)], time.monotonic())
    record.flushed([ended(id=n, ms=30_000.0, ready_at=now - 40) for n in range(10)], time.monotonic())
    (sample,) = record.samples()
    assert percentile(sample.runs, 0.5) == pytest.approx(5, rel=0.06)
    assert percentile(sample.waits, 0.5) == pytest.approx(200, rel=0.1)
    assert percentile(sample.runs, 0.99) == pytest.approx(30_000, rel=0.06)
    assert percentile(sample.waits, 0.99) == pytest.approx(10_000, rel=0.1)  # less the time it ran


def test_m1_what_was_never_started_has_no_times() -> None:
    record = recording()
    record.flushed([ended(Kind.RELEASED, ms=None, ready_at=5.0), ended(Kind.RELEASED, id=2, ms=4.0)], 0.0)
    (sample,) = record.samples()
    assert sample.counts == {"released": 2}
    assert sum(sample.runs.values()) == 1


def test_m1_before_the_store_says_what_time_it_is_no_wait_is_counted() -> None:
    record = Recorder()
    record.flushed([ended(ready_at=time.time())], time.monotonic())
    record.clock.learn(600.0, at := time.monotonic(), at)
    record.flushed([ended(ready_at=599.0)], time.monotonic())
    samples = record.samples()
    assert [(each.at, sum(each.waits.values())) for each in samples] == [(600, 0), (600, 1)]


def test_m1_claims_and_those_that_found_nothing() -> None:
    record = recording()
    record.claimed([Claim(1, 1, "mail", 2, [claimed(1), claimed(2)])], ["mail", "bulk"])
    fresh = [record.fresh]
    assert counted(record) == {("mail", ""): {"claims": 1, "claimed": 2}}
    record.claimed([], ["mail", "bulk"])
    assert [*fresh, record.fresh] == [True, False]  # nobody needs to know soon that nothing was found
    assert counted(record) == {("mail", ""): {"empty": 1}, ("bulk", ""): {"empty": 1}}
    record.claimed([], [f"q{n}" for n in range(recorder.MANY_QUEUES + 1)])
    assert counted(record) == {("", ""): {"empty": 1}}


def test_m1_samples_that_nobody_hears_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MAX_SAMPLES", 3)
    record = recording()
    for minute in range(10):
        record.clock.learn(60.0 * minute, at := time.monotonic(), at)
        record.count("lost")
    samples = record.samples()
    assert len(samples) == 3
    assert sum(each.counts["lost"] for each in samples) == 10


def test_c5_refused_outcomes_are_counted_as_such_alone() -> None:
    record = recording()
    record.flushed([ended(id=1), ended(Kind.RETRY, id=2)], time.monotonic(), refused=(2,))
    record.refused(claimed(3))
    (sample,) = record.samples()
    assert sample.counts == {"succeeded": 1, "refused": 2}
    assert sum(sample.runs.values()) == 1
    assert [kind for kind, _ in noted(record)] == ["refused", "refused"]


def test_m2_events_say_what_the_log_says() -> None:
    record = recording()
    batch = [
        ended(Kind.RETRY, attempt=2),
        ended(Kind.RETRY, **LAST),
        ended(Kind.SNOOZE),
        replace(ended(Kind.SNOOZE), signals=("yes", "no")),
        replace(ended(Kind.SNOOZE), signals=("yes",), delay=MAX_DELAY),
        replace(ended(Kind.SNOOZE), signals=()),
        ended(Kind.SUCCEEDED),
        ended(Kind.RELEASED),
    ]
    record.flushed(batch, time.monotonic())
    assert noted(record) == [
        ("retry", "attempt 2 of 5 failed, next try in 10 s: ValueError: it bounced\\x1b[2J back"),
        ("dead", "attempt 3 of 3 failed, no attempt is left: ValueError: it bounced\\x1b[2J back"),
        ("snooze", "attempt 1 of 5 is put off for 10 s"),
        ("snooze", "attempt 1 of 5 waits for signal yes, no, at most 10 s"),
        ("snooze", "attempt 1 of 5 waits for signal yes"),
        ("snooze", "attempt 1 of 5 sleeps for 10 s"),
    ]
    event = record.events.oldest(1, record.clock)[0]
    assert (event.job, event.queue, event.task, event.worker, event.attempt, event.ms) == (
        *(1, "mail", "send", "w1", 2, 5.0),
    )
    assert event.at == pytest.approx(1_700_000_030, abs=5)


def test_m2_what_a_worker_hands_back_when_it_leaves_is_one_event() -> None:
    record = recording()
    record.flushed([ended(Kind.RELEASED, id=n) for n in range(40)], 0.0, leaving=True)
    assert noted(record) == [("released", "40 jobs handed back, uncharged")]


@pytest.mark.parametrize(("wanted", "events"), [("notable", 1), ("all", 2), ("off", 0)])
def test_m2_which_events_are_kept(wanted: Events, events: int) -> None:
    record = recording(events=wanted)
    record.flushed([ended(), ended(Kind.CANCELLED, id=2)], time.monotonic())
    assert len(record.events) == events
    assert counted(record)["mail", "send"] == {"succeeded": 1, "cancelled": 1}


def test_m2_events_beyond_the_buffer_are_dropped_and_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = recording(buffer=3)
    with caplog.at_level(logging.WARNING):
        for n in range(10):
            record.flushed([ended(Kind.DEAD, id=n)], time.monotonic())
    assert [event.job for event in record.events.oldest(99, record.clock)] == [0, 1, 2]
    assert caplog.text.count("1 event is dropped") == 1  # at most one line a minute
    assert counted(record) == {("mail", "send"): {"dead": 10}, ("", ""): {"dropped": 7}}
    record.events.sent(3)
    monkeypatch.setattr(eventbuffer, "WARN_EVERY", 0.0)
    record.note("leads", "again")
    assert len(record.events) == 1
    assert ("", "") not in counted(record)


def test_c8_rescues_are_counted() -> None:
    record = recording()
    record.lost("w2", "process 7 on here sent no heartbeat for 30 s")
    record.rescued("w2", Rescued(offered=2, dead=1))
    assert record.samples() == [
        Sample(at=1_700_000_000 // 60 * 60, counts={"lost": 1, "rescued": 3, "dead": 1})
    ]
    assert [kind for kind, _ in noted(record)] == ["lost", "rescued"]
