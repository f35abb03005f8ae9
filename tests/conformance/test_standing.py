"""How things stand: the vitals of workers, ready jobs by task, what was offered, since when a claimed job was
ready, and the store's own health [M1] [M3]."""

import itertools

import pytest

from tests.conformance.kit import Rig, unsaid
from windlass.core.states import Kind, Priority
from windlass.store.protocol import Store
from windlass.store.records import Busy, Event, Report, TaskDepth, Vitals

SOON = 30.0
"""Seconds by which the clock of a slow computer may run on."""


async def vitals_of(store: Store, worker: int) -> Vitals | None:
    """What a worker has told last."""
    return next(one.vitals for one in await store.workers() if one.id == worker)


async def reported_at(store: Store, worker: int) -> float | None:
    """When it did."""
    return next(one.vitals_at for one in await store.workers() if one.id == worker)


# -- vitals ---------------------------------------------------------------------------------------------


async def test_a_worker_shows_what_it_told_last(rig: Rig) -> None:
    """[M3] With the time by the store's clock."""
    worker, other = await rig.worker(), await rig.worker()
    assert (await vitals_of(rig.store, worker), await reported_at(rig.store, worker)) == (None, None)
    busy = Busy(job=2**62, task="t", queue="q", since=5.5)
    first = Vitals(cpu=0.5, memory=2**40, running=1, slots=4, jobs=(busy,), lag=0.01, newest=5.5)
    assert unsaid(first) == set()
    at = await rig.store.report(worker, 1, Report(vitals=first))
    assert await vitals_of(rig.store, worker) == first
    assert await reported_at(rig.store, worker) == pytest.approx(at, abs=0.001)
    await rig.clock.advance(1000)
    at = await rig.store.report(worker, 2, Report(vitals=Vitals(slots=4)))
    assert await vitals_of(rig.store, worker) == Vitals(slots=4)
    assert await reported_at(rig.store, worker) == pytest.approx(at, abs=0.001)
    assert await vitals_of(rig.store, other) is None


async def test_old_news_and_news_without_vitals_change_nothing(rig: Rig) -> None:
    """[M3]"""
    worker = await rig.worker()
    at = await rig.store.report(worker, 5, Report(vitals=Vitals(slots=4)))
    await rig.clock.advance(1000)
    await rig.store.report(worker, 4, Report(vitals=Vitals(slots=3)))
    await rig.store.report(worker, 5, Report(vitals=Vitals(slots=5)))
    await rig.store.report(worker, 6, Report())
    assert await vitals_of(rig.store, worker) == Vitals(slots=4)
    assert await reported_at(rig.store, worker) == pytest.approx(at, abs=0.001)


async def test_who_is_no_worker_is_not_shown(rig: Rig) -> None:
    """[M3] A producer may tell, too."""
    worker = await rig.worker()
    await rig.store.report(5, 1, Report(vitals=Vitals(slots=4)))
    assert [one.id for one in await rig.store.workers()] == [worker]
    assert await vitals_of(rig.store, worker) is None


async def test_who_is_silent_for_a_day_is_forgotten(rig: Rig) -> None:
    """[M1] It may begin again at 1. Only a worker that is alive is remembered."""
    worker, gone = await rig.worker(), await rig.worker()
    await rig.store.retire(gone)
    for source in (worker, gone, 5):
        await rig.store.report(source, 9, Report(vitals=Vitals(slots=4)))
    await rig.clock.advance(86400 + SOON)
    while (await rig.store.rollup()).more:
        pass
    now = await rig.store.now()
    for source in (worker, gone, 5):
        found = Event(at=now, kind="started", worker=str(source))
        await rig.store.report(source, 1, Report(events=[found], vitals=Vitals(slots=1)))
    assert [event.worker for event in await rig.store.events()] == ["5", str(gone)]
    assert await vitals_of(rig.store, worker) == Vitals(slots=4)


async def test_who_was_lost_may_tell_what_it_saw(rig: Rig) -> None:
    """[M1] It needs no lease."""
    worker = await rig.worker()
    await rig.die(worker)
    await rig.store.report(worker, 1, Report(vitals=Vitals(slots=4)))
    assert worker not in [one.id for one in await rig.store.workers() if one.alive]


# -- ready jobs by task ---------------------------------------------------------------------------------


