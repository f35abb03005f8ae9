"""Identities over time: what is lost, what is given back, and when a new one begins [C5] [C7] [C9]."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.worker.line import Line, set_quick, until, until_it_is
from windlass import Cancelled, Context, Retry, Snooze, SourceGone, State, Throttled, Windlass
from windlass.core.retry import Backoff, DeathPolicy
from windlass.errors import StoreCorrupt, StoreUnavailable
from windlass.store.memory import MemoryStore
from windlass.store.records import Outcome, WorkerInfo, WorkerRecord
from windlass.testing import Clock
from windlass.worker import engine as module
from windlass.worker.outcomes import OutcomeLog


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steer ten times as often as in earnest, and come back sooner."""
    monkeypatch.setattr("windlass.cluster.member.STEER_EVERY", 0.1)
    monkeypatch.setattr(module, "RECONNECT", Backoff(0.06, 10.0, jitter=0.5))


class Scene:
    """A task that waits until it is let go, and what became of its runs."""

    def __init__(self, app: Windlass) -> None:
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()
        self.proceed = asyncio.Event()
        self.runs = 0
        self.cancels = 0

        @app.task(name="scene.waits", queue="scene")
        async def waits(ctx: Context) -> str:
            self.runs += 1
            self.started.set()
            try:
                await self.proceed.wait()
            except asyncio.CancelledError:
                self.cancels += 1
                raise
            finally:
                self.stopped.set()
            return f"attempt {ctx.attempt}"

        self.waits = waits


@pytest.fixture
async def scene(wired: Windlass) -> Scene:
    return Scene(wired)


async def living(line: Line) -> list[WorkerRecord]:
    return [worker for worker in await line.real.workers() if worker.alive]


async def declare_dead(line: Line) -> int:
    """Rescue the one living worker, however often its beat moves on while we try."""
    while True:
        (worker,) = await living(line)
        if await line.real.rescue(worker.id, worker.beat, DeathPolicy()) is not None:
            return worker.id


# -- the lease ------------------------------------------------------------------------------------------


async def test_c5_a_lost_lease_stops_the_handler_and_a_new_identity_goes_on(
    wired: Windlass, line: Line, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """[C5] [C8] Told once, within a beat; the job runs again, its attempt uncharged."""
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}) as worker:
        await scene.started.wait()
        dead = await declare_dead(line)
        await scene.stopped.wait()
        scene.proceed.set()
        assert await job.aresult("10s") == "attempt 1"
        (now,) = await living(line)
        assert now.id != dead
        assert worker._engine is not None
    assert (scene.runs, scene.cancels) == (2, 1)
    assert (await job.arecord()).deaths == 1
    assert caplog.text.count("has lost its lease") == 1


async def test_c5_a_late_outcome_is_refused_and_counted(wired: Windlass, line: Line) -> None:
    """[C5] A handler that finishes all the same has finished for nothing: the job runs again."""
    runs: list[int] = []
    started = asyncio.Event()

    @wired.task(queue="scene")
    async def stubborn(ctx: Context) -> str:
        runs.append(ctx.deaths)
        if ctx.deaths:
            return "second"
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "first"
        return "never"

    job = await stubborn.aenqueue()
    async with wired.worker({"scene": 2}) as worker:
        await started.wait()
        await declare_dead(line)
        assert await job.aresult("10s") == "second"
        engine = worker._engine
        assert engine is not None
    assert engine.refused == 1
    assert runs == [0, 1]


@pytest.mark.parametrize("line", ["memory"], indirect=True)
async def test_c6_a_handler_outlasts_many_leases(wired: Windlass, line: Line, scene: Scene) -> None:
    """[C6] No local limit is tied to the lease: as long as beats arrive, the job is its worker's."""
    set_quick(wired, lease=0.4)
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        await scene.started.wait()
        (before,) = await living(line)
        began = asyncio.get_running_loop().time()
        await until_it_is(lambda: _beats(line, before.beat), True)
        await until(lambda: asyncio.get_running_loop().time() - began > 1.3)  # more than three leases
        assert not scene.stopped.is_set()
        scene.proceed.set()
        assert await job.aresult("10s") == "attempt 1"
    record = await job.arecord()
    assert (scene.runs, record.deaths, record.worker) == (1, 0, before.id)


async def _beats(line: Line, since: int) -> bool:
    (worker,) = await living(line)
    return worker.beat >= since + 4


