"""Reporting to the store [M1] [M2] [M3]: everything counts once, and nobody waits for it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.stopwatch import Stopwatch
from tests.worker.line import Line, set_quick, until, until_it_is
from tests.worker.reports.outcomes import ended
from windlass import Context, Part, Ranges, Retry, State, Windlass
from windlass.cluster import duties
from windlass.core.rollup import COUNTS
from windlass.core.states import Kind
from windlass.errors import StoreUnavailable
from windlass.store.factory import make_store
from windlass.store.records import Report, Vitals
from windlass.store.sqlite import SQLiteStore
from windlass.worker.reports import reporter as module
from windlass.worker.reports.recorder import Recorder
from windlass.worker.reports.reporter import Reporter

ASIDE = {"claims", "claimed", "empty", "looks", "ready", "waited", "rounds", "waited_most"}


@pytest.fixture
def memory() -> Line:
    return Line(SQLiteStore(":memory:"))


async def total(line: Line, queue: str = "", task: str = "") -> dict[str, int]:
    """What was counted so far, of outcomes and all that is not about claims or how queues stood."""
    await duties.rollup(line.as_store)
    for sample in await line.real.totals():
        if (sample.queue, sample.task) == (queue, task):
            return {name: n for name, n in sample.counts.items() if name not in ASIDE}
    return {}


@contextmanager
def hanging(line: Line) -> Iterator[None]:
    """Reports arrive nowhere, and nobody says so."""

    async def hang(*_: Any) -> None:
        await asyncio.Event().wait()

    line.before["report"] = hang
    yield
    del line.before["report"]


async def test_m1_a_report_without_an_answer_is_sent_again_and_counts_once(memory: Line) -> None:
    await memory.real.open()
    record = Recorder("w1")
    reporter = Reporter(memory.as_store, record)
    record.flushed([ended(), ended(Kind.RETRY, id=2)], time.monotonic())
    memory.fail("report", StoreUnavailable("gone"), StoreUnavailable("still gone"))
    await reporter.report()  # asks for the time
    record.flushed([ended(id=3)], time.monotonic())
    await reporter.report()
    memory.lose_answer("report", times=2)
    await reporter.report()
    await reporter.report()
    record.flushed([ended(id=4)], time.monotonic())
    await reporter.report()
    assert await total(memory, "mail", "send") == {"succeeded": 3, "retry": 1}
    assert [event.kind for event in await memory.real.events()] == ["retry"]
    assert not len(record.events)


async def test_m2_many_events_are_reported_in_several_calls(
    memory: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 10)
    await memory.real.open()
    record = Recorder()
    reporter = Reporter(memory.as_store, record)
    record.flushed([ended(Kind.DEAD, id=n) for n in range(35)], time.monotonic())
    await reporter.report()
    assert len(record.events) == 5  # less than a call's worth waits for the next time
    await reporter.close()
    assert [event.job for event in await memory.real.events()] == [*reversed(range(35))]
    assert await total(memory) == {"dead": 35}


async def test_m2_a_report_that_the_store_cannot_process_does_not_stop_the_next(
    memory: Line, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.real.open()
    record = Recorder()
    reporter = Reporter(memory.as_store, record)
    record.note("leads", "once")
    await reporter.report()
    record.flushed([ended(Kind.DEAD)], time.monotonic())
    memory.fail("report", *[ValueError("no text")] * module.TRIES)
    for _ in range(module.TRIES):
        await reporter.report()
    assert "cannot process a report" in caplog.text
    record.flushed([ended(Kind.DEAD, id=2)], time.monotonic())
    await reporter.report()
    assert await total(memory) == {"dead": 1, "dropped": 1}


async def test_m2_events_that_there_is_no_time_for_are_counted(
    memory: Line, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The last call says how many a timeline lacks."""
    monkeypatch.setattr(module, "MAX_EVENTS", 10)
    monkeypatch.setattr(module, "LAST_TIME", 1.0)
    await memory.real.open()
    record = Recorder()
    record.clock.learn(60.0, at := time.monotonic(), at)
    reporter = Reporter(memory.as_store, record)

    async def slow(*_: Any) -> None:
        if memory.calls["report"] == 2:
            await asyncio.sleep(module.LAST_TIME / 2)

    memory.before["report"] = slow
    record.flushed([ended(Kind.DEAD, id=n) for n in range(35)], at)
    await reporter.close()
    assert len(await memory.real.events()) == 20
    assert await total(memory) == {"dead": 35, "dropped": 15}
    assert "15 events are dropped" in caplog.text


