"""Chunked tasks as their users write them: handlers, batches, finalizers, tolerance, redrive."""

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass import NDJSON, Context, Items, Part, Ranges, Retry, Shards, State, Windlass, planner
from windlass.core.states import Kind
from windlass.errors import ConfigurationError, EnqueueError, JobFailed

NOW = Retry(3, base=0)


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
    told: list[tuple[int, int, int, Any]] = []

    @app.chunked(split=Shards(70))
    def reshard(part: Part) -> None:
        told.append((part.parent, part.index, part.total, part.span))
        assert "Part of" in repr(part)

    job = reshard.enqueue()
    app.run_until_idle()
    assert sorted(told) == [(job.id, 0, 3, [0, 32]), (job.id, 1, 3, [32, 64]), (job.id, 2, 3, [64, 70])]
    assert [part.index for part in app.parent(job.id).parts()] == [0, 1, 2]


def test_a_plain_handler_reads_batches_too(app: Windlass) -> None:
    seen: list[str] = []

    @app.chunked(split=Items(["a", "b", "c"], size=2), batch=1)
    def each(part: Part) -> None:
        for batch in part.batches():
            seen.extend(batch.records)
            batch.done()

    @each.finalizer
    def end(ctx: Context) -> str:
        return "done"

    job = each.enqueue()
    app.run_until_idle()
    assert sorted(seen) == ["a", "b", "c"]
    assert job.result(timeout=5) == "done"


def test_p6_what_failed_in_its_third_batch_keeps_the_first_two(app: Windlass) -> None:
    seen: list[int] = []
    starts: list[int] = []

    @app.chunked(split=Ranges(40, size=100), retry=NOW)
    async def load(part: Part) -> None:
        starts.append(part.attempt)
        async for batch in part.batches(10):
            if part.attempt == 1 and 20 in batch.records:
                raise ValueError("the third batch is bad today")
            seen.extend(batch.records)
            await batch.done()

    job = load.enqueue()
    app.run_until_idle()
    assert starts == [1, 2]
    assert seen == list(range(40))  # in order, and nothing twice
    assert job.status() is State.SUCCEEDED


async def test_p7_a_batch_that_takes_too_long_is_halved_within_the_attempt(memory: Windlass) -> None:
    sizes: list[int] = []
    attempts: set[int] = set()

    @memory.chunked(split=Ranges(8, size=8), batch_timeout=0.05)
    async def slow(part: Part) -> None:
        attempts.add(part.attempt)
        async for batch in part.batches(8):
            sizes.append(len(batch))
            if len(batch) > 2:
                await asyncio.Event().wait()  # longer than any timeout
            await batch.done()

    job = await slow.aenqueue()
    await memory.arun_until_idle()
    assert sizes == [8, 4, 2, 2, 2, 2]
    assert attempts == {1}
    assert await job.astatus() is State.SUCCEEDED


async def test_p7_one_record_that_takes_too_long_is_a_failed_attempt(memory: Windlass) -> None:
    sizes: list[int] = []

    @memory.chunked(split=Ranges(2, size=2), batch_timeout=0.02, retry=Retry(1))
    async def stuck(part: Part) -> None:
        async for batch in part.batches(2):
            sizes.append(len(batch))
            await asyncio.Event().wait()

    job = await stuck.aenqueue()
    await memory.arun_until_idle()
    assert sizes == [2, 1]
    (part,) = await memory.parent(job.id).aparts()
    assert part.state is State.DEAD
    assert "batch timeout of 0.02 s" in (part.error or "")


async def test_p7_other_errors_are_not_halved(memory: Windlass) -> None:
    sizes: list[int] = []

    @memory.chunked(split=Ranges(8, size=8), retry=NOW)
    async def fails(part: Part) -> None:
        async for batch in part.batches(8):
            sizes.append(len(batch))
            raise TimeoutError("of another service")

    await fails.aenqueue()
    await memory.arun_until_idle()
    assert sizes == [8, 8, 8]


def test_p7_a_plain_handler_that_is_late_gets_smaller_batches(memory: Windlass) -> None:
    sizes: list[int] = []

    @memory.chunked(split=Ranges(9, size=9), batch_timeout=0.02)
    def slow(part: Part) -> None:
        for batch in part.batches(4):
            if not sizes:
                time.sleep(0.05)
            sizes.append(len(batch))
            batch.done()

    slow.enqueue()
    memory.run_until_idle()
    assert sizes[0] == 4
    assert sum(sizes) == 9
    assert sizes[-1] <= 2