@pytest.mark.parametrize("line", ["memory"], indirect=True)
async def test_c7_beats_go_on_while_a_handler_unwinds(wired: Windlass, line: Line) -> None:
    """[C7] The cancel is told once, and the identity lives until the handler has really ended."""
    started, unwinding, proceed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    told = 0

    @wired.task(queue="scene")
    async def unwinds() -> None:
        nonlocal told
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            unwinding.set()
            while not proceed.is_set():
                try:
                    await proceed.wait()
                except asyncio.CancelledError:
                    told += 1

    job = await unwinds.aenqueue()
    async with wired.worker({"scene": 2}):
        await started.wait()
        assert await job.acancel() == "requested"
        await unwinding.wait()
        (worker,) = await living(line)
        await until_it_is(lambda: _beats(line, worker.beat), True)  # each of them says "cancel" again
        assert await job.astatus() == State.RUNNING
        proceed.set()
        await until_it_is(job.astatus, State.CANCELLED)
    assert told == 0


async def test_c7_beats_end_with_the_identity(wired: Windlass, line: Line, scene: Scene) -> None:
    """[C7] After a worker has left, nothing beats for it."""
    async with wired.worker({"scene": 2}) as worker:
        await until(lambda: line.calls["beat"] > 1)
        member = worker._member
        assert member is not None
    assert not member._seats
    assert await living(line) == []


async def test_c9_an_outage_longer_than_the_lease_stops_the_handlers(
    wired: Windlass, line: Line, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """[C9] They stop while the store is still away; when it is back a new identity begins and the old one's
    jobs are given back, uncharged."""
    set_quick(wired, lease=0.3, sweep=60.0)
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        await scene.started.wait()
        (old,) = await living(line)
        with line.cut():
            await scene.stopped.wait()
            assert scene.cancels == 1
            scene.proceed.set()
        assert await job.aresult("20s") == "attempt 1"
        await until_it_is(lambda: _ids(line, old.id), False)
    record = await job.arecord()
    assert (scene.runs, record.attempt, record.deaths) == (2, 1, 0)  # given back, not rescued
    assert "a heartbeat failed" in caplog.text


async def _ids(line: Line, worker: int) -> bool:
    return worker in [record.id for record in await living(line)]


async def test_c9_an_outage_shorter_than_the_lease_is_survived(
    wired: Windlass, line: Line, scene: Scene
) -> None:
    """[C4] A failed beat is logged and tried again; only "lost" stops the work."""
    set_quick(wired, lease=2.0)
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        await scene.started.wait()
        beats = line.calls["beat"]
        with line.cut():
            await until(lambda: line.calls["beat"] >= beats + 2)
        scene.proceed.set()
        assert await job.aresult("10s") == "attempt 1"
    assert (scene.runs, scene.cancels) == (1, 0)


async def test_outcomes_of_an_outage_are_written_after_it(wired: Windlass, line: Line, scene: Scene) -> None:
    """[C5] Nothing is run again because the store was away for a moment."""
    set_quick(wired, lease=5.0)
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        await scene.started.wait()
        with line.cut():
            scene.proceed.set()
            await until(lambda: line.calls["finish"] >= 2)
        assert await job.aresult("10s") == "attempt 1"
    assert scene.runs == 1


# -- leaving --------------------------------------------------------------------------------------------


async def test_k2_leaving_waits_for_running_jobs(wired: Windlass, scene: Scene) -> None:
    """[K2]"""
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}) as worker:
        await scene.started.wait()
        worker.stop()
        engine = worker._engine
        assert engine is not None
        await until(lambda: engine._shift is None or engine._shift._closed)
        later = await scene.waits.aenqueue()
        asyncio.get_running_loop().call_later(0.05, scene.proceed.set)
    assert await job.astatus() == State.SUCCEEDED
    assert await later.astatus() == State.READY


async def test_k2_after_its_time_the_rest_is_handed_back_uncharged(wired: Windlass, scene: Scene) -> None:
    """[K2]"""
    set_quick(wired, shutdown=0.05)
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        await scene.started.wait()
    record = await job.arecord()
    assert (record.state, record.attempt, record.deaths, scene.cancels) == (State.READY, 1, 0, 1)


