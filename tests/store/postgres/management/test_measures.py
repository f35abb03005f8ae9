"""Measures on PostgreSQL: who tells twice, who rolls up at once, what a step that failed leaves, and rights.

What every store promises is in tests/conformance/test_measures.py.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable

import asyncpg
import msgspec
import pytest

from tests.stopwatch import within
from tests.store.postgres.kit import Base
from windlass.core.rollup import EVER, HOUR, MINUTE, Place, Sample, roll
from windlass.errors import StoreError, StoreForbidden
from windlass.store.postgres import PostgresStore, measures
from windlass.store.records import Event, NewJob, Options, Report, Rolled, TaskDepth, Vitals, WorkerInfo

MakeRole = Callable[[str | None], str]
AT = int(time.time()) // HOUR * HOUR


def sample(n: int = 1, task: str = "t", at: int = AT) -> Sample:
    """So many runs of a task in one minute."""
    return Sample(at=at, queue="q", task=task, counts={"succeeded": n}, waits={3: n}, runs={-4: n})


async def total(store: PostgresStore, task: str = "") -> int:
    """How many runs were counted, of all or of one task."""
    rows = [row for row in await store.totals() if row.task == task and (row.queue or not task)]
    return sum(row.counts["succeeded"] for row in rows[:1])


async def test_what_is_told_twice_counts_once(alone: Base) -> None:
    """[M1] [M2] Also where both are under way at once; lower numbers are late ones."""
    store = await alone.store()
    report = Report(samples=[sample()], events=[Event(at=1.0, kind="dead", job=7)], vitals=Vitals(memory=1))
    await asyncio.gather(*(store.report(5, 3, report) for _ in range(4)))
    await store.report(5, 2, report)
    assert await alone.look.row(
        "SELECT (SELECT count(*) FROM windlass.report), (SELECT count(*) FROM windlass.event)"
    ) == (1, 1)
    assert (await store.rollup()).folded == 1
    assert await total(store) == 1


async def test_telling_is_all_or_nothing(alone: Base) -> None:
    """[M2] What was rolled back can be told again under its number."""
    store = await alone.store()
    tell = "SELECT windlass.report(5, 1, '[{\"at\": 60}]', $1, NULL)"
    with pytest.raises(asyncpg.NotNullViolationError):
        await alone.look.run(tell, '[{"at": 1, "kind": "dead"}, {"at": 2}]')
    assert (await store.health()).reports == 0
    await alone.look.run(tell, '[{"at": 1, "kind": "dead"}]')
    assert ((await store.health()).reports, len(await store.events())) == (1, 1)


async def test_telling_waits_for_no_job_and_no_job_waits_for_it(alone: Base) -> None:
    """[M2] A claim, its finish and a heartbeat go on while what was told is not committed, and the other
    way."""
    lane, worker = await alone.lane(), await alone.worker()
    await alone.look.enqueue()
    reporter, store = await alone.session(), await alone.store()
    await reporter.begin()
    await reporter.run(
        "SELECT windlass.report($1, 1, '[]', '[{\"at\": 1, \"kind\": \"dead\"}]', '{}')", worker
    )
    await reporter.value("SELECT busy FROM windlass.rollup_take(10, 0)")
    async with within(5):
        got = await alone.claim(lane, worker)
        assert (await alone.finish(worker, got.jobs)).applied == 1
        await store.heartbeat(worker)
        await store.retire(worker)
        assert (await store.rotate(force=True)).reclaimed
    await reporter.commit()


async def test_of_two_rollups_at_once_one_does_nothing(alone: Base) -> None:
    """[M1] Idempotent: run twice, or twice at once, each is counted once."""
    one, two = await alone.store(), await alone.store()
    for number in range(20):
        await one.report(number, 1, Report(samples=[sample()]))
    other = await alone.session()
    await other.begin()
    await other.run("SELECT windlass.rollup_take(10, 0)")
    assert await one.rollup() == Rolled()
    await other.rollback()
    while (await one.health()).reports:
        await asyncio.gather(*(store.rollup(limit=3) for store in (one, two) * 2))
    assert await total(one) == 20
    rows = await one.measured(MINUTE, AT, AT + 1, queue="q", task="t")
    assert rows == [sample(20)]
    assert await one.rollup() == Rolled()
    assert await one.measured(MINUTE, AT, AT + 1, queue="q", task="t") == rows


async def test_a_rollup_that_fails_loses_nothing(alone: Base) -> None:
    """[M1] Taken, added and forgotten together: what was rolled back in between is folded by the next one."""
    store = await alone.store()
    await store.report(5, 1, Report(samples=[sample()]))
    await store.rollup()
    await store.report(5, 2, Report(samples=[sample(2)]))
    await alone.look.run(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'admin_shutdown'; END $$"
    )
    await alone.look.run(
        "CREATE TRIGGER failing BEFORE DELETE ON windlass.report FOR EACH ROW EXECUTE FUNCTION fail()"
    )
    with pytest.raises(StoreError):
        await store.rollup()
    assert ((await store.health()).reports, await total(store)) == (1, 1)
    await alone.look.run("DROP TRIGGER failing ON windlass.report")
    assert (await store.rollup()).folded == 1
    assert await total(store) == 3


async def test_reports_that_cannot_be_read_do_not_stop_the_rollup(
    alone: Base, caplog: pytest.LogCaptureFixture
) -> None:
    """[M1] They are dropped, with a warning; what came with them is counted."""
    store = await alone.store()
    good = '{"at": 60, "queue": "q", "task": "t", "counts": {"succeeded": 1}}'
    bad = ('{"at": 60}', f'[{good}, {{"at": 60, "counts": "many"}}, {good}]', '[{"at": 60.5}]')
    for number, text in enumerate(bad):
        await alone.look.run("SELECT windlass.report($1, 1, $2, NULL, NULL)", number, text)
    await store.report(9, 1, Report(samples=[sample()]))
    assert (await store.rollup()).folded == 4
    assert (await total(store), (await store.health()).reports) == (3, 0)
    assert caplog.text.count("cannot be read, so it is not counted") == len(bad)


async def test_a_row_that_cannot_be_read_begins_anew(alone: Base, caplog: pytest.LogCaptureFixture) -> None:
    """[M1] [fault 17] With a warning: the rollup goes on."""
    store = await alone.store()
    await store.report(5, 1, Report(samples=[sample()]))
    await store.rollup()
    await alone.look.run("UPDATE windlass.measured SET sample = '?' WHERE task = 't'")
    await store.report(5, 2, Report(samples=[sample()]))
    await store.rollup()
    assert (await total(store), await total(store, "t")) == (2, 1)
    assert caplog.text.count("start again from zero") == 3


async def test_a_long_backlog_is_folded_in_short_steps_beside_the_loop(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M1] Whatever a caller allows: no claim of this process waits for it."""
    monkeypatch.setattr(measures, "STEP", 2)
    monkeypatch.setattr(measures, "LARGE", 0)
    store = await alone.store()
    for number in range(1, 6):
        await store.report(5, number, Report(samples=[sample()]))
    threads: set[int] = set()

    def seen(samples: Iterable[Sample]) -> dict[Place, Sample]:
        threads.add(threading.get_ident())
        return roll(samples)

    monkeypatch.setattr(measures, "roll", seen)
    steps = [await store.rollup() for _ in range(3)]
    assert [(step.folded, step.more) for step in steps] == [(2, True), (2, True), (1, False)]
    assert await total(store) == 5
    assert threading.get_ident() not in threads


