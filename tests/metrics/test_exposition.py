"""What a scrape says [M1]: each number once for the cluster, counters that never fall, text that is safe."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tests.metrics.scrape import Series, one, scraped
from tests.worker.line import until_it_is
from windlass import Windlass
from windlass.core.histogram import bucket
from windlass.core.rollup import Sample
from windlass.errors import StoreUnavailable
from windlass.metrics import prometheus
from windlass.metrics.catalog import MEASURES
from windlass.metrics.histograms import BOUNDS, coarse
from windlass.metrics.prometheus import Exposition, render
from windlass.metrics.reading import MAX_TASKS, Slow, read
from windlass.store.protocol import Store
from windlass.store.records import Health, NewJob, Options, Outcome, Report, Table, TaskDepth, WorkerInfo
from windlass.store.sqlite import SQLiteStore

T = TypeVar("T")


def exposition(app: Windlass) -> Exposition:
    return Exposition(app._store_handle().acall)


class Counting:
    """Asks a store, counts how often, and may be held up."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, operation: Callable[[Store], Awaitable[T]], /) -> T:
        self.asked += 1
        await self.open.wait()
        return await operation(self.store)


class Ticks:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_m1_ten_workers_and_each_depth_once(any_app: Windlass) -> None:
    @any_app.task(name="imports.load", queue="imports")
    async def load() -> None: ...

    @any_app.task(name="mail.send", queue="mail")
    async def send() -> int:
        return 1

    async def join(store: Store) -> None:
        for n in range(10):
            worker = WorkerInfo(id=secrets.randbelow(2**62) + 1, label=f"w{n}", queues=("imports", "mail"))
            await store.register(worker)

    await any_app._store_handle().acall(join)
    await load.aenqueue_many([()] * 7)
    async with any_app.worker(["mail"]), any_app.worker(["mail"]):
        assert await (await send.aenqueue()).aresult(timeout="20s") == 1
        series = scraped(await exposition(any_app).text())
    assert one(series, "windlass_queue_depth", queue="imports") == 7
    assert one(series, "windlass_queue_depth", queue="mail") == 0
    assert one(series, "windlass_queue_oldest_ready_seconds", queue="imports") > 0
    assert one(series, "windlass_queue_oldest_ready_seconds", queue="mail") == 0
    assert one(series, "windlass_workers", alive="yes") == 12
    assert one(series, "windlass_queue_workers", queue="imports") == 10
    assert one(series, "windlass_queue_workers", queue="mail") == 12
    assert one(series, "windlass_jobs_offered_total", queue="imports") == 7
    assert one(series, "windlass_task_ready", queue="imports", task="imports.load", estimate="no") == 7


async def test_m1_counters_and_histograms_never_fall(any_app: Windlass) -> None:
    def report(n: int) -> Report:
        counts = {"snooze": 5, "retry": 1, "claims": 2, "claimed": 6, "empty": 1, "refused": 1}
        times = {bucket(3.0): 4, bucket(700.0 * n): 2}
        of_task = Sample(at=60 * n, queue="mail", task="mail.send", counts=counts, waits=times, runs=times)
        return Report(samples=[of_task, Sample(at=60 * n, counts={"rescued": 3, "lost": 1, "dropped": 2})])

    async def turn(store: Store) -> None:
        await store.report(7, len(seen) + 1, report(len(seen) + 1))
        while (await store.rollup()).more:
            pass

    seen: list[Series] = []
    for _ in range(2):
        await any_app._store_handle().acall(turn)
        seen.append(scraped(await exposition(any_app).text()))
    first, second = seen
    counters = {m.name for m in MEASURES if m.kind == "counter"}
    for (name, labels), value in first.items():
        if name in counters or name.endswith(("_bucket", "_count", "_sum")):
            assert second[name, labels] >= value
    whose = {"queue": "mail", "task": "mail.send"}
    for n, series in enumerate(seen, 1):
        assert one(series, "windlass_jobs_total", **whose, outcome="snooze") == 5 * n
        assert one(series, "windlass_jobs_total", **whose, outcome="retry") == n
        assert one(series, "windlass_claims_total") == 2 * n
        assert one(series, "windlass_claimed_jobs_total") == 6 * n
        assert one(series, "windlass_empty_claims_total") == n
        assert one(series, "windlass_refused_writes_total") == n
        assert one(series, "windlass_rescued_jobs_total") == 3 * n
        assert one(series, "windlass_lost_workers_total") == n
        assert one(series, "windlass_events_dropped_total") == 2 * n
        assert one(series, "windlass_job_run_seconds_count", **whose) == 6 * n
        assert one(series, "windlass_job_run_seconds_bucket", **whose, le="+Inf") == 6 * n
        assert one(series, "windlass_job_wait_seconds_bucket", **whose, le="0.005") == 4 * n
    assert one(first, "windlass_job_run_seconds_sum", **whose) == pytest.approx(1.412, rel=0.07)


