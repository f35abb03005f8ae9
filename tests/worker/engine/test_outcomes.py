"""How handlers end [O1], back-off [O2], death and its log [O4], results [O8], and time limits."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from tests.apps import clocked
from windlass import Dead, Retry, Snooze, SourceGone, State, Throttled, Windlass
from windlass.errors import JobFailed
from windlass.worker.engine.run_until_idle import RunCounts


def test_o1_an_exception_is_a_failed_attempt_and_is_tried_again(any_app: Windlass) -> None:
    tries = []

    @any_app.task(retry=Retry(3, base=0))
    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError(f"try {len(tries)}")
        return "done"

    job = flaky.enqueue()
    assert any_app.run_until_idle() == RunCounts(succeeded=1, retried=2)
    assert job.result() == "done"


def test_o4_attempts_exhausted_is_death_with_every_error(any_app: Windlass) -> None:
    @any_app.task(retry=Retry(3, base=0))
    def broken(number: int) -> None:
        raise KeyError("nothing here") from ValueError("the reason\0why\ud800")

    job = broken.enqueue(5)
    assert any_app.run_until_idle() == RunCounts(dead=1, retried=2)
    record = job.record()
    assert (record.state, record.payload) == (State.DEAD, {"number": 5})
    assert [error.attempt for error in record.errors] == [1, 2, 3]
    assert {error.type for error in record.errors} == {"KeyError"}
    assert "the reason\\0why" in record.errors[0].traceback
    with pytest.raises(JobFailed, match="KeyError: 'nothing here'"):
        job.result(1)


def test_o1_o2_a_retry_with_its_own_delay_and_one_by_the_policy() -> None:
    with clocked() as (app, clock):
        tries = []

        @app.task(retry=Retry(4, base="10s", jitter=0))
        async def poll() -> None:
            tries.append(clock())
            match len(tries):
                case 1:
                    raise Retry(after="3s") from ConnectionError("cut")
                case 2:
                    raise Retry
                case 3:
                    raise OSError("once more")

        job = poll.enqueue()
        assert app.run_until_idle().retried == 1
        assert job.record().errors[0].type == "ConnectionError"
        for wait in (3, 20, 40):  # own delay, then base·2^(n−1) for the 2nd and 3rd failure
            clock.advance(wait - 1)
            assert app.run_until_idle() == RunCounts()
            assert job.status() == State.RETRYING
            clock.advance(1)
            app.run_until_idle()
        assert job.status() == State.SUCCEEDED
        assert len(tries) == 4


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (Retry(5, base="10s", factor=4, cap="2m", jitter=0), (10, 40, 120, 120)),
        (Retry(5, waits=["1m", "4m", "16m"], jitter=0), (60, 240, 960, 960)),
    ],
)
def test_o2_a_policy_says_how_its_waits_grow_or_each_of_them(policy: Retry, delays: tuple[int, ...]) -> None:
    with clocked() as (app, clock):

        @app.task(retry=policy)
        def fails() -> None:
            raise OSError("no")

        job = fails.enqueue()
        app.run_until_idle()
        for delay in delays:
            record = job.record()
            assert record.run_at is not None
            assert record.run_at.timestamp() == clock() + delay
            clock.advance(delay)
            app.run_until_idle()
        assert job.status() == State.DEAD


@pytest.mark.parametrize(
    ("signal", "delays"),
    [
        (Snooze("5m"), [300, 300, 300]),
        (Throttled(), [60, 120, 240, 480, 960, 1800, 1800]),
        (Throttled("90s"), [90, 120, 240]),
        (Throttled(1), [60, 120, 240]),
        (Throttled("2h"), [1800, 1800, 1800]),
    ],
)
def test_o1_snooze_and_throttled_charge_no_attempt(signal: Exception, delays: list[float]) -> None:
    """Each throttle in a row cools the queue for twice as long, within its bounds [O3]."""
    with clocked() as (app, clock):
        signals = [signal] * len(delays)

        @app.task(retry=Retry(2))
        def later() -> None:
            if signals:
                raise signals.pop()

        job = later.enqueue()
        for delay in delays:
            assert app.run_until_idle() == RunCounts(deferred=1)
            assert job.record().attempt == 1
            clock.advance(delay - 1)
            assert app.run_until_idle() == RunCounts()
            clock.advance(1)
        assert app.run_until_idle() == RunCounts(succeeded=1)


def test_o1_dead_ends_the_job_at_once_with_its_reason(any_app: Windlass) -> None:
    @any_app.task
    async def hopeless() -> None:
        raise Dead("no such customer")

    job = hopeless.enqueue()
    assert any_app.run_until_idle() == RunCounts(dead=1)
    assert job.record().errors[-1].message == "no such customer"


def test_o1_source_gone_ends_well(any_app: Windlass) -> None:
    @any_app.task
    async def read() -> str:
        raise SourceGone("the file was deleted")

    job = read.enqueue()
    assert any_app.run_until_idle() == RunCounts(succeeded=1)
    assert job.result() is None


@pytest.mark.parametrize(
    "error", [SystemExit(3), StopIteration(), asyncio.CancelledError(), ExceptionGroup("g", [OSError()])]
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_o1_whatever_is_raised_is_that_jobs_alone(app: Windlass, error: BaseException, kind: str) -> None:
    def plain() -> None:
        raise error

    async def on_loop() -> None:
        raise error

    task: Any = app.task(plain) if kind == "sync" else app.task(on_loop)
    job = task.using(max_attempts=1).enqueue()
    neighbour = app.enqueue("windlass.echo", 1)
    assert app.run_until_idle() == RunCounts(dead=1, succeeded=1)
    assert job.status() == State.DEAD
    assert neighbour.status() == State.SUCCEEDED


def test_o1_an_exception_that_cannot_be_printed_is_recorded_all_the_same(any_app: Windlass) -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @any_app.task(retry=Retry(1))
    def fails() -> None:
        raise Hostile

    job = fails.enqueue()
    assert any_app.run_until_idle().dead == 1
    assert "cannot be read" in job.record().errors[0].message


def test_o8_a_return_value_that_cannot_be_kept_is_death_not_repetition(app: Windlass) -> None:
    ran = []

    @app.task
    def returns_nonsense() -> Any:
        ran.append(1)
        return object()

    job = returns_nonsense.enqueue()
    assert app.run_until_idle() == RunCounts(dead=1)
    assert len(ran) == 1
    assert "return value cannot be kept" in job.record().errors[0].message


def test_o4_an_unknown_task_is_deferred_uncharged_until_a_worker_knows_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with clocked() as (app, clock):
        ids = app.named("new.task").enqueue_many([(1,), (2,)])
        assert app.run_until_idle() == RunCounts(deferred=2)
        assert caplog.text.count("has no task new.task") == 1
        clock.advance("9s")
        assert app.run_until_idle() == RunCounts()
        app.task(name="new.task")(lambda number: number)
        clock.advance("1s")
        assert app.run_until_idle() == RunCounts(succeeded=2)
        assert app.job(ids[1]).record().attempt == 1


def test_o4_every_failed_attempt_warns_and_every_death_is_an_error(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="mail.send", queue="mail", retry=Retry(2, base=0))
    def send() -> None:
        try:
            raise ConnectionError("refused\nby the server")
        except ConnectionError as error:
            raise RuntimeError("cannot send") from error

    job = send.enqueue()
    with caplog.at_level(logging.WARNING, "windlass.worker"):
        app.run_until_idle()
    chain = "RuntimeError: cannot send, caused by ConnectionError: refused by the server"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"mail.send on mail, job {job.id}, attempt 1 of 2 failed, next try in 0.0 s: {chain}"),
        ("ERROR", f"mail.send on mail, job {job.id}, attempt 2 of 2 is dead, no attempt is left: {chain}"),
    ]


def test_an_async_handler_that_hangs_is_ended_by_its_timeout(any_app: Windlass) -> None:
    unwound = []

    @any_app.task(timeout="20ms", retry=Retry(1))
    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            unwound.append(1)

    job = hangs.enqueue()
    assert any_app.run_until_idle().dead == 1
    error = job.record().errors[0]
    assert (error.type, error.message) == ("TimeoutError", "ran longer than its timeout of 0.02 s")
    assert "await asyncio.Event().wait()" in error.traceback
    assert unwound == [1]


def test_a_plain_handler_that_hangs_is_left_behind_and_its_slot_is_free(app: Windlass) -> None:
    release = threading.Event()

    @app.task(retry=Retry(1))
    def hangs() -> None:
        release.wait(60)

    job = hangs.using(timeout="20ms").enqueue()
    after = app.enqueue("windlass.echo", 1)
    try:
        assert app.run_until_idle(concurrency=1) == RunCounts(dead=1, succeeded=1)
    finally:
        release.set()
    assert "Its thread could not be stopped and stood at" in job.record().errors[0].traceback
    assert after.status() == State.SUCCEEDED


def test_a_handlers_own_timeout_error_is_its_own(app: Windlass) -> None:
    @app.task(timeout="1m", retry=Retry(1))
    async def impatient() -> None:
        raise TimeoutError("the mail server")

    job = impatient.enqueue()
    app.run_until_idle()
    assert job.record().errors[0].message == "the mail server"
