"""Running until idle: how handlers end [O1], back-off [O2], death [O4], timeouts, cancels, poison rows [fault 17]."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.app.counting import count_jobs
from windlass import Dead, Retry, Snooze, SourceGone, State, Throttled, Windlass
from windlass.core.retry import DeathPolicy
from windlass.errors import ConfigurationError, JobFailed, WorkerLost
from windlass.store.memory import MemoryStore
from windlass.store.records import ClaimedJob, NewJob, Outcome, WorkerInfo
from windlass.testing import Clock
from windlass.worker.drain import Drained, drain


@contextmanager
def clocked() -> Iterator[tuple[Windlass, Clock]]:
    """An app in memory whose time stands still."""
    clock = Clock()
    with Windlass(store=MemoryStore(clock=clock)) as app:
        yield app, clock


def test_sync_and_async_tasks_run_side_by_side(any_app: Windlass) -> None:
    threads = set()

    @any_app.task
    def plain(number: int) -> int:
        threads.add(threading.current_thread())
        return number

    @any_app.task
    async def on_loop(number: int) -> int:
        threads.add(threading.current_thread())
        await asyncio.sleep(0)
        return number

    plain.enqueue_many([(number,) for number in range(40)])
    on_loop.enqueue_many([(number,) for number in range(40)])
    assert any_app.run_until_idle(concurrency=8) == Drained(succeeded=80)
    assert any_app.run_until_idle() == Drained()
    assert threading.current_thread() in threads
    assert len(threads) > 1


def test_concurrency_is_bounded_and_used(app: Windlass) -> None:
    running, most = 0, 0
    together = asyncio.Event()

    @app.task
    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            together.set()
        await together.wait()  # nobody leaves before three are here
        await asyncio.sleep(0)
        running -= 1

    count.enqueue_many([()] * 12)
    assert app.run_until_idle(concurrency=3).succeeded == 12
    assert most == 3
    with pytest.raises(ConfigurationError, match="at least 1"):
        app.run_until_idle(concurrency=0)


def test_only_the_queues_asked_for_are_served(app: Windlass) -> None:
    mail, other = app.named("windlass.echo").using(queue="mail").enqueue(), app.enqueue("windlass.echo")
    assert app.run_until_idle(queues=["mail", "nowhere"]).succeeded == 1
    assert (mail.status(), other.status()) == (State.SUCCEEDED, State.READY)


def test_jobs_made_by_jobs_run_too(any_app: Windlass) -> None:
    @any_app.task
    def leaf(number: int) -> None: ...

    @any_app.task
    async def branch(number: int) -> None:
        await leaf.aenqueue(number)
        leaf.enqueue(number)  # blocks this loop for a moment, and must not block for ever

    @any_app.task
    def root() -> None:
        branch.enqueue_many([(1,), (2,)])

    root.enqueue()
    assert any_app.run_until_idle().succeeded == 1 + 2 + 4


# -- outcomes [O1] ----------------------------------------------------------------------------------------


def test_o1_an_exception_is_a_failed_attempt_and_is_tried_again(any_app: Windlass) -> None:
    tries = []

    @any_app.task(retry=Retry(3, base=0))
    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError(f"try {len(tries)}")
        return "done"

    job = flaky.enqueue()
    assert any_app.run_until_idle() == Drained(succeeded=1, retried=2)
    assert job.result() == "done"


def test_o4_attempts_exhausted_is_death_with_every_error(any_app: Windlass) -> None:
    @any_app.task(retry=Retry(3, base=0))
    def broken(number: int) -> None:
        raise KeyError("nothing here") from ValueError("the reason\0why\ud800")

    job = broken.enqueue(5)
    assert any_app.run_until_idle() == Drained(dead=1, retried=2)
    record = job.record()
    assert (record.state, record.payload) == (State.DEAD, '{"number":5}')
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
            clock.advance(wait - 0.001)
            assert app.run_until_idle() == Drained()
            assert job.status() == State.RETRYING
            clock.advance(0.001)
            app.run_until_idle()
        assert job.status() == State.SUCCEEDED
        assert len(tries) == 4


@pytest.mark.parametrize(
    ("signal", "delay"),
    [
        (Snooze("5m"), 300),
        (Throttled(), 60),
        (Throttled("90s"), 90),
        (Throttled(1), 60),
        (Throttled("2h"), 1800),
    ],
)
def test_o1_snooze_and_throttled_charge_no_attempt(signal: Exception, delay: float) -> None:
    with clocked() as (app, clock):
        signals = [signal] * 9

        @app.task(retry=Retry(2))
        def later() -> None:
            if signals:
                raise signals.pop()

        job = later.enqueue()
        for _ in range(9):
            assert app.run_until_idle() == Drained(deferred=1)
            assert job.record().attempt == 1
            clock.advance(delay - 0.001)
            assert app.run_until_idle() == Drained()
            clock.advance(0.001)
        assert app.run_until_idle() == Drained(succeeded=1)


def test_o1_dead_ends_the_job_at_once_with_its_reason(any_app: Windlass) -> None:
    @any_app.task
    async def hopeless() -> None:
        raise Dead("no such customer")

    job = hopeless.enqueue()
    assert any_app.run_until_idle() == Drained(dead=1)
    assert job.record().errors[-1].message == "no such customer"


def test_o1_source_gone_ends_well(any_app: Windlass) -> None:
    @any_app.task
    async def read() -> str:
        raise SourceGone("the file was deleted")

    job = read.enqueue()
    assert any_app.run_until_idle() == Drained(succeeded=1)
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
    assert app.run_until_idle() == Drained(dead=1, succeeded=1)
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
    assert app.run_until_idle() == Drained(dead=1)
    assert len(ran) == 1
    assert "return value cannot be kept" in job.record().errors[0].message


# -- fault 17 ---------------------------------------------------------------------------------------------


def poison(store: MemoryStore, payloads: list[str]) -> None:
    """Rows as plain SQL or an older version could have written them: past the checks of `enqueue`."""
    jobs = [NewJob(task="careful", payload=text) for text in payloads]
    asyncio.run(store.enqueue(jobs))


def test_fault_17_a_poison_payload_hurts_only_its_own_job(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    app = Windlass(store=store)

    @app.task(name="careful", retry=Retry(1))
    async def careful(number: int) -> int:
        return number

    bad = [
        "{broken",
        '"text"',
        "5",
        '{"number":"x"}',
        "[1,2]",
        "{}",
        '{"*":5}',
        '["' + "x" * 50_000_000 + '"]',
    ]
    asyncio.run(
        store.enqueue(
            [NewJob(task="careful", payload=text, options=careful._template.options) for text in bad]
        )
    )
    good = careful.enqueue(7)
    assert app.run_until_idle() == Drained(succeeded=1, dead=len(bad))
    assert good.result() == 7
    assert "argument 'number'" in caplog.text


# -- unknown tasks [O4] -----------------------------------------------------------------------------------


def test_o4_an_unknown_task_is_deferred_uncharged_until_a_worker_knows_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with clocked() as (app, clock):
        ids = app.named("new.task").enqueue_many([(1,), (2,)])
        assert app.run_until_idle() == Drained(deferred=2)
        assert caplog.text.count("does not know task new.task") == 1
        clock.advance("9s")
        assert app.run_until_idle() == Drained()
        app.task(name="new.task")(lambda number: number)
        clock.advance("1s")
        assert app.run_until_idle() == Drained(succeeded=2)
        assert app.job(ids[1]).record().attempt == 1


# -- time limits ------------------------------------------------------------------------------------------


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
        assert app.run_until_idle(concurrency=1) == Drained(dead=1, succeeded=1)
    finally:
        release.set()
    assert "release.wait(60)" in job.record().errors[0].traceback
    assert after.status() == State.SUCCEEDED


def test_a_handlers_own_timeout_error_is_its_own(app: Windlass) -> None:
    @app.task(timeout="1m", retry=Retry(1))
    async def impatient() -> None:
        raise TimeoutError("the mail server")

    job = impatient.enqueue()
    app.run_until_idle()
    assert job.record().errors[0].message == "the mail server"


# -- scheduled jobs ---------------------------------------------------------------------------------------


def test_jobs_for_later_are_left_unless_they_come_due_in_time(any_app: Windlass) -> None:
    echo = any_app.named("windlass.echo")
    soon, far = echo.using(delay="200ms").enqueue(1), echo.using(delay="1h").enqueue(2)
    assert any_app.run_until_idle() == Drained()
    assert any_app.run_until_idle(wait="2s") == Drained(succeeded=1)
    assert (soon.status(), far.status()) == (State.SUCCEEDED, State.SCHEDULED)


# -- steering and the end of a drain ----------------------------------------------------------------------


async def test_o5_a_running_job_is_cancelled_within_a_beat(app: Windlass) -> None:
    started = asyncio.Event()

    @app.task
    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    job = await waits.aenqueue()
    async with app._home().here() as store:
        running = asyncio.create_task(drain(store, app.tasks, beat_every=0.01))
        await started.wait()
        assert await job.acancel() == "requested"
        assert await running == Drained(cancelled=1)
    assert await job.astatus() == State.CANCELLED


async def test_o5_finished_first_stands_and_a_failure_after_cancel_is_not_retried(app: Windlass) -> None:
    started = {"ends": asyncio.Event(), "fails": asyncio.Event()}

    async def stubborn(name: str) -> str:
        started[name].set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if name == "fails":
                raise ValueError("while unwinding") from None
        return "finished"

    task = app.task(stubborn)
    ends, fails = await task.aenqueue("ends"), await task.aenqueue("fails")
    async with app._home().here() as store:
        running = asyncio.create_task(drain(store, app.tasks, beat_every=0.01))
        for event in started.values():
            await event.wait()
        await ends.acancel()
        await fails.acancel()
        assert await running == Drained(succeeded=1, cancelled=1)
    assert await ends.aresult() == "finished"
    assert await fails.astatus() == State.CANCELLED


async def test_an_interrupted_drain_gives_its_jobs_back_uncharged(any_app: Windlass) -> None:
    started = asyncio.Event()

    @any_app.task
    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    done, job = await any_app.aenqueue("windlass.echo"), await waits.aenqueue()
    running = asyncio.create_task(any_app.arun_until_idle())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    record = await job.arecord()
    assert (record.state, record.attempt, record.deaths) == (State.READY, 1, 0)
    assert await done.astatus() == State.SUCCEEDED
    assert [
        worker for worker in await any_app._home().acall(lambda store: store.workers()) if worker.alive
    ] == []


async def test_c5_a_drain_that_was_declared_dead_stops(app: Windlass) -> None:
    stopped = asyncio.Event()
    started = asyncio.Event()

    @app.task
    async def waits() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    job = await waits.aenqueue()
    async with app._home().here() as store:
        running = asyncio.create_task(drain(store, app.tasks, beat_every=0.01))
        await started.wait()
        rescued = None
        while rescued is None:  # its beats go on, so the counter we saw may have moved
            (worker,) = await store.workers()
            rescued = await store.rescue(worker.id, worker.beat, DeathPolicy())
        with pytest.raises(WorkerLost):
            await running
    assert stopped.is_set()
    assert (await job.arecord()).deaths == 1


async def test_c8_a_job_that_has_seen_a_death_runs_alone(app: Windlass) -> None:
    running: set[str] = set()
    beside: list[set[str]] = []

    @app.task
    async def watch(name: str) -> None:
        beside.append({*running, name})
        running.add(name)
        await asyncio.sleep(0.001)
        running.remove(name)

    suspect = await watch.using(priority="urgent").aenqueue("suspect")
    async with app._home().here() as store:
        await store.register(WorkerInfo(id=7))
        await store.claim(7, ["default"], 1)
        assert await store.rescue(7, 0, DeathPolicy()) is not None
        await watch.aenqueue_many([(f"other {number}",) for number in range(20)])
        assert await drain(store, app.tasks, concurrency=4) == Drained(succeeded=21)
    assert (await suspect.arecord()).deaths == 1
    assert [names for names in beside if "suspect" in names] == [{"suspect"}]


# -- logs [O4] --------------------------------------------------------------------------------------------


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


async def test_every_outcome_can_be_observed(app: Windlass) -> None:
    seen: list[tuple[str, str]] = []

    def observe(job: ClaimedJob, outcome: Outcome, error: BaseException | None) -> None:
        seen.append((outcome.kind.value, type(error).__name__))

    @app.task(retry=Retry(1))
    async def fails() -> None:
        raise OSError

    await fails.aenqueue()
    async with app._home().here() as store:
        await drain(store, app.tasks, observe=observe)
    assert seen == [("retry", "OSError")]
    assert count_jobs(app) == 1
