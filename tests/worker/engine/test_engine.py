"""Identities over time: what is lost, what is handed back, and when a new one begins [C5] [C7] [C9]."""

import asyncio
from typing import Any

import pytest

from tests.worker.line import Line, set_quick, until, until_it_is
from tests.worker.scene import Scene, declare_dead, heartbeats_since, living
from windlass import Context, State, Windlass
from windlass.errors import StoreCorrupt, StoreForbidden, StoreMoved, StoreReadOnly, StoreUnavailable
from windlass.store.records import Outcome, WorkerInfo
from windlass.worker.engine.outcomes import OutcomeLog

pytestmark = pytest.mark.usefixtures("often")


# -- the lease ------------------------------------------------------------------------------------------


async def test_c5_a_lost_lease_stops_the_handler_and_a_new_identity_goes_on(
    wired: Windlass, line: Line, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """[C5] [C8] Told once, within a heartbeat; the job runs again, its attempt uncharged."""
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
    assert caplog.text.count("lost its lease") == 1


async def test_c5_a_late_outcome_is_refused_and_told_of(
    wired: Windlass, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
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
    async with wired.worker({"scene": 2}):
        await started.wait()
        await declare_dead(line)
        assert await job.aresult("10s") == "second"
    messages = [each for each in caplog.messages if "arrived too late" in each or "refused, because" in each]
    assert [each.split()[0] for each in messages] == ["1"]
    assert runs == [0, 1]


@pytest.mark.parametrize("line", ["memory"], indirect=True)
async def test_c6_a_handler_outlasts_many_leases(wired: Windlass, line: Line, scene: Scene) -> None:
    """[C6] No local limit is tied to the lease: as long as heartbeats arrive, the job is its worker's."""
    set_quick(wired, lease=0.4)
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        await scene.started.wait()
        (before,) = await living(line)
        began = asyncio.get_running_loop().time()
        await until_it_is(lambda: heartbeats_since(line, before.heartbeat), True)
        await until(lambda: asyncio.get_running_loop().time() - began > 1.3)  # more than three leases
        assert not scene.stopped.is_set()
        scene.proceed.set()
        assert await job.aresult("10s") == "attempt 1"
    record = await job.arecord()
    assert (scene.runs, record.deaths, record.worker) == (1, 0, str(before.id))  # it has left


@pytest.mark.parametrize("line", ["memory"], indirect=True)
async def test_c7_heartbeats_go_on_while_a_handler_unwinds(wired: Windlass, line: Line) -> None:
    """[C7] The cancel is told once, and the identity lives until the handler has really ended."""
    started, unwinding, proceed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    found = 0

    @wired.task(queue="scene")
    async def unwinds() -> None:
        nonlocal found
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            unwinding.set()
            while not proceed.is_set():
                try:
                    await proceed.wait()
                except asyncio.CancelledError:
                    found += 1

    job = await unwinds.aenqueue()
    async with wired.worker({"scene": 2}):
        await started.wait()
        assert await job.acancel() == "requested"
        await unwinding.wait()
        (worker,) = await living(line)
        await until_it_is(
            lambda: heartbeats_since(line, worker.heartbeat), True
        )  # each of them says "cancel" again
        assert await job.astatus() == State.RUNNING
        proceed.set()
        await until_it_is(job.astatus, State.CANCELLED)
    assert found == 0


async def test_c7_heartbeats_end_with_the_identity(wired: Windlass, line: Line, scene: Scene) -> None:
    """[C7] After a worker has left, no heartbeat is sent for it."""
    async with wired.worker({"scene": 2}) as worker:
        await until(lambda: line.calls["heartbeat"] > 1)
        member = worker._member
        assert member is not None
    assert not member._identities
    assert await living(line) == []


async def test_c9_an_outage_longer_than_the_lease_stops_the_handlers(
    wired: Windlass, line: Line, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """[C9] They stop while the store is still away; when it is back a new identity begins and the old one's
    jobs are handed back, uncharged."""
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
    assert (scene.runs, record.attempt, record.deaths) == (2, 1, 0)  # handed back, not rescued
    assert "a heartbeat failed" in caplog.text


async def _ids(line: Line, worker: int) -> bool:
    return worker in [record.id for record in await living(line)]


async def test_c9_an_outage_shorter_than_the_lease_is_survived(
    wired: Windlass, line: Line, scene: Scene
) -> None:
    """[C4] A failed heartbeat is logged and tried again; only "lost" stops the work."""
    set_quick(wired, lease=2.0)
    job = await scene.waits.aenqueue()
    async with wired.worker({"scene": 2}):
        await scene.started.wait()
        heartbeats = line.calls["heartbeat"]
        with line.cut():
            await until(lambda: line.calls["heartbeat"] >= heartbeats + 2)
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
        await until(lambda: engine._session is None or engine._session.claimer.closed)
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
    jobs = [await wired.aenqueue("windlass.echo", number) for number in (1, 2)]
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
    assert [await job.astatus() for job in jobs] == [State.SUCCEEDED] * 2
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


@pytest.mark.parametrize("error", [StoreForbidden("permission denied"), StoreMoved("copied elsewhere")])
async def test_a_store_that_will_not_have_it_ends_the_worker(
    wired: Windlass, line: Line, error: Exception
) -> None:
    """To ask again would not help; whoever starts it hears why."""
    line.fail("register", error)
    with pytest.raises(type(error), match=str(error)):
        async with wired.worker({"scene": 2}):
            pytest.fail("it must not start")
    assert line.calls["register"] == 1


async def test_a_right_that_was_there_may_come_back(wired: Windlass, line: Line, scene: Scene) -> None:
    """[C9] [fault 33] An identity is lost while the role may do nothing."""
    scene.proceed.set()
    async with wired.worker({"scene": 2}):
        line.fail("register", StoreForbidden("permission denied"), StoreReadOnly("in recovery"))
        await declare_dead(line)
        job = await scene.waits.aenqueue()
        assert await job.aresult("10s") == "attempt 1"
    assert line.calls["register"] == 4
