"""How jobs end in a whole worker: every way to end, retries, throttles, unknown tasks and cancels."""

import asyncio
from typing import Any

import pytest

from tests.worker.line import Line, set_quick, until, until_it_is
from tests.worker.scene import Scene, heartbeats_since, living
from windlass import Cancelled, Context, Retry, Snooze, SourceGone, State, Throttled, Windlass
from windlass.store.sqlite import SQLiteStore
from windlass.testing import Clock
from windlass.worker.engine import engine

pytestmark = pytest.mark.usefixtures("often")


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
    return float((record.run_at - record.errors[-1].at).total_seconds())


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
            claims = line.calls["cluster_view"]
            await until(lambda: line.calls["cluster_view"] >= claims + 2)
            assert await waiting.astatus() == State.READY
    assert runs == ["sibling", "throttled"]
    record = await throttled.arecord()
    assert (record.attempt, record.errors) == (1, ())


@pytest.mark.parametrize("line", ["memory"], indirect=True)
async def test_o3_heartbeats_go_on_through_a_cool_down(wired: Windlass, line: Line, scene: Scene) -> None:
    """[C7] A worker whose queues all cool is alive."""
    async with wired.worker({"scene": 2}):
        await until_it_is(lambda: _count(line), 1)
        await line.throttle("scene", 600)
        (worker,) = await living(line)
        await until_it_is(lambda: heartbeats_since(line, worker.heartbeat), True)


async def test_o5_a_cancel_that_overtakes_the_claim_is_heard_a_moment_later(
    wired: Windlass, line: Line, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[O5] The store has given the job out, and its worker does not know of it yet. Not with the next
    heartbeat, which here comes after a quarter of an hour."""
    monkeypatch.setattr("windlass.cluster.member.AGAIN", 1.0)
    set_quick(wired, lease=3000.0)
    arrives = asyncio.Event()

    async def late(claims: object) -> None:
        if claims:
            await arrives.wait()

    line.after["claim"] = late
    async with wired.worker({"scene": 1}):
        job = await scene.waits.aenqueue()
        await until_it_is(job.astatus, State.RUNNING)
        heartbeats = line.calls["heartbeat"]
        assert await line.real.cancel([job.id]) == {job.id: "requested"}
        await until(lambda: line.calls["heartbeat"] > heartbeats)
        arrives.set()
        await until_it_is(job.astatus, State.CANCELLED)


async def _count(line: Line) -> int:
    return len(await living(line))


async def test_o3_a_success_long_after_the_cool_down_forgets_the_throttles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[O3] Not one that comes sooner than 120 s after the deadline."""
    monkeypatch.setattr(engine, "FEEDBACK_EVERY", 0.01)
    clock = Clock()
    line = Line(SQLiteStore(":memory:", clock=clock))
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
    assert "has no task not.here" in caplog.text


async def test_o5_cancel_here_is_at_once_and_elsewhere_within_a_heartbeat(
    wired: Windlass, line: Line, scene: Scene
) -> None:
    """[O5]"""
    set_quick(wired, lease=30.0)  # so that no heartbeat comes to help the first one
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
