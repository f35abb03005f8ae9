"""Batches of a part: their size, their checkpoints, their time limit, and what becomes of a bad record."""

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from windlass import NDJSON, Context, Items, Part, Ranges, Retry, State, Windlass, planner

NOW = Retry(3, base=0)


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


async def test_p6_the_store_says_how_large_a_batch_is(memory: Windlass) -> None:
    sizes: list[int] = []

    @memory.chunked(split=Ranges(10, size=10), name="load")
    async def load(part: Part) -> None:
        async for batch in part.batches(10):
            sizes.append(len(batch))
            await batch.done()

    await memory._store_handle().acall(lambda store: store.set_task("load", {"batch": 4}))
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


async def test_the_next_batch_is_refused_before_this_one_is_done(memory: Windlass) -> None:
    @memory.chunked(split=Ranges(4), retry=Retry(1))
    async def forgets(part: Part) -> None:
        async for _ in part.batches(2):
            pass

    job = await forgets.aenqueue()
    await memory.arun_until_idle()
    (part,) = await memory.parent(job.id).aparts()
    assert "await batch.done()" in (part.error or "")


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


def test_the_wrong_loop_is_named(memory: Windlass) -> None:
    @memory.chunked(split=Ranges(4), retry=Retry(1))
    async def load(part: Part) -> None:
        for _ in part.batches(2):  # type: ignore[unused-ignore]
            pass

    job = load.enqueue()
    memory.run_until_idle()
    (part,) = memory.parent(job.id).parts()
    assert "async for" in (part.error or "")


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
