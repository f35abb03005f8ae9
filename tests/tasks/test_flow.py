"""Budgets, limits, order and debouncing as users write them: what tasks declare and what comes of it."""

import asyncio
from collections import Counter

import pytest

from tests.apps import clocked
from tests.stopwatch import Stopwatch
from windlass import Context, Items, Part, Retry, State, Windlass
from windlass.errors import BudgetTimeout, ConfigurationError, InvalidOption, QueueFull, Shed
from windlass.running.store_handle import CLOSE_TIME
from windlass.store.records import Need


def test_f1_a_task_runs_as_its_budget_allows() -> None:
    """[F1] Burst at once, then by the rate; the reason says what a job waits for."""
    with clocked() as (app, clock):
        app.budget("github", rate="10/s", burst=3)
        runs: list[int] = []

        @app.task(name="sync", budgets=["github"])
        async def sync(n: int) -> None:
            runs.append(n)

        jobs = [sync.enqueue(n) for n in range(10)]
        app.run_until_idle()
        assert runs == [0, 1, 2]
        assert jobs[5].record().reason == "waits for tokens of budget github"
        clock.advance(0.25)
        app.run_until_idle()
        assert runs == [0, 1, 2, 3, 4]
        clock.advance(10)
        app.run_until_idle()
        assert len(runs) == 8  # never more than the burst at once


def test_f1_other_tasks_of_the_queue_run_on(any_app: Windlass) -> None:
    """[F1] Who waits for tokens stands aside."""
    any_app.budget("none", rate=0, burst=1)

    @any_app.task(name="limited", budgets=["none"])
    async def limited() -> None: ...

    @any_app.task(name="free")
    async def free() -> None: ...

    for _ in range(5):
        limited.enqueue()
    free.enqueue()
    assert any_app.run_until_idle().succeeded == 2


def test_f1_each_key_has_a_bucket_of_its_own(any_app: Windlass) -> None:
    any_app.budget("api", rate=0, burst=2, key="tenant")
    runs: Counter[str] = Counter()

    @any_app.task(name="call", budgets=["api"])
    async def call(path: str, tenant: str) -> None:
        runs[tenant] += 1

    assert call.needs == [Need("api", 1, "tenant", 1)]
    call.enqueue_many([("/", tenant) for tenant in ("a", "b", "c") for _ in range(4)])
    any_app.enqueue("call", "/", "a")
    assert any_app.run_until_idle().succeeded == 6
    assert runs == {"a": 2, "b": 2, "c": 2}


def test_f1_a_run_may_need_more_than_one_token(any_app: Windlass) -> None:
    any_app.budget("api", rate=0, burst=5)

    @any_app.task(name="heavy", budgets={"api": 2})
    async def heavy() -> None: ...

    for _ in range(4):
        heavy.enqueue()
    assert any_app.run_until_idle().succeeded == 2


async def test_f1_by_hand_from_the_same_tokens(any_app: Windlass) -> None:
    """[F1] Inside a handler and outside any worker."""
    budget = any_app.budget("api", rate=0, burst=3)

    @any_app.task(name="call")
    async def call() -> None:
        await budget.aacquire()

    await budget.aacquire(2)
    await call.aenqueue()
    assert (await any_app.arun_until_idle()).succeeded == 1
    with pytest.raises(BudgetTimeout, match="had no 1 token within 0 s"):
        await any_app.budget("api").aacquire(timeout=0)
    await budget.agive_back(1)
    await budget.aacquire(timeout=0)
    with pytest.raises(ValueError, match="4"):
        await budget.aacquire(4)


async def test_f1_acquire_waits_for_its_tokens(app: Windlass) -> None:
    budget = app.budget("api", rate=100, burst=1)
    began = asyncio.get_running_loop().time()
    for _ in range(4):
        await budget.aacquire()
    assert asyncio.get_running_loop().time() - began >= 0.03
    await asyncio.to_thread(budget.acquire)


async def test_f1_who_waits_for_tokens_does_not_keep_the_store_open(any_app: Windlass) -> None:
    budget = any_app.budget("hourly", rate="1/h", burst=1)
    await budget.aacquire()
    waiting = asyncio.create_task(budget.aacquire())
    await asyncio.wait({waiting}, timeout=0.3)
    watch = Stopwatch()
    await any_app.aclose()
    assert watch.seconds() < CLOSE_TIME / 2
    waiting.cancel()


@pytest.mark.parametrize("key", ["", "acme"])
async def test_f1_who_gets_nothing_since_a_cap_is_used_up_is_told(any_app: Windlass, key: str) -> None:
    budget = any_app.budget("api", rate=1000, burst=3, cap="3/month")
    await budget.aacquire(3, key=key)
    with pytest.raises(BudgetTimeout, match=r"3 of its cap of 3 per month are used.*budget set api --cap"):
        await budget.aacquire(key=key, timeout=0)