async def test_what_was_forgotten_is_not_looked_through_again(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M1] Somebody's snapshot keeps it in the table. A call that drew its id and commits late is found by
    the look that begins anew."""
    monkeypatch.setattr(measures, "GRACE", 0.0)
    store, late = await alone.store(), await alone.session()
    await late.begin()
    await late.run("SELECT windlass.report(6, 1, $1, NULL, NULL)", msgspec.json.encode([sample(10)]).decode())
    for number in (1, 2):
        await store.report(5, number, Report(samples=[sample()]))
    assert (await store.rollup()).folded == 2
    assert store._measures.unread.after() == 3
    await late.commit()
    assert (await store.rollup()).folded == 0
    monkeypatch.setattr(store._measures.unread, "_anew_at", 0.0)
    assert (await store.health()).reports == 1
    assert (await store.rollup()).folded == 1
    assert await total(store) == 12


async def test_a_row_of_a_chart_is_small(alone: Base) -> None:
    """[M1] A minute of a busy task, with sixty buckets each, its indexes included: there are a million of
    them in a month."""
    store = await alone.store()
    wide = {key: 1 + abs(key) for key in range(60)}
    many = [
        Sample(
            at=AT + 60 * n,
            queue="default",
            task=f"app.tasks.t{t}",
            counts={"succeeded": 600},
            waits=wide,
            runs=wide,
        )
        for n in range(20)
        for t in range(20)
    ]
    await store.report(5, 1, Report(samples=many))
    await store.rollup()
    size = "SELECT pg_total_relation_size('windlass.measured') / count(*) FROM windlass.measured"
    assert await alone.look.value(size) < 600


async def test_what_has_outlived_its_time_goes_in_bounded_steps(alone: Base) -> None:
    """[M1] [M2] Rows by span, events by age and number, reporters that are silent and no living worker."""
    store, clock = await alone.store(), await alone.clock()
    now = int(await store.now()) // HOUR * HOUR
    await store.register(WorkerInfo(id=1))
    vitals = Vitals(memory=5)
    samples = [sample(task=f"t{n}", at=now) for n in range(4)]
    events = [Event(at=await store.now(), kind="dead", text=str(n)) for n in range(5)]
    for source in (1, 2):
        await store.report(source, 1, Report(samples=samples[source:], events=events[source:], vitals=vitals))
    await store.rollup()
    expire = "SELECT removed, more FROM windlass.rollup_expire($1, '{}', '{}', 1e9, $2, 86400)"
    assert tuple(await alone.look.row(expire, 2, 5)) == (2, True)
    assert tuple(await alone.look.row(expire, 2, 5)) == (0, False)
    assert [event.text for event in await store.events()] == ["4", "3", "2", "4", "3"]
    await clock.advance(8 * 86400)
    assert (await store.rollup()).removed == 5
    assert await store.events() == []
    assert [row[0] for row in await alone.look.rows("SELECT source FROM windlass.reporter")] == [1]
    assert [worker.vitals for worker in await store.workers()] == [vitals]
    await clock.advance(23 * 86400)
    left = "SELECT span, count(*) FROM windlass.measured GROUP BY span ORDER BY span"
    assert (await store.rollup(limit=2)) == Rolled(removed=2, more=True)
    while (await store.rollup(limit=2)).more:
        pass
    assert [tuple(row) for row in await alone.look.rows(left)] == [(EVER, 5), (HOUR, 5)]


async def test_tasks_are_counted_up_to_a_bound(alone: Base) -> None:
    """[M1] By an index scan beyond the cursor; who is aside or came late counts, too."""
    store, producer = await alone.store(), await alone.session()
    lane, worker = await alone.lane(), await alone.worker()
    await alone.look.enqueue("gone")
    await producer.begin()
    await producer.enqueue("late")
    await alone.look.enqueue("gone")
    got = await alone.claim(lane, worker)
    assert len(got.ids) == 2
    await producer.commit()
    for task in ("a", "a", "b"):
        await alone.look.enqueue(task)
    cancelled = await alone.look.enqueue("a")
    assert await store.cancel([cancelled]) == {cancelled: "cancelled"}
    aside = [NewJob(task="k", payload="{}", queue=alone.queue, options=Options(ordering_key="k"))] * 3
    await store.enqueue(aside)
    waiting = {"a": 2, "b": 1, "k": 3, "late": 1}
    assert await store.task_depths() == [
        TaskDepth(queue=alone.queue, task=task, ready=n) for task, n in waiting.items()
    ]
    few = await store.task_depths(2)
    assert sum(depth.ready for depth in few) == 4
    assert all(depth.estimate for depth in few)
    exact = await store.task_depths(5)
    assert not any(depth.estimate for depth in exact)
    assert sum(depth.ready for depth in exact) == 7


async def test_a_queue_knows_how_often_jobs_were_offered(alone: Base) -> None:
    """[M1] From the sequences of its lanes, so it never falls; a lane that nothing was put in counts none."""
    store = await alone.store()
    await alone.lane(priority=1)
    assert (await store.depth())[alone.queue].offered == 0
    lane, worker = await alone.lane(), await alone.worker()
    for _ in range(3):
        await alone.look.enqueue()
    await alone.drain(lane, worker)
    assert (await store.depth())[alone.queue].offered == 3


async def test_health_reads_what_a_worker_may_read(alone: Base, role: MakeRole) -> None:
    """[M3] Sizes, segments, write-ahead log, connections, the pool; of others' snapshots nothing is known."""
    store = await alone.store(role("worker"))
    await store.enqueue([NewJob(task="t", payload="{}")] * 10)
    await store.lead(3, 30.0)
    found = await store.health()
    assert found.store.startswith("PostgreSQL 18")
    tables = {table.name: table for table in found.tables}
    assert {"ready", "claim", "outcome", "measured", "event", "reporter"} <= tables.keys()
    assert "ready_0" not in tables
    assert tables["ready"].bytes > 0
    assert found.bytes == sum(table.bytes for table in found.tables)
    assert [segment.state for segment in found.segments] == ["open", *["empty"] * 7]
    assert sum(segment.bytes for segment in found.segments) <= found.bytes
    assert found.wal is not None
    assert 0 < (found.connections or 0) <= (found.most_connections or 0)
    assert (found.pool, found.pool_idle) >= (1, 0)
    assert (found.oldest_snapshot, found.blocked, found.reports) == (None, None, 0)
    assert (found.coordinator_until or 0) > await store.now()


