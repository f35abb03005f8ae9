"""Schedules made and changed at run time, beside those that code declares, and fires by the second [K4]."""

import asyncio
import itertools
from datetime import datetime, timedelta

import pytest

from tests.stopwatch import Stopwatch, within
from tests.tasks.test_schedules import MIDNIGHT, Fixed
from windlass import Windlass
from windlass.errors import ConfigurationError, InvalidArguments
from windlass.store.records import JobFilter, WorkerInfo
from windlass.worker.engine.declare import declare


@pytest.fixture
def fixed() -> Fixed:
    return Fixed()


# -- made, changed, removed ---------------------------------------------------------------------------------


def test_k4_one_is_made_changed_and_removed(any_app: Windlass) -> None:
    """[K4] [K11] On every store, without `await`."""

    @any_app.task(name="sweep", queue="reports")
    async def sweep(region: str = "us", depth: int = 1) -> None: ...

    schedules = any_app.schedules
    made = schedules.add("eu", "0 9 * * *", task=sweep, tz="Europe/Paris", kwargs={"region": "eu"})
    assert (made.origin, made.task, made.queue, made.payload) == (
        "live",
        "sweep",
        "reports",
        {"region": "eu"},
    )
    with pytest.raises(ValueError, match="there is a schedule eu already"):
        schedules.add("eu", "0 9 * * *", task=sweep)
    changed = schedules.set("eu", every="10s", overlap="queue")
    assert (changed.cron, changed.overlap, changed.tz) == ("@every 10s", "queue", "Europe/Paris")
    assert changed.payload == {"region": "eu"}
    again = schedules.set("eu", args=["fr", 2])
    assert (again.payload, again.queue, again.cron) == ({"region": "fr", "depth": 2}, "reports", "@every 10s")
    assert [each.name for each in schedules.records()] == ["eu"]
    assert schedules.remove("eu")
    with pytest.raises(LookupError, match="no schedule 'eu'"):
        schedules.set("eu", "0 9 * * *")


async def test_k4_one_made_at_run_time_survives_deploys(fixed: Fixed) -> None:
    """[K4] And fires, for a task that is given by its name, too."""
    await fixed.app.schedules.aadd("often", every=timedelta(minutes=30), task="report", args=["x"])
    await declare(fixed.app, fixed.store)
    assert await fixed.tick(1799) == 0
    assert await fixed.tick(1) == 1
    await fixed.app.arun_until_idle()
    assert fixed.ran == ["x"]


async def test_k4_options_of_its_jobs_come_from_using(fixed: Fixed) -> None:
    """[K4] They stay when only its arguments change."""
    task = fixed.report.using(queue="slow", priority="high", tags=["nightly"])
    await fixed.app.schedules.aadd("s", "0 9 * * *", task=task)
    await fixed.app.schedules.aset("s", args=["x"])
    (record,) = await fixed.store.schedules()
    assert (record.queue, record.priority, record.options.tags) == ("slow", 1, ("nightly",))
    assert record.payload == '{"what":"x"}'
    await fixed.app.schedules.aset("s", task=fixed.report)
    (record,) = await fixed.store.schedules()
    assert (record.queue, record.options.tags, record.payload) == ("default", (), "{}")


async def test_k4_what_makes_no_sense_is_refused_and_nothing_is_stored(fixed: Fixed) -> None:
    """[K4]"""
    schedules = fixed.app.schedules
    for cron, given, wrong in (
        ("61 * * * *", {}, "schedule s: '61"),
        ("0 9 * * *", {"tz": "Mars/Olympus"}, "schedule s: there is no time zone"),
        ("0 9 * * *", {"every": "10s"}, "schedule s: give an expression or every=, not both"),
        (None, {}, "schedule s needs an expression"),
        (None, {"every": "0.2s"}, "schedule s: every='0.2s' cannot be kept"),
        ("0 9 * * *", {"missed": "never"}, "schedule s: missed='never'"),
    ):
        with pytest.raises(ConfigurationError, match=f"^{wrong}"):
            await schedules.aadd("s", cron, task=fixed.report, **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments):
        await schedules.aadd("s", "0 9 * * *", task=fixed.report, kwargs={"nobody": 1})
    with pytest.raises(ConfigurationError, match="has delay from using"):
        await schedules.aadd("s", "0 9 * * *", task=fixed.report.using(delay=5))
    assert await schedules.arecords() == []
    await schedules.aadd("s", "0 9 * * *", task=fixed.report)
    with pytest.raises(ConfigurationError, match="'61"):
        await schedules.aset("s", "61 * * * *")
    assert [each.cron for each in await schedules.arecords()] == ["0 9 * * *"]