async def test_p6_the_store_says_how_large_a_batch_is(memory: Windlass) -> None:
    sizes: list[int] = []

    @memory.chunked(split=Ranges(10, size=10), name="load")
    async def load(part: Part) -> None:
        async for batch in part.batches(10):
            sizes.append(len(batch))
            await batch.done()

    await memory._home().acall(lambda store: store.set_task("load", {"batch": 4}))
    await load.aenqueue()
    await memory.arun_until_idle()
    assert sizes == [4, 4, 2]


async def test_p6_an_empty_part_writes_nothing(memory: Windlass) -> None:
    @memory.chunked(split=planner(lambda: [[], [1]]))
    async def load(part: Part) -> None:
        async for batch in part.batches():
            assert len(batch) == 1
            await batch.done()

    job = await load.aenqueue()
    await memory.arun_until_idle()
    assert await job.astatus() is State.SUCCEEDED


async def test_the_next_batch_is_refused_before_this_one_is_done(memory: Windlass) -> None:
    @memory.chunked(split=Ranges(4), retry=Retry(1))
    async def forgets(part: Part) -> None:
        async for _ in part.batches(2):
            pass

    job = await forgets.aenqueue()
    await memory.arun_until_idle()
    (part,) = await memory.parent(job.id).aparts()
    assert "await batch.done()" in (part.error or "")


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
    draining = asyncio.create_task(memory.arun_until_idle())
    await running.wait()
    assert await job.acancel() == "requested"
    parts = await memory.parent(job.id).aparts()
    for part in parts:
        if part.job is not None:
            await memory.job(part.job).acancel()  # as a worker hears it with its next beat
    draining.cancel()
    await asyncio.gather(draining, return_exceptions=True)
    assert await job.astatus() is State.CANCELLED
    states = [part.state for part in await memory.parent(job.id).aparts()]
    assert states == [State.CANCELLED] * 2 + [State.WAITING] * 3


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


async def test_a_splitter_that_fails_is_a_failed_attempt(memory: Windlass) -> None:
    def broken() -> list[int]:
        raise OSError("no such bucket")

    @memory.chunked(split=broken, retry=Retry(1))
    async def load(part: Part) -> None: ...

    job = await load.aenqueue()
    await memory.arun_until_idle()
    with pytest.raises(JobFailed, match="no such bucket"):
        await job.aresult(timeout=1)


def test_mistakes_show_where_they_are_made(app: Windlass) -> None:
    with pytest.raises(ConfigurationError, match="part: Part"):

        @app.chunked(split=Ranges(1))  # type: ignore[arg-type]
        async def without() -> None: ...

    with pytest.raises(ConfigurationError, match="only chunked tasks"):

        @app.task
        async def with_part(part: Part) -> None: ...

    with pytest.raises(ConfigurationError, match="splits nothing"):

        @app.chunked(split=3)  # type: ignore[arg-type]
        async def three(part: Part) -> None: ...

    for wrong in ({"parallel": 0}, {"batch": 1.5}, {"tolerate": "many"}, {"batch_timeout": 0}, {"mode": "x"}):
        with pytest.raises(ConfigurationError):

            @app.chunked(split=Ranges(1), **wrong)
            async def options(part: Part) -> None: ...

    @app.chunked(split=Ranges(1))
    async def good(part: Part) -> None: ...

    with pytest.raises(ConfigurationError, match="async def"):

        @good.finalizer
        def plain(ctx: Context) -> None: ...


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
    app = Windlass("memory://")
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