async def test_ready_jobs_are_counted_by_task(rig: Rig) -> None:
    """[M1] Over the lanes of a queue; those that run or wait for their time are not ready."""
    worker = await rig.worker()
    assert await rig.store.task_depths() == []
    await rig.add("a")
    await rig.claim(worker)
    await rig.add("b", delay=60)
    await rig.add("a", "b", "a", "c")
    await rig.add("a", priority=Priority.LOW)
    await rig.add("a", queue="other")
    assert await rig.store.task_depths() == [
        TaskDepth(queue="default", task="a", ready=3),
        TaskDepth(queue="default", task="b", ready=1),
        TaskDepth(queue="default", task="c", ready=1),
        TaskDepth(queue="other", task="a", ready=1),
    ]


async def test_those_aside_are_ready_too(rig: Rig) -> None:
    """[M1] [C3] [F3] [F6] Whoever waits for a turn, a slot or an order."""
    await rig.add("fair", "fair", "fair", fair_key="f")
    await rig.add("ordered", "ordered", ordering_key="o")
    await rig.add("keyed", "keyed", concurrency_key="k")
    assert await rig.store.task_depths() == [
        TaskDepth(queue="default", task="fair", ready=3),
        TaskDepth(queue="default", task="keyed", ready=2),
        TaskDepth(queue="default", task="ordered", ready=2),
    ]


async def test_a_long_lane_is_counted_in_part(rig: Rig) -> None:
    """[M1] And says so; a short one does not."""
    await rig.add("a", "a", "b", "b", "b")
    await rig.add("a", "a", "a", queue="other")
    found = {(one.queue, one.task): one for one in await rig.store.task_depths(most=3)}
    assert found["default", "a"] == TaskDepth(queue="default", task="a", ready=2, estimate=True)
    assert found["default", "b"] == TaskDepth(queue="default", task="b", ready=1, estimate=True)
    assert found["other", "a"] == TaskDepth(queue="other", task="a", ready=3)


async def test_those_aside_are_counted_in_part(rig: Rig) -> None:
    """[M1] Up to as many a queue."""
    await rig.add(*["t"] * 5, concurrency_key="k", priority=Priority.LOW)
    await rig.add(*["t"] * 5, concurrency_key="l")
    (found,) = await rig.store.task_depths(most=3)
    assert found.estimate
    assert found.ready <= 2 + 3  # one of each key may stand in its lane


# -- what was offered -----------------------------------------------------------------------------------


async def test_what_was_offered_is_counted_whatever_becomes_of_it(rig: Rig) -> None:
    """[M1] New jobs, retries, those handed back; it never falls."""
    worker = await rig.worker()
    seen = [await rig.offered()]

    async def grew(by: int) -> None:
        seen.append(await rig.offered())
        assert seen[-1] - seen[-2] == by

    ids = await rig.add("t", "t", "t")
    await rig.add("t", priority=Priority.LOW)
    await rig.add("t", queue="other")
    await grew(4)
    first, second, *_ = await rig.claim(worker, limit=2)
    await grew(0)
    await rig.finish(worker, first, Kind.RELEASED)
    await grew(1)
    await rig.finish(worker, second, Kind.RETRY, delay=60)
    await grew(0)
    await rig.clock.advance(61)
    await rig.store.promote()
    await grew(1)
    await rig.one(delay=60)
    await grew(0)
    await rig.store.cancel(ids[2:])
    await rig.store.delete(ids[:1])
    await grew(0)
    await rig.finish(worker, await rig.claim(worker))
    await grew(0)
    assert await rig.offered("other") == 1


async def test_turning_the_logs_takes_nothing_back(rig: Rig) -> None:
    """[M1] [K6]"""
    worker = await rig.worker()
    await rig.add(*["t"] * 6)
    await rig.finish(worker, await rig.claim(worker, limit=3))
    seen = [await rig.offered()]
    for _ in range(10):
        await rig.store.rotate(force=True)
        seen.append(await rig.offered())
    assert seen[0] == 6
    assert all(before <= after for before, after in itertools.pairwise(seen))


async def test_who_waits_aside_is_offered_when_let_in(rig: Rig) -> None:
    """[M1] [F3] Not before."""
    worker = await rig.worker()
    await rig.add("t", "t", concurrency_key="k")
    await rig.store.promote()
    assert await rig.offered() == 1
    await rig.finish(worker, await rig.claim(worker))
    await rig.store.promote()
    assert await rig.offered() == 2