async def test_m7_expired_jobs_are_counted_by_queue(any_app: Windlass) -> None:
    """[E8] [M7] As an outcome of their own, and as no other."""

    async def run(store: Store) -> None:
        late = Options(expires=0.001)
        for queue in ("mail", "mail", "calls"):
            await store.enqueue([NewJob(task="t", payload="{}", queue=queue, options=late)])
        await until_it_is(lambda: left(store), 0)

    async def left(store: Store) -> int:
        await store.promote()
        return sum(depth.ready for depth in (await store.depth()).values())

    await any_app._store_handle().acall(run)
    series = scraped(await exposition(any_app).text())
    for queue, n in {"mail": 2, "calls": 1}.items():
        assert one(series, "windlass_jobs_total", queue=queue, task="t", outcome="expired") == n
    assert sum(name == "windlass_jobs_total" for name, _ in series) == 2


async def test_m7_ends_are_those_that_the_store_holds(any_app: Windlass) -> None:
    """[M7] Whatever workers report, too little or too much; also of a task that nobody has reported."""

    async def run(store: Store) -> None:
        told = Sample(at=60, queue="mail", task="mail.send", counts={"succeeded": 5, "dead": 2, "retry": 1})
        await store.report(7, 1, Report(samples=[told]))
        await store.rollup()
        jobs = [NewJob(task=task, payload="{}", queue="mail") for task in ("mail.send", "mail.send", "other")]
        await store.enqueue(jobs)
        await store.register(WorkerInfo(id=1, queues=("mail",)))
        (claim,) = await store.claim(1, ["mail"], 10)
        await store.finish(1, 1, [Outcome(job=job) for job in claim.jobs])

    await any_app._store_handle().acall(run)
    series = scraped(await exposition(any_app).text())
    found = {
        (labels["task"], labels["outcome"]): value
        for (name, pairs), value in series.items()
        if name == "windlass_jobs_total" and (labels := dict(pairs))
    }
    assert found == {("mail.send", "succeeded"): 2, ("mail.send", "retry"): 1, ("other", "succeeded"): 1}


def test_m1_coarse_histograms() -> None:
    buckets, total = coarse({bucket(ms): 1 for ms in (0.5, 4.0, 900.0, 7_200_000.0)})
    assert [name for name, _ in buckets] == [f"{bound:g}" for bound in BOUNDS] + ["+Inf"]
    values = [n for _, n in buckets]
    assert values == sorted(values)
    assert (values[0], dict(buckets)["0.005"], dict(buckets)["1"], values[-2], values[-1]) == (1, 2, 3, 3, 4)
    assert total == pytest.approx(7200.9, rel=0.07)
    assert coarse({}) == ([(name, 0) for name, _ in buckets], 0.0)


HOSTILE = 'a"b\\c\nd{e="f"} 1\n# TYPE x counter\u2028\x07ü'


async def test_m1_hostile_text_in_labels_stays_in_its_label() -> None:
    store = SQLiteStore(":memory:")
    await store.open()
    reading = await read(store, Slow([TaskDepth(queue=HOSTILE, task=HOSTILE, ready=3)], {HOSTILE: 1.0}))
    health = Health(
        store=HOSTILE,
        tables=(Table(name=HOSTILE, bytes=1, dead=2),),
        blocked=f"segment 3: {HOSTILE} pid 4711",
        blocked_since=reading.now - 5,
    )
    fields: dict[str, Any] = {name: getattr(reading, name) for name in reading.__struct_fields__}
    fields |= {"health": health, "tasks": [Sample(at=0, queue="q", task=HOSTILE, counts={"dead": 1})]}
    series = scraped(render(type(reading)(**fields)))
    assert one(series, "windlass_task_ready", queue=HOSTILE, task=HOSTILE, estimate="no") == 3
    assert one(series, "windlass_jobs_total", queue="q", task=HOSTILE, outcome="dead") == 1
    assert one(series, "windlass_dead_tuples", table=HOSTILE) == 2
    assert not any(name == "x" for name, _ in series)
    (reason,) = [dict(labels)["reason"] for name, labels in series if name == "windlass_segment_blocked"]
    assert reason.startswith("segment N: a")
    assert reason.endswith("pid N")
    assert one(series, "windlass_segment_blocked_seconds") == pytest.approx(5)