async def test_a_claim_under_way_when_told_to_stop_keeps_nothing(
    wired: Windlass, line: Line, scene: Scene
) -> None:
    """[K2] What it gave goes back at once, not after everything that runs has ended."""
    first = await scene.waits.aenqueue()
    async with wired.worker({"scene": 4}) as worker:
        await scene.started.wait()
        answered = asyncio.Event()

        async def never(answer: object) -> None:
            if answer:
                answered.set()
                await asyncio.Event().wait()

        line.after["claim"] = never
        lost = await scene.waits.aenqueue()
        await answered.wait()
        assert await lost.astatus() == State.RUNNING
        worker.stop()
        await until_it_is(lost.astatus, State.READY)
        assert await first.astatus() == State.RUNNING
        scene.proceed.set()
    assert await first.astatus() == State.SUCCEEDED
    assert scene.runs == 1


async def test_an_outcome_under_way_when_leaving_is_written_once_and_stands(
    wired: Windlass, line: Line, scene: Scene
) -> None:
    """[C5] The last flush waits for the one before it, so that a finished job is not offered again."""
    entered, proceed = asyncio.Event(), asyncio.Event()

    async def slow(worker: int, flush: int, outcomes: list[Outcome]) -> None:
        entered.set()
        await proceed.wait()

    line.before["finish"] = slow
    job = await wired.aenqueue("windlass.echo", 1)
    running = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2, "default": 2}) as worker:
        await scene.started.wait()
        await entered.wait()
        worker.stop()
        worker.stop()
        await scene.stopped.wait()
        asyncio.get_running_loop().call_later(0.05, proceed.set)
    assert await job.astatus() == State.SUCCEEDED
    assert await running.astatus() == State.READY


async def test_two_flushes_at_once_lose_nothing(wired: Windlass, line: Line) -> None:
    """[C5] Whoever comes second waits: it must not forget the batch that the first one sends again."""
    await wired.aenqueue("windlass.echo", 1)
    await wired.aenqueue("windlass.echo", 2)
    await line.register(WorkerInfo(id=7))
    (claim,) = await line.claim(7, ["default"], 2)
    proceed = asyncio.Event()
    sent: list[tuple[int, int]] = []

    async def slow(worker: int, flush: int, outcomes: list[Outcome]) -> None:
        sent.append((flush, len(outcomes)))
        await proceed.wait()
        if len(sent) < 5:
            raise StoreUnavailable("once more")

    line.before["finish"] = slow
    log = OutcomeLog(line.as_store, 7)
    log.add(Outcome(job=claim.jobs[0]))
    first = asyncio.create_task(log.flush())
    await until(lambda: len(sent) == 1)
    log.add(Outcome(job=claim.jobs[1]))
    second = asyncio.create_task(log.flush())
    await asyncio.sleep(0)
    proceed.set()
    await asyncio.gather(first, second)
    assert log.written == 2
    assert set(sent) == {(1, 1), (2, 1)}


