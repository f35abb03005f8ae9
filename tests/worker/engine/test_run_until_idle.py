"""The loop around the handlers: slots, queues, cancels, poison rows, interruption, jobs that run alone."""

import asyncio
import threading

import pytest

from tests.apps import endless
from tests.stopwatch import within
from tests.tasks.counting import count_jobs
from tests.worker.line import Line
from windlass import Retry, State, Windlass
from windlass.core.retry import DeathPolicy
from windlass.errors import ConfigurationError, WorkerLost
from windlass.settings import Events, Settings
from windlass.store.records import ClaimedJob, NewJob, Outcome, WorkerInfo
from windlass.store.sqlite import SQLiteStore
from windlass.worker.engine import run_until_idle as module
from windlass.worker.engine.run_until_idle import RunCounts, run_until_idle


@pytest.fixture
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEATS", 3000)  # of a lease of 30 s


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
    assert any_app.run_until_idle(concurrency=8) == RunCounts(succeeded=80)
    assert any_app.run_until_idle() == RunCounts()
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


def test_fault_17_a_poison_payload_hurts_only_its_own_job(caplog: pytest.LogCaptureFixture) -> None:
    store = SQLiteStore(":memory:")
    app = Windlass(store=store)

    @app.task(name="careful", retry=Retry(1))
    async def careful(number: int) -> int:
        return number

    bad = ["{broken", '"text"', "5", '{"number":"x"}', "[1,2]", "{}", '{"*":5}', f'["{"x" * 50_000_000}"]']
    options = careful._template.options
    asyncio.run(store.enqueue([NewJob(task="careful", payload=text, options=options) for text in bad]))
    good = careful.enqueue(7)
    assert app.run_until_idle() == RunCounts(succeeded=1, dead=len(bad))
    assert good.result() == 7
    assert "argument 'number'" in caplog.text


def test_a_job_may_await_the_result_of_another(any_app: Windlass) -> None:
    @any_app.task
    async def child(number: int) -> int:
        return number + 1

    @any_app.task
    async def parent(number: int) -> int:
        return await (await child.aenqueue(number)).aresult("30s") * 10

    job = parent.enqueue(1)
    assert any_app.run_until_idle() == RunCounts(succeeded=2)
    assert job.result() == 20


def test_jobs_for_later_are_left_unless_they_come_due_in_time(any_app: Windlass) -> None:
    echo = any_app.named("windlass.echo")
    soon = echo.using(delay="200ms").enqueue(1)
    assert any_app.run_until_idle(wait="60s") == RunCounts(succeeded=1)  # and no longer than it takes
    far = echo.using(delay="1h").enqueue(2)
    assert any_app.run_until_idle() == RunCounts()
    assert any_app.run_until_idle(wait="100ms") == RunCounts()
    assert (soon.status(), far.status()) == (State.SUCCEEDED, State.SCHEDULED)


@pytest.mark.usefixtures("quick_heartbeats")
async def test_o5_a_running_job_is_cancelled_within_a_heartbeat(app: Windlass) -> None:
    waits, started = endless(app)
    job = await waits.aenqueue()
    async with app._store_handle().here() as store:
        running = asyncio.create_task(run_until_idle(store, app.tasks))
        await started.wait()
        assert await job.acancel() == "requested"
        assert await running == RunCounts(cancelled=1)
    assert await job.astatus() == State.CANCELLED


async def test_c4_it_has_the_lease_of_the_settings_and_sends_heartbeats_three_times_as_often(
    app: Windlass,
) -> None:
    @app.task
    async def watch() -> float:
        (worker,) = await app._store_handle().acall(lambda store: store.workers())
        beaten = worker.heartbeat
        async with within(5):  # of a lease of 30 s, the first heartbeat takes 10 s
            while worker.heartbeat < beaten + 2:
                await asyncio.sleep(0.01)
                (worker,) = await app._store_handle().acall(lambda store: store.workers())
        return worker.lease

    job = await watch.aenqueue()
    async with app._store_handle().here() as store:
        assert await run_until_idle(store, app.tasks, settings=Settings(lease=0.3)) == RunCounts(succeeded=1)
    assert await job.aresult() == 0.3