async def test_health_tells_what_holds_the_store_up(alone: Base) -> None:
    """[M1] [M3] A snapshot that is held, a segment that cannot be reclaimed, and since when."""
    store, session = await alone.store(), await alone.session()
    await alone.lane()
    await session.begin("repeatable read")
    await session.enqueue()
    await store.rotate(force=True)
    found = await store.health()
    assert found.oldest_snapshot is not None
    assert found.oldest_snapshot > 0
    assert found.blocked is not None
    assert str(session.pid) in found.blocked
    assert found.blocked_since == pytest.approx(await store.now(), abs=60)
    assert [segment.state for segment in found.segments[:2]] == ["closed", "open"]
    await session.commit()


async def test_a_right_that_was_taken_away_leaves_the_rest(alone: Base, role: MakeRole) -> None:
    """[M3] Some that run servers for others do so."""
    await alone.look.run("REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() FROM PUBLIC")
    found = await (await alone.store(role("reader"))).health()
    assert found.wal is None
    assert found.bytes > 0


async def test_who_may_tell_roll_up_and_look(alone: Base, role: MakeRole) -> None:
    """[rule 11] A worker does all of it, a reader looks, and a producer does nothing."""
    worker = await alone.store(role("worker"))
    await worker.report(1, 1, Report(samples=[sample()], events=[Event(at=await worker.now(), kind="lost")]))
    assert (await worker.rollup()).rows == 9
    reader = await alone.store(role("reader"))
    assert await reader.measured(HOUR, 0, AT + 1, queue="q") != []
    assert [event.kind for event in await reader.events(queue="")] == ["lost"]
    assert (len(await reader.totals()), await reader.task_depths()) == (3, [])
    for store in (reader, await alone.store(role("producer"))):
        with pytest.raises(StoreForbidden):
            await store.report(2, 1, Report())
        with pytest.raises(StoreForbidden):
            await store.rollup()


