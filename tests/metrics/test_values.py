"""The value of every metric, of a store that stands in a known way [M1]. How a scrape is written is in
test_exposition.py."""

import functools
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from tests.conformance.kit import Rig
from tests.metrics.scrape import Series, one, scraped
from tests.web.kit import rigged
from windlass import Windlass
from windlass.core.flow.breaker import BreakerState
from windlass.core.flow.governor import Governor
from windlass.core.rollup import Sample
from windlass.core.states import Priority, State
from windlass.errors import QueueFull, Shed
from windlass.metrics.prometheus import render
from windlass.metrics.reading import Reading, Slow, read
from windlass.store.records import BudgetRecord, Health, ScheduleRecord, Table, TaskDepth
from windlass.store.sqlite import SQLiteStore


async def series_of(rig: Rig) -> Series:
    return scraped(render(await read(rig.store, Slow())))


async def test_m1_where_the_jobs_of_a_queue_stand(any_app: Windlass) -> None:
    counts = {State.RUNNING: 1, State.RETRYING: 2, State.DEAD: 3, State.SCHEDULED: 4}
    async with any_app, rigged(any_app) as rig:
        worker = await rig.worker("default")
        for state, count in counts.items():
            for _ in range(count):
                await rig.bring(state, worker)
        await rig.add(*["t"] * 5)
        await rig.store.assign(await rig.lead(1), {worker: {"default": 7}})
        series = await series_of(rig)
        told = {
            name: one(series, f"windlass_queue_{name}", queue="default")
            for name in ("running", "retrying", "dead", "scheduled", "depth", "runnable", "demand", "slots")
        }
        assert told == {state.value: count for state, count in counts.items()} | {
            "depth": 5, "runnable": 5, "demand": 6, "slots": 7
        }  # fmt: skip
        assert one(series, "windlass_coordinator") == 1
        await rig.store.set_queue("default", {"paused": True})
        series = await series_of(rig)
        assert one(series, "windlass_queue_depth", queue="default") == 5
        assert one(series, "windlass_queue_runnable", queue="default") == 0
        assert one(series, "windlass_queue_demand", queue="default") == 1


async def test_m1_what_holds_a_queue_up(any_app: Windlass) -> None:
    async with any_app, rigged(any_app) as rig:
        await rig.add("t", queue="hot")
        await rig.store.throttle("hot")
        await rig.store.set_queue("slow", {"governor": True, "rate_min": 2.0, "rate_max": 100.0})
        await rig.store.govern(await rig.lead(1), "slow", Governor(rate=12.5, why="decided"))
        await rig.store.set_queue("full", {"max_depth": 1})
        await rig.add("t", queue="full")
        for _ in range(2):
            with pytest.raises(QueueFull):
                await rig.add("t", queue="full")
        await rig.store.set_queue("slow", {"shed_depth": 1})
        await rig.add("t", queue="slow")
        with pytest.raises(Shed):
            await rig.add("t", queue="slow", priority=Priority.LOW)
        series = await series_of(rig)
    assert one(series, "windlass_queue_cooling_seconds", queue="hot") == pytest.approx(60, abs=15)
    assert one(series, "windlass_queue_cooling_seconds", queue="slow") == 0
    assert one(series, "windlass_queue_rate", queue="slow") == 12.5
    assert not any(name == "windlass_queue_rate" and "hot" in str(labels) for name, labels in series)
    refused = {queue: one(series, "windlass_jobs_refused_total", queue=queue) for queue in ("full", "slow")}
    shed = {queue: one(series, "windlass_jobs_shed_total", queue=queue) for queue in ("full", "slow")}
    assert (refused, shed) == ({"full": 2, "slow": 0}, {"full": 0, "slow": 1})


def told(reading: Reading, **changed: Any) -> Series:
    """A scrape of a reading with these fields replaced."""
    return scraped(render(replace(reading, **changed)))


@pytest.fixture
async def empty() -> Reading:
    """What is read of an empty store."""
    store = SQLiteStore(":memory:")
    await store.open()
    return await read(store, Slow())