@pytest.mark.usefixtures("quick_heartbeats")
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
    async with app._store_handle().here() as store:
        running = asyncio.create_task(run_until_idle(store, app.tasks))
        for event in started.values():
            await event.wait()
        await ends.acancel()
        await fails.acancel()
        assert await running == RunCounts(succeeded=1, cancelled=1)
    assert await ends.aresult() == "finished"
    assert await fails.astatus() == State.CANCELLED


async def test_an_interrupted_call_gives_its_jobs_back_uncharged(any_app: Windlass) -> None:
    waits, started = endless(any_app)
    done, job = await any_app.aenqueue("windlass.echo"), await waits.aenqueue()
    running = asyncio.create_task(any_app.arun_until_idle())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    record = await job.arecord()
    assert (record.state, record.attempt, record.deaths) == (State.READY, 1, 0)
    assert await done.astatus() == State.SUCCEEDED
    workers = await any_app._store_handle().acall(lambda store: store.workers())
    assert not any(worker.alive for worker in workers)


async def test_e8_an_interrupted_job_has_begun_and_expires_no_more(any_app: Windlass) -> None:
    """[E8] The other one, which was claimed and not begun, still does."""

    @any_app.task(expires="1h")
    async def waits() -> None:
        begun.set()
        await asyncio.Event().wait()

    begun = asyncio.Event()
    async with any_app:
        first, second = await waits.aenqueue(), await waits.aenqueue()
        running = asyncio.create_task(any_app.arun_until_idle(concurrency=1))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await first.arecord()).options.expires_at is None
        assert (await second.arecord()).options.expires_at is not None


@pytest.mark.usefixtures("quick_heartbeats")
async def test_c5_a_call_that_was_declared_dead_stops(app: Windlass) -> None:
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
    async with app._store_handle().here() as store:
        running = asyncio.create_task(run_until_idle(store, app.tasks))
        await started.wait()
        rescued = None
        while rescued is None:  # its heartbeats go on, so the counter we saw may have moved
            (worker,) = await store.workers()
            rescued = await store.rescue(worker.id, worker.heartbeat, DeathPolicy())
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

    crashed = await watch.using(priority="urgent").aenqueue("crashed")
    async with app._store_handle().here() as store:
        await store.register(WorkerInfo(id=7))
        await store.claim(7, ["default"], 1)
        assert await store.rescue(7, 0, DeathPolicy()) is not None
        await watch.aenqueue_many([(f"other {number}",) for number in range(20)])
        assert await run_until_idle(store, app.tasks, concurrency=4) == RunCounts(succeeded=21)
    assert (await crashed.arecord()).deaths == 1
    assert [names for names in beside if "crashed" in names] == [{"crashed"}]


async def test_every_outcome_can_be_observed(app: Windlass) -> None:
    seen: list[tuple[str, str]] = []

    def observe(job: ClaimedJob, outcome: Outcome, error: BaseException | None) -> None:
        seen.append((outcome.kind.value, type(error).__name__))

    @app.task(retry=Retry(1))
    async def fails() -> None:
        raise OSError

    await fails.aenqueue()
    async with app._store_handle().here() as store:
        await run_until_idle(store, app.tasks, observe=observe)
    assert seen == [("retry", "OSError")]
    assert count_jobs(app) == 1


async def test_a_call_that_is_cancelled_while_it_leaves_leaves_nothing_behind() -> None:
    """A store that hangs, say: whoever has enough of waiting is not followed by its measures."""
    line = Line(SQLiteStore(":memory:"))
    leaving = asyncio.Event()

    async def hang(*_: object) -> None:
        leaving.set()
        await asyncio.Event().wait()

    line.before["retire"] = hang
    await line.open()
    others = asyncio.all_tasks()
    running = asyncio.create_task(run_until_idle(line.as_store, {}))
    await leaving.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - others == set()


@pytest.mark.parametrize(("wanted", "seen"), [("off", []), ("notable", ["dead"])])
async def test_m2_it_tells_what_the_settings_want_under_its_label(wanted: Events, seen: list[str]) -> None:
    store = SQLiteStore(":memory:")
    with Windlass(store=store, events=wanted, label_prefix="here") as app:

        @app.task(retry=Retry(1))
        async def fail() -> None:
            raise ValueError("no")

        await fail.aenqueue()
        await app.arun_until_idle()
        events = await store.events()
    assert [event.kind for event in events] == seen
    assert all(event.worker.startswith("here-worker-") for event in events)