async def test_m2_a_store_that_is_away_at_the_end_costs_events_and_says_how_many(
    memory: Line, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.real.open()
    record = Recorder()
    reporter = Reporter(memory.as_store, record)
    record.flushed([ended(Kind.DEAD, id=n) for n in range(3)], time.monotonic())
    with memory.cut():
        await reporter.close()
    assert "the last report of this process, with 3 events, did not reach the store" in caplog.text


async def test_m3_an_idle_worker_is_quiet(memory: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    await memory.real.open()
    record = Recorder(every=0.002)
    running = [0]
    looks = []

    def vitals() -> Vitals:
        looks.append(1)
        return Vitals(running=running[0])

    reporter = Reporter(memory.as_store, record, vitals)
    reporter.start(7)
    try:
        await until(lambda: memory.calls["report"] == 1)
        record.claimed([], ["mail"])
        for _ in range(10):  # as many rounds as there would be, were it not idle
            await asyncio.sleep(record.every)
        assert memory.calls["report"] == 1
        monkeypatch.setattr(module, "QUIET", 0.0)
        await until(lambda: memory.calls["report"] > 3)
        monkeypatch.setattr(module, "QUIET", 60.0)
        running[0] = 1
        record.note("started", "busy from now on")
        before = memory.calls["report"]
        await until(lambda: memory.calls["report"] > before + 3)
    finally:
        await reporter.close()


@pytest.fixture
def quick(line: Line) -> Iterator[Windlass]:
    """An app that reports often."""
    with Windlass(store=line.as_store) as app:
        yield set_quick(app, lease=10.0, report_every=0.01)


async def test_m1_m3_a_worker_reports_what_it_ran_and_how_it_is(line: Line, quick: Windlass) -> None:
    proceed = asyncio.Event()

    @quick.task(queue="mail", retry=Retry(2, base=0))
    async def send(n: int) -> None:
        if n == 0:
            await proceed.wait()
        elif n < 4:
            raise ValueError("bounced")

    jobs = await send.aenqueue_many([(n,) for n in range(20)])
    async with quick.worker({"mail": 4}):

        async def vitals() -> Vitals | None:
            return next((worker.vitals for worker in await line.real.workers()), None)

        async def longest() -> list[int]:
            seen = await vitals()
            return [] if seen is None else [busy.job for busy in seen.jobs]

        await until_it_is(longest, [jobs[0]])
        seen = await vitals()
        assert seen is not None
        assert (seen.running, seen.slots) == (1, 4)
        assert seen.memory > 2**20
        assert abs(seen.jobs[0].since - time.time()) < 60
        proceed.set()
        await until_it_is(lambda: total(line, "mail", send.name), {"succeeded": 17, "retry": 3, "dead": 3})
    counts = await total(line)
    assert counts == {"succeeded": 17, "retry": 3, "dead": 3}
    kinds = [event.kind for event in await line.real.events()]
    assert {"started", "stopped", "leads"} <= set(kinds)
    assert (kinds.count("retry"), kinds.count("dead")) == (3, 3)
    (everything,) = [each for each in await line.real.totals() if (each.queue, each.task) == ("", "")]
    assert everything.counts.keys() <= COUNTS
    assert sum(everything.runs.values()) == 23
    assert everything.counts["claimed"] == 23


async def test_m1_a_store_that_never_hears_neither_slows_jobs_nor_keeps_the_worker(
    line: Line, quick: Windlass, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LAST_TIME", 0.05)

    @quick.task
    async def note(n: int) -> None: ...

    with hanging(line):
        jobs = await note.aenqueue_many([(n,) for n in range(500)])
        watch = Stopwatch()
        async with quick.worker(["default"]):
            await until_it_is(lambda: _state(line, jobs[-1]), State.SUCCEEDED)
        assert watch.seconds() < 5
    assert "did not reach the store" in caplog.text


async def _state(line: Line, id: int) -> State | None:
    job = await line.real.job(id)
    return None if job is None else job.state


async def test_m1_a_drain_counts_too(line: Line, quick: Windlass) -> None:
    for n in range(3):
        await quick.aenqueue("windlass.echo", n)
    assert (await quick.arun_until_idle()).succeeded == 3
    assert await total(line) == {"succeeded": 3}


async def test_m1_a_parent_that_was_split_has_not_succeeded(line: Line, quick: Windlass) -> None:
    @quick.chunked(split=Ranges(3, size=1))
    async def load(part: Part) -> None:
        async for batch in part.batches(10):
            await batch.done()

    await load.aenqueue()
    await quick.arun_until_idle()
    assert await total(line) == {"succeeded": 3}
    assert [event.text for event in await line.real.events()] == ["split into 3 parts"]


async def test_m1_a_job_that_ends_in_its_own_transaction_is_counted(tmp_path: Path) -> None:
    line = Line(make_store(f"sqlite:///{tmp_path.as_posix()}/jobs.db"))
    with Windlass(store=line.as_store) as app:

        @app.task
        async def pay(ctx: Context) -> None:
            async with ctx.transaction():
                pass

        await pay.aenqueue()
        await app.arun_until_idle()
        assert await total(line) == {"succeeded": 1}


async def test_a_second_answer_to_the_last_words_is_no_harm(memory: Line) -> None:
    """A report that is cancelled late has arrived, and is sent again under its number."""
    await memory.real.open()
    record = Recorder()
    reporter = Reporter(memory.as_store, record)
    record.note("leads", "me")
    reporter.start()
    await until(lambda: memory.calls["report"] >= 2)
    await reporter.close()
    assert [event.text for event in await memory.real.events()] == ["me"]
    assert await memory.real.report(1, 1, Report()) > 0