async def test_m1_how_budgets_and_schedules_stand(empty: Reading) -> None:
    budget = BudgetRecord(name="api", rate=1.0, burst=9, tokens=4.5, used=17.0, waiting=3, state="half-open")
    due = {"late": 70.0, "later": 90.0, "never": None, "soon": 200.0}
    schedules = [ScheduleRecord(name=name, cron="@daily", task="t", next_at=at) for name, at in due.items()]
    schedules.append(ScheduleRecord(name="paused", cron="@daily", task="t", next_at=1.0, paused=True))
    series = told(empty, now=100.0, budgets=[budget], schedules=schedules)
    of_budget = functools.partial(one, series, budget="api")
    values = [of_budget(f"windlass_budget_{name}") for name in ("tokens", "used", "waiting")]
    assert values == [4.5, 17, 3]
    states = {name: of_budget("windlass_budget_state", state=name) for name in get_args(BreakerState)}
    assert states == {"closed": 0, "open": 0, "half-open": 1}
    assert one(series, "windlass_schedule_overdue_seconds") == 30
    assert one(told(empty, now=60.0, schedules=schedules), "windlass_schedule_overdue_seconds") == 0


async def test_m1_how_the_store_does(empty: Reading) -> None:
    health = Health(
        store="SQLite 3",
        bytes=1234,
        oldest_snapshot=7.5,
        locks_held=6.5,
        reports=11,
        tables=(Table(name="t", bytes=1, dead=2), Table(name="unknown", bytes=1)),
    )
    series = told(empty, health=health, latency=0.25, left_out=4)
    names = ("store_bytes", "store_latency_seconds", "oldest_snapshot_seconds", "locks_held_seconds")
    assert [one(series, f"windlass_{name}") for name in names] == [1234, 0.25, 7.5, 6.5]
    assert one(series, "windlass_reports_waiting") == 11
    assert one(series, "windlass_tasks_left_out") == 4
    assert [value for (name, _), value in series.items() if name == "windlass_dead_tuples"] == [2]
    assert [value for (name, _), value in series.items() if name == "windlass_segment_blocked"] == [0]
    assert one(series, "windlass_segment_blocked_seconds") == 0
    unknown = told(empty, health=Health(store="SQLite 3"))
    assert not {name for name, _ in unknown} & {f"windlass_{name}" for name in names[2:]}


async def test_m1_what_was_counted(empty: Reading) -> None:
    kinds = ("claims", "claimed", "empty", "refused", "rescued", "lost", "unresponsive", "dropped")
    counts = {kind: n for n, kind in enumerate(kinds, 1)}
    series = told(
        empty,
        everything=Sample(at=0, counts=counts),
        slow=Slow([TaskDepth(queue="q", task="t", ready=9, estimate=True)], {"q": 2.5}),
        logins={"wrong": 3},
    )
    told_as = "claims claimed_jobs empty_claims refused_writes rescued_jobs lost_workers unresponsive_workers"
    for n, name in enumerate([*told_as.split(), "events_dropped"], 1):
        assert one(series, f"windlass_{name}_total") == n
    assert one(series, "windlass_task_ready", queue="q", task="t", estimate="yes") == 9
    assert one(series, "windlass_watermark_age_seconds", queue="q") == 2.5
    assert one(series, "windlass_logins_refused_total", reason="wrong") == 3


async def test_m1_the_most_silent_worker_and_those_that_died(any_app: Windlass) -> None:
    async with any_app, rigged(any_app) as rig:
        for _ in range(2):
            await rig.worker("q")
        reading = await read(rig.store, Slow())
    first, second = reading.state.workers
    workers = [
        replace(first, heartbeat_at=reading.now - 20, alive=False),
        replace(second, heartbeat_at=reading.now - 4),
        replace(second, id=3, heartbeat_at=reading.now - 1),
    ]
    series = told(reading, state=replace(reading.state, workers=workers))
    assert one(series, "windlass_worker_heartbeat_age_seconds") == pytest.approx(4)
    assert [one(series, "windlass_workers", alive=alive) for alive in ("yes", "no")] == [2, 1]
