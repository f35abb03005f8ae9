"""Schedules as users write them, and the coordinator that fires them [K4]."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.apps import clocked
from tests.stopwatch import within
from windlass import State, Windlass
from windlass.cluster.schedules import fire_due
from windlass.core.states import Priority
from windlass.errors import ConfigurationError, StoreUnavailable, TermLost
from windlass.store.protocol import Store
from windlass.store.records import NewSchedule
from windlass.store.sqlite import SQLiteStore
from windlass.testing import Clock
from windlass.worker.engine.declare import declare

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC).timestamp()  # a Monday


class Fixed:
    """An app and its store, at a time of the test's choosing."""

    def __init__(self) -> None:
        self.clock = Clock(MIDNIGHT)
        self.store: Store = SQLiteStore(":memory:", clock=self.clock)
        self.app = Windlass(store=self.store)
        self.ran: list[str] = []

        @self.app.task(name="report")
        async def report(what: str = "all") -> None:
            self.ran.append(what)

        self.report = report

    async def tick(self, seconds: float = 0) -> int:
        """Time passes, and the coordinator looks once."""
        self.clock.advance(seconds)
        return (await fire_due(self.store, await self.store.lead(1, 60))).jobs

    async def times(self) -> list[str]:
        """What jobs were made for, the oldest first."""
        from windlass.store.records import JobFilter

        page = await self.store.jobs(JobFilter(task="report"), 1000)
        return [job.options.headers["windlass-scheduled-for"] for job in reversed(page.jobs)]


@pytest.fixture
def fixed() -> Fixed:
    return Fixed()


async def test_k4_a_new_schedule_waits_for_its_first_time(fixed: Fixed) -> None:
    """[K4] Seeded but not fired when first seen; then once for each time."""
    fixed.app.schedule("0 9 * * MON-FRI", tz="Europe/Paris")(fixed.report)
    await declare(fixed.app, fixed.store)
    assert await fixed.tick() == 0
    assert await fixed.tick(8 * 3600 - 1) == 0
    assert await fixed.tick(1) == 1  # nine in Paris is eight UTC
    assert await fixed.tick() == 0
    assert await fixed.tick(3600) == 0
    assert await fixed.times() == ["2026-03-02T08:00:00+00:00"]


async def test_k4_over_a_week_it_fires_on_its_days(fixed: Fixed) -> None:
    fixed.app.schedule("0 9 * * MON-FRI", overlap="queue")(fixed.report)
    await declare(fixed.app, fixed.store)
    made = [await fixed.tick(3600) for _ in range(24 * 7)]
    assert sum(made) == 5


async def test_k4_a_function_becomes_a_task(app: Windlass) -> None:
    @app.schedule("*/5 * * * *", name="often", kwargs={"what": "x"})
    def job(what: str) -> None: ...

    (declared,) = app.schedules.declared
    assert (declared.name, declared.payload) == ("often", '{"what":"x"}')
    assert declared.task in app.tasks


async def test_k4_missed_fires_are_made_up_for_as_told(fixed: Fixed) -> None:
    """[K4] Nobody coordinated for five hours: skip, latest, all."""
    for missed in ("skip", "latest", "all"):
        schedule = fixed.app.schedule("0 * * * *", name=missed, missed=missed, overlap="queue")
        schedule(fixed.report)
    await declare(fixed.app, fixed.store)
    await fixed.tick(5 * 3600 + 1800)
    by_name = {record.name: record for record in await fixed.store.schedules()}
    assert len(await fixed.times()) == 0 + 1 + 5
    assert [by_name[name].skipped for name in ("skip", "latest", "all")] == [5, 4, 0]
    assert {record.next_at for record in by_name.values()} == {MIDNIGHT + 6 * 3600}


async def test_k4_overlap_is_as_told(fixed: Fixed) -> None:
    """[K4] The last job has not ended when the next is due: skip, queue, cancel."""
    for overlap in ("skip", "queue", "cancel"):
        fixed.app.schedule("0 * * * *", name=overlap, overlap=overlap)(fixed.report)
    await declare(fixed.app, fixed.store)
    await fixed.tick(3600)
    first = {record.name: record.last_job for record in await fixed.store.schedules()}
    await fixed.tick(3600)
    second = {record.name: record.last_job for record in await fixed.store.schedules()}
    assert second["skip"] == first["skip"]
    assert second["queue"] != first["queue"]
    cancelled = await fixed.store.job(first["cancel"] or 0)
    assert cancelled is not None
    assert cancelled.state is State.CANCELLED
    await fixed.app.arun_until_idle()
    assert len(fixed.ran) == 4
    await fixed.tick(3600)
    third = {record.name: record.last_job for record in await fixed.store.schedules()}
    assert third["skip"] != first["skip"]