# -- beside the code ----------------------------------------------------------------------------------------


async def test_k4_a_change_at_run_time_is_kept_and_the_way_back_is_there(
    fixed: Fixed, caplog: pytest.LogCaptureFixture
) -> None:
    """[K4] As with budgets: what code says never overwrites it, and the log says so."""
    fixed.app.schedule("0 9 * * *", missed="skip")(fixed.report)
    await declare(fixed.app, fixed.store)
    assert [each.origin for each in await fixed.app.schedules.arecords()] == ["code"]
    await fixed.app.schedules.aset("report", "0 7 * * *", missed="all", args=["x"])
    await declare(fixed.app, fixed.store)
    (found,) = await fixed.app.schedules.arecords()
    assert (found.origin, found.cron, found.missed) == ("changed", "0 7 * * *", "all")
    assert found.differences == {"cron": "0 9 * * *", "missed": "skip", "payload": "other arguments"}
    assert "schedule report is as it was changed at run time (cron, payload, missed)" in caplog.text
    back = await fixed.app.schedules.arevert("report")
    assert (back.origin, back.cron, back.payload, back.differences) == ("code", "0 9 * * *", {}, {})
    assert back.next_at is not None
    assert back.next_at.timestamp() == MIDNIGHT + 9 * 3600


async def test_k4_there_is_no_way_back_to_code_that_is_none(fixed: Fixed) -> None:
    """[K4]"""
    await fixed.app.schedules.aadd("s", "0 9 * * *", task=fixed.report)
    with pytest.raises(ValueError, match="made at run time, and no code declares it"):
        await fixed.app.schedules.arevert("s")


async def test_k4_one_whose_declaration_left_the_code_is_shown_as_such(fixed: Fixed) -> None:
    """[K4] It goes on; every worker that lives has started since, and none has declared it."""
    fixed.app.schedule("0 * * * *")(fixed.report)
    await declare(fixed.app, fixed.store)
    await fixed.store.register(WorkerInfo(id=1))
    fixed.clock.advance(3000)
    assert [each.origin for each in await fixed.app.schedules.arecords()] == ["code"]
    await fixed.store.register(WorkerInfo(id=2))
    assert [each.origin for each in await fixed.app.schedules.arecords()] == ["code"]
    await fixed.store.retire(1)
    assert [each.origin for each in await fixed.app.schedules.arecords()] == ["left"]
    assert await fixed.tick(600) == 1
    await declare(fixed.app, fixed.store)
    assert [each.origin for each in await fixed.app.schedules.arecords()] == ["code"]


# -- by the second ------------------------------------------------------------------------------------------


def test_k4_by_the_second_in_code(app: Windlass) -> None:
    """[K4]"""

    @app.schedule(every="10s")
    @app.task(name="one")
    def one() -> None: ...

    app.schedule("*/5 * * * * *", name="two")(one)
    app.schedule("@daily", name="three")(one)
    crons = {each.name: each.cron for each in app.schedules.declared}
    assert crons == {"one": "@every 10s", "two": "*/5 * * * * *", "three": "@daily"}
    with pytest.raises(ConfigurationError, match="needs an expression"):
        app.schedule()
    with pytest.raises(ConfigurationError, match="needs an expression, or every= in its place"):
        app.schedule("@daily", every="10s")


@pytest.mark.slow
def test_k4_each_second_fires_on_time(any_app: Windlass) -> None:
    """[K4] The whole way on every store, made while the worker runs: no second is left out or comes twice,
    and each job is made less than a second after its time."""
    seen: asyncio.Queue[str] = asyncio.Queue()

    @any_app.task(name="tick")
    async def tick() -> None:
        seen.put_nowait("ran")

    async def work() -> tuple[list[float], list[float]]:
        async with any_app.worker(), any_app._store_handle().here() as store:
            await any_app.schedules.aadd("tick", every="1s", task=tick, overlap="queue")
            async with within(30):
                for _ in range(4):
                    await seen.get()
            await any_app.schedules.apause("tick")
            page = await store.jobs(JobFilter(task="tick"), 100)
            jobs = sorted(page.jobs, key=lambda job: job.enqueued_at)
            times = [job.options.headers["windlass-scheduled-for"] for job in jobs]
            return [datetime.fromisoformat(time).timestamp() for time in times], [
                job.enqueued_at for job in jobs
            ]

    watch = Stopwatch()
    times, made = asyncio.run(work())
    assert all(later - time == 1 for time, later in itertools.pairwise(times))
    late = [at - time for time, at in zip(times, made, strict=True)]
    assert max(late) < 1 + watch.lost(), late
    assert min(late) >= -0.01