async def test_an_error_that_stays_does_not_use_up_identities(
    wired: Windlass, line: Line, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that is broken in a way nobody foresaw is asked again with a pause, and the log says why."""

    async def broken(*_: Any) -> None:
        raise StoreCorrupt("a lane without a cursor")

    line.before["claim"] = broken
    clock = asyncio.get_running_loop().time
    async with wired.worker({"scene": 2}):
        await until(lambda: line.calls["register"] >= 1)
        began = clock()
        await until(lambda: line.calls["register"] >= 3)
        assert clock() - began > 0.08  # 0.06 and 0.12 s, each by half at most shorter
        assert "a lane without a cursor" in caplog.text
        del line.before["claim"]
        scene.proceed.set()
        job = await scene.waits.aenqueue()
        assert await job.aresult("10s") == "attempt 1"
    assert await living(line) == []


async def test_an_outcome_that_cannot_be_written_does_not_end_the_worker(
    wired: Windlass, line: Line, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """The identity is given up, its jobs are offered again, and the next one goes on."""
    line.fail("finish", ValueError("no such kind"), ValueError("no such kind"))
    scene.proceed.set()
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        assert await job.aresult("10s") == "attempt 1"
    assert "no such kind" in caplog.text
    assert scene.runs == 2


async def test_registering_is_tried_again(wired: Windlass, line: Line, scene: Scene) -> None:
    """[C9]"""
    line.fail("register", StoreUnavailable("not yet"), StoreUnavailable("nor now"))
    scene.proceed.set()
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        assert await job.aresult("10s") == "attempt 1"
    assert line.calls["register"] == 3


# -- outcomes through a worker ----------------------------------------------------------------------------


async def test_o1_every_way_to_end(wired: Windlass, line: Line) -> None:
    """[O1] [O8]"""

    @wired.task(queue="scene", retry=Retry(1))
    async def ends(how: str) -> str:
        match how:
            case "gone":
                raise SourceGone
            case "cancel":
                raise Cancelled
            case "snooze":
                raise Snooze("1h")
            case "fails":
                raise OSError("no")
        return how

    jobs = {how: await ends.aenqueue(how) for how in ("returns", "gone", "cancel", "snooze", "fails")}
    async with wired.worker({"scene": 8}):
        assert await jobs["returns"].aresult("10s") == "returns"
        for how, state in {
            "gone": State.SUCCEEDED,
            "cancel": State.CANCELLED,
            "snooze": State.SCHEDULED,
            "fails": State.DEAD,
        }.items():
            await until_it_is(jobs[how].astatus, state)
    assert (await jobs["snooze"].arecord()).attempt == 1


async def test_o2_queue_settings_space_the_retries_of_tasks_without_a_policy(
    wired: Windlass, line: Line
) -> None:
    """[O2] Off: at once. A task's own policy counts for more."""
    await line.open()
    await line.set_queue("scene", {"backoff": False})
    await line.set_queue("slow", {"backoff_base": 1000.0})

    @wired.task(queue="scene")
    async def plain() -> None:
        raise OSError("no")

    @wired.task(queue="scene", retry=Retry(3, base="100s"))
    async def own() -> None:
        raise OSError("no")

    at_once, later = await plain.aenqueue(), await own.aenqueue()
    slow = await plain.using(queue="slow").aenqueue()
    async with wired.worker(["scene", "slow"]):
        await until_it_is(at_once.astatus, State.DEAD)
        await until_it_is(later.astatus, State.RETRYING)
        await until_it_is(slow.astatus, State.RETRYING)
    assert len((await at_once.arecord()).errors) == 5
    assert 80 < _waits(await later.arecord()) < 120
    assert 850 < _waits(await slow.arecord()) < 1150


def _waits(record: Any) -> float:
    return float(record.run_at - record.errors[-1].at)


async def test_o3_a_throttle_closes_the_queue_and_gives_its_siblings_back(
    wired: Windlass, line: Line
) -> None:
    """[O3] Here at once, elsewhere by the store; what runs goes on, and the attempt is not charged."""
    started, proceed = asyncio.Event(), asyncio.Event()
    runs: list[str] = []

    @wired.task(queue="api")
    async def call(name: str) -> None:
        runs.append(name)
        if name == "throttled":
            await started.wait()
            raise Throttled(retry_after="2h")
        started.set()
        await proceed.wait()

    sibling, throttled = await call.aenqueue("sibling"), await call.aenqueue("throttled")
    async with wired.worker({"api": 2}):
        await until_it_is(throttled.astatus, State.SCHEDULED)
        waiting = await call.aenqueue("waiting")
        proceed.set()
        await until_it_is(sibling.astatus, State.SUCCEEDED)
        (queue,) = [record for record in await line.queues() if record.name == "api"]
        assert queue.throttles == 1
        assert 1700 < queue.cooling <= 1800  # the hint is bounded by the cap
        async with wired.worker({"api": 2}):  # another worker gets nothing either
            claims = line.calls["steering"]
            await until(lambda: line.calls["steering"] >= claims + 2)
            assert await waiting.astatus() == State.READY
    assert runs == ["sibling", "throttled"]
    record = await throttled.arecord()
    assert (record.attempt, record.errors) == (1, ())


@pytest.mark.parametrize("line", ["memory"], indirect=True)
async def test_o3_beats_go_on_through_a_cool_down(wired: Windlass, line: Line, scene: Scene) -> None:
    """[C7] A worker whose queues all cool is alive."""
    async with wired.worker({"scene": 2}):
        await until_it_is(lambda: _count(line), 1)
        await line.throttle("scene", 600)
        (worker,) = await living(line)
        await until_it_is(lambda: _beats(line, worker.beat), True)


async def _count(line: Line) -> int:
    return len(await living(line))


async def test_o3_a_success_long_after_the_cool_down_forgets_the_throttles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[O3] Not one that comes sooner than 120 s after the deadline."""
    monkeypatch.setattr(module, "WARM_EVERY", 0.01)
    clock = Clock()
    line = Line(MemoryStore(clock=clock))
    with Windlass(store=line.as_store) as app:
        await line.open()
        await line.set_queue("default", {})
        await line.throttle("default", None)
        clock.advance("61s")
        async with app.worker(["default"]):
            echo = app.named("windlass.echo")
            assert await (await echo.aenqueue(1)).aresult("10s") == 1
            await until(lambda: line.calls["warm"] >= 1)
            assert (await line.queues())[0].throttles == 1
            clock.advance("120s")
            assert await (await echo.aenqueue(2)).aresult("10s") == 2
            await until_it_is(lambda: _throttles(line), 0)


async def _throttles(line: Line) -> int:
    return int((await line.queues())[0].throttles)


async def test_o4_an_unknown_task_waits_uncharged(
    wired: Windlass, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[O4]"""
    job = await wired.named("not.here").using(queue="scene").aenqueue()
    async with wired.worker({"scene": 2}):
        await until_it_is(job.astatus, State.SCHEDULED)
    record = await job.arecord()
    assert (record.attempt, record.reason) == (1, "no worker knows this task")
    assert "does not know task not.here" in caplog.text


async def test_o5_cancel_here_is_at_once_and_elsewhere_within_a_beat(
    wired: Windlass, line: Line, scene: Scene
) -> None:
    """[O5]"""
    set_quick(wired, lease=30.0)  # so that no beat comes to help the first one
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        await scene.started.wait()
        assert await job.acancel() == "requested"
        await until_it_is(job.astatus, State.CANCELLED, within=5)
    set_quick(wired, lease=0.6)
    scene.started.clear()
    other = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        await scene.started.wait()
        assert await line.cancel([other.id]) == {other.id: "requested"}  # as another process would
        await until_it_is(other.astatus, State.CANCELLED)
    assert scene.cancels == 2


async def test_o5_a_plain_function_hears_of_its_cancel(wired: Windlass, line: Line) -> None:
    """[O5] It has to look."""
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    @wired.task(queue="scene")
    def looks(ctx: Context) -> None:
        loop.call_soon_threadsafe(started.set)
        while True:
            ctx.check()

    job = await looks.aenqueue()
    async with wired.worker({"scene": 2}):
        await started.wait()
        await asyncio.to_thread(job.cancel)
        await until_it_is(job.astatus, State.CANCELLED)


# -- a transaction of the handler's own -------------------------------------------------------------------


async def test_data_and_outcome_are_committed_together(tmp_path: Path) -> None:
    """[C5] [O8] Also when the handler raises afterwards: how the job ended cannot be changed any more."""
    path = tmp_path / "jobs.db"
    with Windlass(f"sqlite:///{path.as_posix()}") as app:

        @app.task(retry=Retry(2, base=0))
        async def books(ctx: Context, how: str) -> str:
            async with ctx.transaction() as connection:
                connection.execute("INSERT INTO book VALUES (?, ?)", (ctx.id, how))
                ctx.result = {"kept": how}
                if how == "rolls back" and ctx.attempt == 1:
                    raise OSError("half-way")
            if how == "fails after":
                raise OSError("too late to matter")
            return "comes too late"

        await app.amigrate()
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE book (job INTEGER, how TEXT)")
        jobs = {how: await books.aenqueue(how) for how in ("plain", "fails after", "rolls back")}
        async with app.worker({"default": 1}):
            for how, job in jobs.items():
                assert await app.job(job.id).aresult("10s") == {"kept": how}
        with sqlite3.connect(path) as database:
            rows = database.execute("SELECT job, how FROM book ORDER BY how").fetchall()
        assert rows == [(jobs[how].id, how) for how in ("fails after", "plain", "rolls back")]
        assert [(await job.arecord()).attempt for job in jobs.values()] == [1, 1, 2]


async def test_a_transaction_of_a_lost_worker_commits_nothing(tmp_path: Path) -> None:
    """[C5]"""
    path = tmp_path / "jobs.db"
    with Windlass(f"sqlite:///{path.as_posix()}") as app:
        started, proceed = asyncio.Event(), asyncio.Event()

        @app.task
        async def books(ctx: Context) -> None:
            if not ctx.deaths:
                started.set()
                with contextlib.suppress(asyncio.CancelledError):  # deaf to it: the fence must hold
                    await proceed.wait()
            async with ctx.transaction() as connection:
                connection.execute("INSERT INTO book VALUES (?)", (ctx.deaths,))

        await app.amigrate()
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE book (deaths INTEGER)")
        job = await books.aenqueue()
        set_quick(app)
        async with app._home().shared() as store, app.worker({"default": 1}):
            await started.wait()
            await declare_dead(Line(store))
            await job.aresult("10s")
        with sqlite3.connect(path) as database:
            assert database.execute("SELECT deaths FROM book").fetchall() == [(1,)]