async def test_f1_drain_stops_everybody(any_app: Windlass) -> None:
    budget = any_app.budget("api", rate=1000, burst=10)
    await budget.aacquire()
    await budget.adrain("1h")
    with pytest.raises(BudgetTimeout):
        await budget.aacquire(timeout=0)
    record = await budget.arecord()
    assert record is not None
    assert record.paused_for > 3500


def test_f1_code_never_overwrites_what_was_set(any_app: Windlass) -> None:
    with any_app:
        any_app._store_handle().call(lambda store: store.set_budget("api", {"rate": 7.0, "burst": 2}))
    any_app.budget("api", rate="1/h", burst=50)

    @any_app.task(name="call", budgets=["api"])
    async def call() -> None: ...

    call.enqueue()
    any_app.run_until_idle()
    (record,) = any_app._store_handle().call(lambda store: store.budgets())
    assert (record.rate, record.burst) == (7.0, 2)


def test_f1_an_unknown_budget_throttles_and_is_told(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(name="call", budgets=["nobody"])
    async def call() -> None: ...

    job = call.enqueue()
    assert app.run_until_idle().succeeded == 0
    assert job.status() is State.READY
    assert "windlass budget set nobody" in caplog.text


def test_f7_failures_open_the_breaker_and_a_probe_closes_it() -> None:
    """[F7] closed → open → half-open → closed, told by the runs of tasks."""
    with clocked() as (app, clock):
        app.budget("api", rate=1000, burst=100, breaker=3, breaker_pause=30)
        healthy: list[bool] = []
        runs: list[int] = []

        @app.task(name="call", budgets=["api"], retry=Retry(10, base=0))
        async def call(n: int) -> None:
            runs.append(n)
            if not healthy:
                raise OSError("down")

        def state() -> str:
            (record,) = app._store_handle().call(lambda store: store.budgets())
            return record.state

        call.enqueue(1)
        call.enqueue(2)
        app.run_until_idle(concurrency=1)
        assert state() == "open"
        so_far = len(runs)
        clock.advance(10)
        app.run_until_idle()
        assert len(runs) == so_far
        clock.advance(21)
        assert state() == "half-open"
        healthy.append(True)
        app.run_until_idle()
        assert len(runs) == so_far + 1  # the probe, and nothing beside it
        assert state() == "closed"
        app.run_until_idle()
        assert len(runs) == so_far + 2


def test_f3_a_task_is_limited_over_all_workers(any_app: Windlass) -> None:
    """[F3] Never more than two at a time, and all of them run."""
    now: Counter[str] = Counter()

    @any_app.task(name="export", concurrency=2)
    async def export(n: int) -> None:
        now["running"] += 1
        now["most"] = max(now["most"], now["running"])
        await asyncio.sleep(0.001)
        now["running"] -= 1
        now["done"] += 1

    export.enqueue_many([(n,) for n in range(12)])
    any_app.run_until_idle()
    assert now["done"] == 12
    assert now["most"] == 2


def test_f3_each_value_of_an_argument_has_its_limit(any_app: Windlass) -> None:
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()

    @any_app.task(name="sync", concurrency_key="tenant", key_concurrency=1)
    async def sync(tenant: str) -> None:
        now[tenant] += 1
        most[tenant] = max(most[tenant], now[tenant])
        most["all"] = max(most["all"], sum(now.values()))
        await asyncio.sleep(0.005)
        now[tenant] -= 1

    sync.enqueue_many([(tenant,) for _ in range(3) for tenant in ("a", "b", "c")])
    assert any_app.run_until_idle().succeeded == 9
    assert (most["a"], most["b"], most["c"]) == (1, 1, 1)
    assert most["all"] > 1


def test_f6_jobs_of_a_key_run_in_order(any_app: Windlass) -> None:
    """[F6] A retry keeps its place."""
    runs: list[tuple[str, int]] = []

    @any_app.task(name="apply", ordering_key="order", retry=Retry(3, base=0))
    async def apply(ctx: Context, order: str, event: int) -> None:
        if event == 2 and ctx.attempt == 1:
            raise OSError("once")
        runs.append((order, event))

    for event in range(5):
        for order in ("a", "b"):
            apply.enqueue(order, event)
    any_app.run_until_idle()
    for order in ("a", "b"):
        assert [event for key, event in runs if key == order] == list(range(5))
    marks = any_app._store_handle().call(lambda store: store.watermarks("default"))
    assert [(mark.key, mark.position, mark.waiting) for mark in marks] == [
        ("apply:a", 5, 0),
        ("apply:b", 5, 0),
    ]


def test_f4_producers_are_told(any_app: Windlass) -> None:
    """[F4] soft: a hint; full: QueueFull with when to try again."""
    any_app._store_handle().call(lambda store: store.set_queue("default", {"max_depth": 10}))

    @any_app.task(name="job")
    async def job() -> None: ...

    pressures = [job.enqueue().pressure for _ in range(10)]
    assert pressures[0] is None
    assert pressures[-1] is not None
    assert pressures[-1] >= 0.7
    with pytest.raises(QueueFull) as full:
        job.enqueue()
    assert (full.value.status, full.value.queue) == (429, "default")
    assert full.value.retry_after > 0
    job.using(priority="urgent").enqueue()


def test_f5_low_work_is_shed_first(any_app: Windlass) -> None:
    any_app._store_handle().call(lambda store: store.set_queue("default", {"shed_depth": 10}))

    @any_app.task(name="job")
    async def job() -> None: ...

    for _ in range(7):
        job.enqueue()
    with pytest.raises(Shed) as shed:
        job.using(priority="low").enqueue()
    assert shed.value.status == 503
    assert shed.value.level == pytest.approx(0.7)
    job.enqueue()


def test_debounce_replaces_and_pushes_back() -> None:
    """[E6] Only the last one runs, once it was quiet for as long."""
    with clocked() as (app, clock):
        seen: list[str] = []

        @app.task(name="index")
        async def index(text: str) -> None:
            seen.append(text)

        soon = index.using(unique="page-1", debounce=10)
        for text in ("a", "ab", "abc"):
            soon.enqueue(text)
            clock.advance(6)
            app.run_until_idle()
        assert seen == []
        clock.advance(5)
        app.run_until_idle()
        assert seen == ["abc"]


def test_what_makes_no_sense_is_refused(app: Windlass) -> None:
    @app.task(name="plain")
    async def plain(tenant: str) -> None: ...

    with pytest.raises(InvalidOption, match="unique"):
        plain.using(debounce=5)
    with pytest.raises(InvalidOption, match="debounce"):
        plain.using(unique="k", debounce=5, delay=5)
    with pytest.raises(InvalidOption, match="key_limit"):
        plain.using(concurrency_key="k", key_limit=0)
    with pytest.raises(ConfigurationError, match="rate"):
        app.budget("b", rate="many")
    app.budget("b", rate="1/s")
    with pytest.raises(ConfigurationError, match="twice"):
        app.budget("b", rate="2/s")
    with pytest.raises(ConfigurationError, match="does not have"):

        @app.task(name="keyed", ordering_key="order")
        async def keyed(tenant: str) -> None: ...

    with pytest.raises(ConfigurationError, match="concurrency=0"):

        @app.task(name="zero", concurrency=0)
        async def zero() -> None: ...


def test_f1_a_task_that_needs_more_than_the_burst_is_told_of(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    app.budget("api", rate=1, burst=2)

    @app.task(name="greedy", budgets={"api": 3})
    async def greedy() -> None: ...

    app.run_until_idle()
    assert "windlass budget set api --burst 3" in caplog.text


async def test_f1_an_undeclared_budget_says_so_to_who_waits(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BudgetTimeout, match="nobody has declared it"):
        await app.budget("nix").aacquire(timeout=0)
    assert "windlass budget set nix" in caplog.text
    with pytest.raises(RuntimeError, match=r"await budget\.aacquire"):
        app.budget("nix").acquire()
    with pytest.raises(ConfigurationError, match="rate="):
        app.budget("nix", burst=5)
    with pytest.raises(ConfigurationError, match="give it a rate="):
        app.budget("nix", breaker_pause="1m")


def test_f1_code_that_differs_from_the_store_is_told_of(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    app._store_handle().call(lambda store: store.set_budget("api", {"rate": 7.0, "burst": 2}))
    app.budget("api", rate="10/s", burst=5)
    app.run_until_idle()
    assert "windlass budget set api --rate 10/s --burst 5" in caplog.text


def test_f3_limits_hold_for_parts(any_app: Windlass) -> None:
    """[F3] A chunked task's limit is that of its parts."""
    now: Counter[str] = Counter()

    @any_app.chunked(name="load", split=Items([1, 2, 3, 4, 5, 6], size=1), concurrency=2)
    async def load(part: Part) -> None:
        now["running"] += 1
        now["most"] = max(now["most"], now["running"])
        await asyncio.sleep(0.005)
        now["running"] -= 1
        now["done"] += 1

    job = load.enqueue()
    any_app.run_until_idle()
    assert job.status() is State.SUCCEEDED
    assert (now["done"], now["most"]) == (6, 2)


async def test_f1_a_budget_is_declared_in_each_store_it_is_used_in(app: Windlass) -> None:
    """A testing block has a store of its own; the handle must not think that it knows it already."""
    budget = app.budget("api", rate=0, burst=1)
    await budget.aacquire(timeout=0)
    for _ in range(2):
        async with app.testing():
            await budget.aacquire(timeout=0)
    with pytest.raises(BudgetTimeout):
        await budget.aacquire(timeout=0)
