"""The reconciler fills gaps [K5], and leaves alone what keeps dying [O7]."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.stopwatch import within
from windlass import Context, Retry, Snooze, SourceGone, Windlass
from windlass.errors import ConfigurationError
from windlass.tasks.gaps import RECONCILE, Reconciled
from windlass.testing import Clock


def test_k5_a_gap_is_filled_in_one_pass(memory: Windlass) -> None:
    vectors = {"a": 1}

    @memory.task
    async def embed(key: str) -> None:
        vectors[key] = len(vectors) + 1

    @embed.find_gaps
    def missing() -> Iterator[tuple[str]]:
        for key in "abc":
            if key not in vectors:
                yield (key,)

    assert embed.reconcile() == Reconciled(found=2, enqueued=2)
    assert embed.reconcile() == Reconciled(found=2, under_way=2)  # they wait already
    memory.run_until_idle()
    assert vectors.keys() == {"a", "b", "c"}
    assert embed.reconcile() == Reconciled()


async def test_k5_gaps_may_come_from_an_async_generator(memory: Windlass) -> None:
    done: list[str] = []

    @memory.task
    async def embed(key: str) -> None:
        done.append(key)

    @embed.find_gaps(every="1h", key=lambda key: f"embed/{key}")
    async def missing() -> AsyncIterator[dict[str, str]]:
        for key in "ab":
            yield {"key": key}

    assert await embed.areconcile() == Reconciled(found=2, enqueued=2)
    job = await embed.using(unique="embed/a").aenqueue("a")
    assert job.receipt == "skipped"
    await memory.arun_until_idle()
    assert sorted(done) == ["a", "b"]


def test_o7_a_key_that_died_three_times_is_parked_while_a_manual_enqueue_passes() -> None:
    app = Windlass("sqlite:///:memory:")
    clock = Clock()
    tries: list[str] = []

    @app.task(retry=Retry(1))
    async def embed(key: str) -> None:
        tries.append(key)
        if key == "bad":
            raise ValueError("no such text")

    @embed.find_gaps(key=lambda key: key)
    def missing() -> list[tuple[str]]:
        return [("bad",), ("good",)]

    with app.testing(clock=clock):
        for _ in range(3):
            assert embed.reconcile() == Reconciled(found=2, enqueued=2)
            app.run_until_idle()
        assert embed.reconcile() == Reconciled(found=2, enqueued=1, parked=1)
        app.run_until_idle()
        assert embed.using(unique="bad").enqueue("bad").receipt == "enqueued"
        app.run_until_idle()
        assert tries.count("bad") == 4
        clock.advance(59 * 60)  # a fourth death: an hour
        assert embed.reconcile().parked == 1
        clock.advance(2 * 60)
        assert embed.reconcile().parked == 0


async def test_k5_a_worker_asks_when_it_starts_and_then_every_while(app: Windlass) -> None:
    filled = asyncio.Event()
    passes = 0

    @app.task(queue="vectors")
    async def embed(key: int) -> None:
        if key == 3:
            filled.set()

    @embed.find_gaps(every="1s")
    async def missing() -> list[tuple[int]]:
        nonlocal passes
        passes += 1
        return [(passes,)]

    async with within(10), app.worker(["vectors"]):
        await filled.wait()
    assert passes >= 3


async def test_k5_two_workers_ask_once_between_them(app: Windlass) -> None:
    passes = 0
    ran = asyncio.Event()

    @app.task(queue="vectors")
    async def embed(key: int) -> None:
        ran.set()

    @embed.find_gaps
    async def missing() -> list[tuple[int]]:
        nonlocal passes
        passes += 1
        return [(1,)]

    async with within(10), app.worker(["vectors"]), app.worker(["vectors"]):
        await ran.wait()
    assert passes == 1


async def test_k5_a_pass_for_a_task_that_finds_no_gaps_any_more_ends_after_a_day(memory: Windlass) -> None:
    @memory.task(name="embed")
    async def embed(key: str) -> None: ...

    reconcile = memory.tasks[RECONCILE].function
    for task in ("embed", "gone"):  # its find_gaps was taken out, or all of it
        with pytest.raises(Snooze):
            await reconcile(Context.for_test(enqueued_at=time.time() - 86000), task)
        with pytest.raises(SourceGone, match=task):
            await reconcile(Context.for_test(enqueued_at=time.time() - 86401), task)


async def test_mistakes_of_finders_are_told(memory: Windlass) -> None:
    @memory.task
    async def embed(key: str) -> None: ...

    with pytest.raises(ConfigurationError, match="find_gaps"):
        await embed.areconcile()

    @embed.find_gaps
    def missing() -> list[str]:
        return ["a"]

    with pytest.raises(ConfigurationError, match="tuple or a mapping"):
        await embed.areconcile()
    assert RECONCILE in memory.tasks