async def test_k4_fault_15_a_paused_coordinator_never_fires_twice(fixed: Fixed) -> None:
    """[K4] [fault 15] It comes back with an old term, or with an old view of what is due: refused."""
    fixed.app.schedule("0 * * * *", overlap="queue")(fixed.report)
    await declare(fixed.app, fixed.store)
    old = await fixed.store.lead(1, 60)
    fixed.clock.advance(3600)
    seen = await fixed.store.due()  # … and then it is paused
    fixed.clock.advance(61)
    new = await fixed.store.lead(2, 60)
    assert new is not None
    assert (await fire_due(fixed.store, new)).jobs == 1
    with pytest.raises(TermLost):
        await fixed.store.fire(old, "report", seen.schedules[0].next_at, [MIDNIGHT + 3600], next_at=1.0)
    again = await fixed.store.fire(new, "report", MIDNIGHT + 3600, [MIDNIGHT + 3600], next_at=1.0)
    assert again is None
    assert await fixed.times() == ["2026-03-02T01:00:00+00:00"]


@pytest.mark.parametrize(
    ("cron", "tz", "wrong"),
    [
        ("61 * * * *", "UTC", r"'61 \* \* \* \*' is not a cron expression \(Bad minute\)"),
        ("0 9 * *", "UTC", r"'0 9 \* \*' is not a cron expression \(Wrong number of fields\)"),
        ("every day", "UTC", "'every day' is not a cron expression"),
        ("0 0 30 2 *", "UTC", r"'0 0 30 2 \*' .*day"),
        ("0 9 * * *", "Mars/Olympus", "there is no time zone 'Mars/Olympus' here"),
    ],
)
def test_k4_a_wrong_schedule_is_refused_where_it_is_written(
    fixed: Fixed, cron: str, tz: str, wrong: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^schedule bad: {wrong}"):
        fixed.app.schedule(cron, name="bad", tz=tz)(fixed.report)
    assert fixed.app.schedules.declared == []


async def test_k4_a_bad_expression_is_recorded_and_the_rest_go_on(
    fixed: Fixed, caplog: pytest.LogCaptureFixture
) -> None:
    fixed.app.schedules.declare(NewSchedule(name="bad", cron="61 * * * *", task="report"))
    fixed.app.schedules.declare(
        NewSchedule(name="nowhere", cron="0 * * * *", task="report", tz="Mars/Olympus")
    )
    fixed.app.schedule("0 * * * *", name="good")(fixed.report)
    await declare(fixed.app, fixed.store)
    assert await fixed.tick(3600) == 1
    errors = {record.name: record.error for record in await fixed.store.schedules()}
    assert errors["good"] is None
    assert "not a cron expression" in (errors["bad"] or "")
    assert "Mars/Olympus" in (errors["nowhere"] or "")
    assert "schedule bad never fires" in caplog.text


async def test_k4_a_backfill_counts_the_jobs_that_it_made(fixed: Fixed) -> None:
    """[K4] [E6] Where one stands that has the same unique key, none is."""
    fixed.app.schedule("0 1 * * *")(fixed.report.using(unique="only"))
    await declare(fixed.app, fixed.store)
    start = datetime(2026, 2, 1, tzinfo=UTC)
    assert await fixed.app.schedules.abackfill("report", start, start + timedelta(days=3)) == 1


async def test_k4_pause_resume_run_next_and_backfill(fixed: Fixed) -> None:
    fixed.app.schedule("30 2 * * *", tz="Europe/Paris", overlap="skip")(fixed.report)
    await declare(fixed.app, fixed.store)
    schedules = fixed.app.schedules
    await schedules.apause("report")
    assert await fixed.tick(3 * 86400) == 0
    resumed = await schedules.aresume("report")
    assert resumed.next_at == datetime.fromtimestamp(MIDNIGHT + 3 * 86400 + 5400, UTC)
    assert await fixed.tick() == 0
    assert await schedules.arun("report") is not None
    paris = ZoneInfo("Europe/Paris")
    assert await schedules.anext("report", 2) == [
        datetime(2026, 3, 5, 2, 30, tzinfo=paris),
        datetime(2026, 3, 6, 2, 30, tzinfo=paris),
    ]
    start = datetime(2026, 2, 1, tzinfo=UTC)
    assert await schedules.abackfill("report", start, start + timedelta(days=3)) == 3
    assert len(await fixed.times()) == 4
    with pytest.raises(LookupError, match="schedules list"):
        await schedules.apause("nobody")
    assert await schedules.aremove("report") is True
    assert await schedules.arecords() == []


async def test_k4_a_changed_expression_takes_effect_and_a_pause_stays(fixed: Fixed) -> None:
    fixed.app.schedule("0 9 * * *")(fixed.report)
    await declare(fixed.app, fixed.store)
    await fixed.app.schedules.apause("report")
    other = Windlass(store=fixed.store)

    @other.schedule("0 7 * * *")
    @other.task(name="report")
    async def report(what: str = "all") -> None: ...

    await declare(other, fixed.store)
    (record,) = await fixed.store.schedules()
    assert (record.next_at, record.paused) == (MIDNIGHT + 7 * 3600, True)


async def test_k4_fault_14_the_clock_that_counts_is_the_stores(fixed: Fixed) -> None:
    """[fault 14] What this process takes for the time of day is never asked."""
    fixed.app.schedule("0 * * * *")(fixed.report)
    await declare(fixed.app, fixed.store)
    assert await fixed.tick() == 0  # by this machine's clock it has been due for years, or is for ages not
    (record,) = await fixed.store.schedules()
    assert record.next_at == MIDNIGHT + 3600


def test_k4_a_worker_seeds_and_its_coordinator_fires(any_app: Windlass) -> None:
    """[K4] The whole way, on every store: a worker seeds it, and when it is due its coordinator fires it."""
    ran = asyncio.Event()

    @any_app.schedule("* * * * *")
    @any_app.task(name="tick")
    async def tick() -> None:
        ran.set()

    async def work() -> None:
        async with any_app.worker(), any_app._store_handle().here() as store:
            await store.set_schedule("tick", next_at=await store.now() - 1)
            async with within(15):
                await ran.wait()

    asyncio.run(work())
    (record,) = any_app.schedules.records()
    assert record.last_job is not None


async def test_a_schedule_keeps_the_types_of_what_it_decorates(app: Windlass) -> None:
    """As mypy sees it, too: a function becomes a task, a task stays what it is."""

    @app.schedule("0 9 * * *", tz=ZoneInfo("Europe/Paris"))
    async def sweep(region: str = "eu") -> int:
        return 1

    assert app.schedules.declared[0].tz == "Europe/Paris"
    job = await sweep.aenqueue("us")
    await app.arun_until_idle()
    assert await job.aresult() + 1 == 2


async def test_one_that_cannot_fire_does_not_keep_the_others_from_it(
    fixed: Fixed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[K4] A producer's transaction holds its unique key, say: it is tried again, and the rest go on."""
    for name in ("first", "second"):
        fixed.app.schedule("0 * * * *", name=name)(fixed.report)
    await declare(fixed.app, fixed.store)
    fire = fixed.store.fire

    async def locked(term: int | None, name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "first":
            raise StoreUnavailable("somebody holds its key")
        return await fire(term, name, *args, **kwargs)

    monkeypatch.setattr(fixed.store, "fire", locked)
    with pytest.raises(StoreUnavailable):
        await fixed.tick(3600)
    fired = {record.name: record.last_job for record in await fixed.store.schedules()}
    assert fired["first"] is None
    assert fired["second"] is not None


def test_what_makes_no_sense_is_refused(app: Windlass) -> None:
    with pytest.raises(ConfigurationError, match="needs an expression"):
        app.schedule(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="not a time zone"):
        app.schedule("* * * * *", tz=7)(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="missed"):
        app.schedule("* * * * *", missed="never")(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="tzone"):
        app.schedule("* * * * *", tzone="UTC")  # type: ignore[call-arg]

    @app.schedule("0 1 * * *")
    @app.task(name="one")
    def one() -> None: ...

    with pytest.raises(ConfigurationError, match="two schedules are called one"):
        app.schedule("0 2 * * *")(one)


def test_options_that_a_schedule_does_not_keep_are_refused(fixed: Fixed) -> None:
    nightly = fixed.app.schedule("0 1 * * *")
    for task, lost in (
        (fixed.report.using(delay="5m"), "delay"),
        (fixed.report.using(run_at=datetime.now(UTC)), "run_at"),
        (fixed.report.using(unique="only", on_conflict="replace"), "on_conflict"),
        (fixed.report.using(unique="only", debounce="5m"), "delay, on_conflict"),
        (fixed.report.using(idempotency_key="first"), "idempotency_key"),
        (fixed.report.using(connection=object()), "connection"),
    ):
        with pytest.raises(ConfigurationError, match=f"has {lost} from using"):
            nightly(task)
    assert fixed.app.schedules.declared == []
    nightly(fixed.report.using(unique="only", priority="high"))
    assert [each.priority for each in fixed.app.schedules.declared] == [Priority.HIGH]


def test_clocked_apps_fire_by_their_clock() -> None:
    with clocked() as (app, clock):
        assert asyncio.run(app._store_handle().acall(lambda store: store.now())) == clock()