async def test_m1_too_many_tasks_are_left_out_and_counted() -> None:
    store = SQLiteStore(":memory:")
    await store.open()
    few = [Sample(at=0, queue="q", task=f"rare.{n}", counts={"retry": 1}) for n in range(MAX_TASKS)]
    often = Sample(at=0, queue="q", task="often", counts={"retry": 9})
    await store.report(1, 1, Report(samples=[*few, often]))
    await store.rollup()
    series = scraped(render(await read(store, Slow())))
    assert one(series, "windlass_tasks_left_out") == 1
    assert one(series, "windlass_jobs_total", queue="q", task="often", outcome="retry") == 9
    assert sum(name == "windlass_jobs_total" for name, _ in series) == MAX_TASKS


async def test_m1_many_scrapes_read_the_store_once() -> None:
    store, clock = SQLiteStore(":memory:"), Ticks()
    await store.open()
    ask = Counting(store)
    exposition = Exposition(ask, clock)
    ask.open.clear()
    scrapes = [asyncio.create_task(exposition.text()) for _ in range(50)]
    await asyncio.sleep(0)
    scrapes[0].cancel()  # who hangs up takes nothing from the others
    ask.open.set()
    texts = await asyncio.gather(*scrapes[1:])
    assert len(set(texts)) == 1
    assert ask.asked == 2  # what is cheap and what is not

    clock.now = 0.9
    await exposition.text()
    assert ask.asked == 2
    clock.now = 1.1
    await exposition.text()
    assert ask.asked == 3  # what is not cheap is five seconds old at most
    clock.now = 5.1
    await exposition.text()
    assert ask.asked == 5


async def test_m1_a_store_that_hangs_fails_the_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "READ_TIME", 0.05)
    store = SQLiteStore(":memory:")
    await store.open()
    ask = Counting(store)
    exposition = Exposition(ask)
    ask.open.clear()
    with pytest.raises(StoreUnavailable, match="did not answer"):
        await exposition.text()
    ask.open.set()
    assert "windlass_build_info" in await exposition.text()  # errors are not kept


async def test_m1_flow_and_order_are_told_of(any_app: Windlass) -> None:
    any_app.budget("github", rate="1/h", burst=3, breaker=1)

    @any_app.task(name="orders.apply", queue="orders", ordering_key="order")
    async def apply(order: int) -> None: ...

    await apply.aenqueue_many([(1,), (1,), (2,)])

    async def upset(store: Store) -> None:
        await store.set_queue("orders", {"paused": True, "governor": True, "rate_min": 2.0, "rate_max": 4.0})
        await store.set_budget("github", {"rate": 1.0, "burst": 3, "breaker": 1})
        await store.report_calls("github", 0, 1)

    await any_app._store_handle().acall(upset)
    series = scraped(await exposition(any_app).text())
    assert one(series, "windlass_queue_paused", queue="orders") == 1
    assert one(series, "windlass_watermark_age_seconds", queue="orders") > 0
    assert one(series, "windlass_budget_state", budget="github", state="open") == 1
    assert one(series, "windlass_budget_state", budget="github", state="closed") == 0
    assert one(series, "windlass_coordinator") == 0


async def test_m1_a_queue_that_nobody_serves_has_no_workers(any_app: Windlass) -> None:
    """Of another queue's worker nothing is counted here."""
    async with any_app, any_app.worker(["mail"]):
        await any_app.named("nobody.knows").using(queue="imports").aenqueue()
        series = scraped(await exposition(any_app).text())
    assert one(series, "windlass_queue_workers", queue="imports") == 0
    assert one(series, "windlass_queue_workers", queue="mail") == 1