# -- since when a claimed job was ready -----------------------------------------------------------------


async def test_a_plain_job_is_ready_from_when_it_was_enqueued(rig: Rig) -> None:
    """[M1]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.clock.advance(500)
    claimed = await rig.run(worker, id)
    assert claimed.ready_at == pytest.approx(claimed.enqueued_at, abs=SOON)
    ((held,),) = [claim.jobs for claim in await rig.store.unfinished(worker)]
    assert held.ready_at == pytest.approx(claimed.ready_at, abs=0.001)


async def test_a_job_put_off_is_ready_when_it_is_due(rig: Rig) -> None:
    """[M1] Its wait begins when promotion finds it due."""
    worker = await rig.worker()
    receipt = await rig.one(delay=1000)
    await rig.clock.advance(1001)
    await rig.store.promote()
    await rig.clock.advance(500)
    claimed = await rig.run(worker, receipt.id)
    assert claimed.ready_at - claimed.enqueued_at == pytest.approx(1001, abs=SOON)


async def test_each_attempt_has_its_own_wait(rig: Rig) -> None:
    """[M1] Put off, handed back, or brought back by an operator: what went before does not count."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.clock.advance(1000)
    claimed = await rig.run(worker, id)
    await rig.finish(worker, claimed, Kind.RELEASED)
    claimed = await rig.run(worker, id)
    assert claimed.ready_at - claimed.enqueued_at == pytest.approx(1000, abs=SOON)
    await rig.finish(worker, claimed, Kind.RETRY, delay=1000)
    await rig.clock.advance(1001)
    await rig.store.promote()
    claimed = await rig.run(worker, id)
    assert claimed.ready_at - claimed.enqueued_at == pytest.approx(2001, abs=SOON)
    await rig.finish(worker, claimed, Kind.DEAD)
    await rig.clock.advance(1000)
    await rig.store.retry([id])
    claimed = await rig.run(worker, id)
    assert claimed.ready_at - claimed.enqueued_at == pytest.approx(3001, abs=SOON)


async def test_who_waits_aside_has_waited_all_the_while(rig: Rig) -> None:
    """[M1] [C3] [F3] Being admitted does not start the wait anew."""
    worker = await rig.worker()
    await rig.add("first", concurrency_key="k")
    (second,) = await rig.add("second", concurrency_key="k")
    (fair,) = await rig.add("fair", fair_key="f", queue="other")
    (first,) = await rig.claim(worker)
    await rig.clock.advance(1000)
    await rig.finish(worker, first)
    await rig.store.promote()
    for id, queue in ((second, "default"), (fair, "other")):
        claimed = await rig.run(worker, id, queue)
        assert claimed.ready_at == pytest.approx(claimed.enqueued_at, abs=SOON)


# -- the store's own health -----------------------------------------------------------------------------


async def test_the_store_tells_how_it_is_doing(rig: Rig) -> None:
    """[M3]"""
    health = await rig.store.health()
    named = {"memory": "memory", "sqlite": "SQLite 3.", "postgres": "PostgreSQL 1"}
    assert health.store.startswith(named[rig.name])
    assert health.coordinator_until is None
    assert (health.blocked, health.blocked_since) == (None, None)
    assert health.reports == 0
    assert {table.name for table in health.tables} != set()
    assert all(table.bytes >= 0 and (table.rows or 0) >= 0 for table in health.tables)
    if rig.name != "memory":
        assert health.bytes > 0
        assert sum(table.bytes for table in health.tables) > 0
    if rig.name == "sqlite":
        assert (health.wal, health.lock_waits) == (None, 0)
        assert (health.wal_file or 0) >= 0
    if rig.name == "postgres":
        assert (health.wal or 0) > 0
        assert (health.wal_file, health.lock_waits) == (None, None)
        assert (health.cache_hits or 0) >= 0
        assert (health.cache_misses or 0) >= 0
        assert health.segments != ()
        assert 0 < (health.connections or 0) <= (health.most_connections or 0)


async def test_health_tells_until_when_somebody_leads(rig: Rig) -> None:
    """[K3]"""
    now = await rig.store.now()
    await rig.lead(1)
    until = (await rig.store.health()).coordinator_until
    assert until == pytest.approx(now + 30, abs=SOON)