async def test_a_claim_tells_since_when_its_jobs_were_ready(alone: Base) -> None:
    """[M1] A job that is tried again was enqueued before; one found late, and one held, say the same."""
    store = await alone.store()
    worker = 5
    await store.register(WorkerInfo(id=worker))
    new = NewJob(task="t", payload="{}", queue=alone.queue)
    await store.enqueue([new, NewJob(task="t", payload="{}", queue=alone.queue, delay=0.05)])
    (first,) = await store.claim(worker, [alone.queue], 10)
    assert [job.ready_at == job.enqueued_at > 0 for job in first.jobs] == [True]
    await alone.until("SELECT EXISTS (SELECT FROM windlass.deferred WHERE run_at <= clock_timestamp())")
    await store.promote()
    (second,) = await store.claim(worker, [alone.queue], 10)
    assert all(job.ready_at - job.enqueued_at >= 0.05 for job in second.jobs)
    held = {job.id: job.ready_at for claim in await store.unfinished(worker) for job in claim.jobs}
    assert held == {job.id: job.ready_at for job in (*first.jobs, *second.jobs)}


async def test_events_of_the_epoch_before_stay(alone: Base) -> None:
    """[M2] [S3] An epoch passes over a billion of their numbers, by which they are counted: with the first
    event of a new one all others were removed."""
    store = await alone.store()
    for n in range(3):
        events = [Event(at=await store.now(), kind="dead", text=f"{n}{m}") for m in range(3)]
        await store.report(1, n + 1, Report(events=events))
        await alone.look.run("SELECT windlass.adopt()")
    for most, left in ((9, 9), (5, 5), (4, 4), (3, 3), (2, 2)):
        await alone.look.run("SELECT windlass.rollup_expire(100, '{}', '{}', 3600, $1, 3600)", most)
        assert len(await store.events()) == left
    assert [event.text for event in await store.events()] == ["22", "21"]
