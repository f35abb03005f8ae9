"""Chunked tasks as their users write them: handlers, finalizers, tolerance, redrive, cancel and replay."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.stopwatch import within
from windlass import Context, Part, Ranges, Retry, Shards, State, Windlass
from windlass.core.states import WORKERS_OWN, Kind
from windlass.errors import EnqueueError


def test_p9_each_record_once_then_the_finalizer(app: Windlass) -> None:
    seen: list[int] = []
    finals: list[tuple[int, int | None, int]] = []

    @app.chunked(split=Ranges(lambda upto: upto, size=30), parallel=2)
    async def count(part: Part, upto: int) -> None:
        async for batch in part.batches(7):
            seen.extend(batch.records)
            await batch.done()

    @count.finalizer
    async def total(ctx: Context, upto: int) -> int:
        finals.append((upto, ctx.parent, ctx.id))
        return len(seen)

    job = count.enqueue(100)
    app.run_until_idle()
    assert sorted(seen) == list(range(100))
    assert job.result(timeout=5) == 100
    assert [(upto, parent) for upto, parent, _ in finals] == [(100, job.id)]
    parent = app.parent(job.id).record()
    assert (parent.state, parent.total, parent.succeeded) == (State.SUCCEEDED, 4, 4)
    assert (parent.done, parent.size, parent.records) == (100, 100, 100)


def test_p4_a_part_says_whose_it_is(app: Windlass) -> None:
    seen: list[tuple[int, int, int, Any]] = []

    @app.chunked(split=Shards(70))
    def reshard(part: Part) -> None:
        seen.append((part.parent, part.index, part.total, part.span))
        assert "Part of" in repr(part)

    job = reshard.enqueue()
    app.run_until_idle()
    assert sorted(seen) == [(job.id, 0, 3, [0, 32]), (job.id, 1, 3, [32, 64]), (job.id, 2, 3, [64, 70])]
    assert [part.index for part in app.parent(job.id).parts()] == [0, 1, 2]


async def test_p9_failed_parts_are_tolerated_by_count_and_share(memory: Windlass) -> None:
    def failing(tolerate: int | str) -> Any:
        name = f"t{tolerate}".replace("%", "p")

        @memory.chunked(split=Ranges(100, size=10), retry=Retry(1), tolerate=tolerate, name=name)
        async def load(part: Part) -> None:
            if part.index in (3, 7):
                raise ValueError("poison")

        return load

    jobs = {tolerate: await failing(tolerate).aenqueue() for tolerate in (1, 2, "19%", "20%")}
    await memory.arun_until_idle()
    states = {tolerate: await job.astatus() for tolerate, job in jobs.items()}
    assert states == {
        1: State.DEAD,
        2: State.SUCCEEDED,
        "19%": State.DEAD,
        "20%": State.SUCCEEDED,
    }


async def test_p9_redrive_runs_only_the_failed_parts_from_their_checkpoint(memory: Windlass) -> None:
    seen: list[int] = []
    broken = True

    @memory.chunked(split=Ranges(30, size=10), retry=Retry(1))
    async def load(part: Part) -> None:
        async for batch in part.batches(2):
            if broken and 16 in batch.records:
                raise ValueError("poison")
            seen.extend(batch.records)
            await batch.done()

    job = await load.aenqueue()
    await memory.arun_until_idle()
    assert await job.astatus() is State.DEAD
    assert sorted(seen) == [*range(16), *range(20, 30)]
    broken = False
    assert await memory.parent(job.id).aredrive() == 1
    await memory.arun_until_idle()
    assert await job.astatus() is State.SUCCEEDED
    assert sorted(seen) == list(range(30))


async def test_p9_cancel_cascades(memory: Windlass) -> None:
    running = asyncio.Event()

    @memory.chunked(split=Ranges(50, size=10), parallel=2)
    async def load(part: Part) -> None:
        running.set()
        await asyncio.Event().wait()

    job = await load.aenqueue()
    idle = asyncio.create_task(memory.arun_until_idle())
    await running.wait()
    assert await job.acancel() == "requested"
    parts = await memory.parent(job.id).aparts()
    for part in parts:
        if part.job is not None:
            await memory.job(part.job).acancel()  # as a worker hears it with its next heartbeat
    idle.cancel()
    await asyncio.gather(idle, return_exceptions=True)
    assert await job.astatus() is State.CANCELLED
    states = [part.state for part in await memory.parent(job.id).aparts()]
    assert states == [State.CANCELLED] * 2 + [State.WAITING] * 3


async def test_p9_cancel_of_a_parent_reaches_parts_of_this_process_at_once(url: str) -> None:
    """[P9] [O5] They do not wait for a heartbeat, which comes every 20 s here; one that waits for a slot does
    not start."""
    with Windlass(url, lease=60) as app:
        begun: list[int] = []
        stopped: list[int] = []
        full, empty = asyncio.Event(), asyncio.Event()

        @app.chunked(split=Ranges(4, size=1), queue="imports")
        async def load(part: Part) -> None:
            begun.append(part.index)
            if len(begun) == 2:
                full.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append(part.index)
                if len(stopped) == 2:
                    empty.set()
                raise

        async with app.worker({"imports": 2}):
            job = await load.aenqueue()
            async with within(30):
                await full.wait()
            assert await job.acancel() == "requested"
            async with within(5):
                await empty.wait()
        assert sorted(begun) == sorted(stopped)
        states = [part.state for part in await app.parent(job.id).aparts()]
        assert set(states) <= {State.CANCELLED, State.WAITING}


def test_planners_may_be_generators_and_async(app: Windlass) -> None:
    seen: list[Any] = []

    async def months(year: int) -> AsyncIterator[dict[str, int]]:
        for month in (1, 2):
            yield {"year": year, "month": month}

    def days() -> Iterator[str]:
        yield "mon"

    @app.chunked(split=months)
    async def report(part: Part, year: int) -> None:
        seen.append(part.span)

    @app.chunked(split=days)
    def plain(part: Part) -> None:
        seen.append(part.span)

    report.enqueue(2026)
    plain.enqueue()
    app.run_until_idle()
    assert sorted(map(str, seen)) == ["mon", "{'year': 2026, 'month': 1}", "{'year': 2026, 'month': 2}"]


async def test_a_part_is_not_replayed_alone(memory: Windlass) -> None:
    @memory.chunked(split=Ranges(1))
    async def load(part: Part) -> None: ...

    job = await load.aenqueue()
    await memory.arun_until_idle()
    (part,) = await memory.parent(job.id).aparts()
    assert part.job is not None
    with pytest.raises(EnqueueError, match="redrive the parent"):
        await memory.job(part.job).areplay()
    again = await job.areplay()
    await memory.arun_until_idle()
    assert await again.astatus() is State.SUCCEEDED


async def test_a_handler_is_called_in_a_test_of_its_own() -> None:
    app = Windlass("sqlite:///:memory:")
    kept: list[Any] = []

    @app.chunked(split=Ranges(10))
    async def load(part: Part, path: str) -> None:
        async for batch in part.batches(2):
            kept.extend(batch.records)
            await batch.done()

    part = Part.for_test(records=["a", "b", "c"], index=1, total=4, parent=9)
    await load(part, "file")
    assert kept == ["a", "b", "c"]
    assert part.written == [({"at": 2, "n": 2}, 2, 3), ({"at": 3, "n": 3}, 3, 3)]
    assert (part.parent, part.index, part.total) == (9, 1, 4)


def test_kinds_are_no_workers_own_to_split() -> None:
    assert Kind.SPLIT not in WORKERS_OWN