def test_c6_a_batch_timeout_beyond_the_lease_is_told(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    @app.chunked(split=Ranges(1), batch_timeout="1m")
    async def load(part: Part) -> None: ...

    with caplog.at_level(logging.WARNING, "windlass.worker"), app.worker():
        pass
    assert "batch_timeout=60 s" in caplog.text
    assert "WINDLASS_LEASE" in caplog.text


def test_kinds_are_no_workers_own_to_split() -> None:
    from windlass.core.states import WORKERS_OWN

    assert Kind.SPLIT not in WORKERS_OWN


async def test_a_bad_line_is_met_where_it_stands(memory: Windlass, tmp_path: Path) -> None:
    """What was read ahead before it is done and saved, and nothing behind it is."""
    path = tmp_path / "dump.ndjson"
    lines = [b'{"id": %d}' % number for number in range(100)]
    lines[73] = b"{broken"
    path.write_bytes(b"\n".join(lines) + b"\n")
    seen: list[int] = []
    starts: list[Any] = []

    @memory.chunked(split=NDJSON(), retry=Retry(2, base=0))
    async def load(part: Part, path: str) -> None:
        starts.append(await part.asaved())
        async for batch in part.batches(10):
            records = batch.records if part.attempt == 1 else list(batch)
            seen.extend(each["id"] for each in records)
            await batch.done()

    job = await load.aenqueue(str(path))
    await memory.arun_until_idle()
    assert seen == list(range(70))
    assert starts == [None, {"at": sum(len(line) + 1 for line in lines[:70]), "n": 70}]
    (part,) = await memory.parent(job.id).aparts()
    assert "the line at byte" in (part.error or "")
    assert part.records == 70


async def test_a_line_that_is_too_long_is_met_where_it_stands(memory: Windlass, tmp_path: Path) -> None:
    """The reader itself fails, in the thread that reads ahead."""
    path = tmp_path / "dump.ndjson"
    path.write_bytes(b"1\n" * 55 + b"2" * 2000 + b"\n" + b"3\n" * 55)
    seen: list[int] = []

    @memory.chunked(split=NDJSON(max_line=1000), retry=Retry(1))
    async def load(part: Part, path: str) -> None:
        async for batch in part.batches(10):
            seen.extend(batch)
            await batch.done()

    job = await load.aenqueue(str(path))
    await memory.arun_until_idle()
    assert seen == [1] * 55
    (part,) = await memory.parent(job.id).aparts()
    assert "is longer than 1,000 bytes" in (part.error or "")


async def test_a_pause_of_the_machine_is_not_the_end_of_a_part(
    memory: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks at the clock the whole process may stand still for as long as it likes."""
    path = tmp_path / "dump.ndjson"
    path.write_bytes(b"1\n" * 100)
    clock = itertools.count(0.0, 1.0)
    monkeypatch.setattr("windlass.chunks.reading.monotonic", lambda: next(clock))
    seen = 0

    @memory.chunked(split=NDJSON())
    async def load(part: Part, path: str) -> None:
        nonlocal seen
        async for batch in part.batches(10):
            seen += len(batch)
            await batch.done()

    await load.aenqueue(str(path))
    await memory.arun_until_idle()
    assert seen == 100


async def test_a_checkpoint_of_batches_is_not_overwritten(memory: Windlass) -> None:
    """The next attempt would begin at the part's start, and do everything twice."""
    refused: list[str] = []

    @memory.chunked(split=Ranges(4))
    async def load(part: Part) -> None:
        async for batch in part.batches(2):
            await batch.done()
            await part.aprogress(1, 2)
            with pytest.raises(RuntimeError) as error:
                await part.asave({"note": 1})
            refused.append(str(error.value))

    job = await load.aenqueue()
    await memory.arun_until_idle()
    assert await job.astatus() is State.SUCCEEDED
    assert len(refused) == 2
    assert "batch.done()" in refused[0]


async def test_who_leaves_early_is_told(memory: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    @memory.chunked(split=Ranges(4))
    async def load(part: Part) -> None:
        async for batch in part.batches(2):
            await batch.done()
            return

    await load.aenqueue()
    await memory.arun_until_idle()
    assert "returned before the end of its part" in caplog.text
    assert "(2 records were)" in caplog.text


def test_signatures_that_cannot_work_are_refused_at_once(app: Windlass) -> None:
    """[E3] Not when all parts have run."""

    def chunked(split: Any) -> Any:
        @app.chunked(split=split)
        async def load(part: Part, path: str, n: int = 1) -> None: ...

        return load

    wrongs: list[Any] = [NDJSON, NDJSON(source="nope"), Ranges(lambda nn: 1), Items(lambda other: [])]
    for wrong in [*wrongs, lambda path: []]:
        with pytest.raises(ConfigurationError):
            chunked(wrong)
    with pytest.raises(ConfigurationError, match="finds no file"):

        @app.chunked(split=NDJSON())
        async def without(part: Part) -> None: ...

    async def final(ctx: Context, path: str, other: int) -> None: ...

    async def any_name(ctx: Context, **arguments: Any) -> None: ...

    load = chunked(NDJSON())
    with pytest.raises(ConfigurationError, match="path, n"):
        load.finalizer(final)
    load.finalizer(any_name)


async def test_more_parts_than_anybody_can_want(memory: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.chunks.task.MAX_PARTS", 100)

    def numbers() -> Iterator[int]:
        return itertools.count()

    @memory.chunked(split=numbers)
    async def endless(part: Part) -> None: ...

    job = await endless.aenqueue()
    await memory.arun_until_idle()
    with pytest.raises(JobFailed, match="more than 100 parts"):
        await job.aresult(timeout=1)


def test_the_wrong_loop_is_named(memory: Windlass) -> None:
    @memory.chunked(split=Ranges(4), retry=Retry(1))
    async def load(part: Part) -> None:
        for _ in part.batches(2):  # type: ignore[unused-ignore]
            pass

    job = load.enqueue()
    memory.run_until_idle()
    (part,) = memory.parent(job.id).parts()
    assert "async for" in (part.error or "")
