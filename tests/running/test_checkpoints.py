"""What a handler writes about its run: checkpoints, progress, and its end in a transaction of its own."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.running.ports import StorePort, claimed, claimed_again
from windlass import Context
from windlass.core.states import Kind
from windlass.errors import (
    ClaimLost,
    ConfigurationError,
    InvalidOption,
    InvalidPayload,
    StoreUnavailable,
    WorkerLost,
)
from windlass.store.records import Outcome, WorkerInfo
from windlass.store.sqlite import SQLiteStore

# -- checkpoints ----------------------------------------------------------------------------------------


async def test_c5_what_is_saved_is_found_by_the_next_attempt(port: StorePort) -> None:
    job = await claimed(port)
    ctx = Context(job, port)
    assert await ctx.asaved() is None
    assert await ctx.asaved() is None
    assert port.loads == 1
    await ctx.asave({"row": 5}, done=5, total=10)
    await ctx.asave({"row": 6})
    assert await ctx.asaved() == {"row": 6}
    assert port.loads == 1
    record = await port.store.job(job.id)
    assert record is not None
    assert record.checkpoint is not None
    assert (record.checkpoint.done, record.checkpoint.total) == (5, 10)  # what was told stays told
    await port.store.finish(77, 1, [Outcome(job=job, kind=Kind.RETRY)])
    again = Context(await claimed_again(port), port)
    assert await again.asaved() == {"row": 6}
    with pytest.raises(ClaimLost):
        await ctx.asave({"row": 7})
    with pytest.raises(InvalidPayload, match=f"task imports.load, job {job.id}: .*save.* cannot be written"):
        await again.asave(object())
    with pytest.raises(InvalidPayload, match=f"task imports.load, job {job.id}: .*save.* holds a NUL byte"):
        await again.asave(["a\0b"])


@pytest.mark.parametrize("count", [0.5, "x", 10**20, -(10**20)])
async def test_a_count_that_no_store_keeps_is_refused_before_anything_is_written(
    port: StorePort, count: Any
) -> None:
    ctx = Context(await claimed(port), port)
    await ctx.asave("kept", done=1, total=2)
    for coroutine in (
        ctx.asave("lost", done=count),
        ctx.asave("lost", done=1, total=count),
        ctx.aprogress(count),
        ctx.aprogress(1, count),
    ):
        with pytest.raises(InvalidOption, match=r"(done|total)=.* is not a count of units; write a whole"):
            await coroutine
    with pytest.raises(InvalidOption, match="done="):
        await asyncio.to_thread(ctx.save, "lost", done=count)
    assert [(each.data, each.done, each.total) for each in port.writes] == [('"kept"', 1, 2)]
    await ctx.asave("next")
    assert (port.writes[-1].done, port.writes[-1].total) == (1, 2)  # what was refused is not remembered


async def test_plain_functions_save_from_their_threads(port: StorePort) -> None:
    ctx = Context(await claimed(port), port)

    def handler() -> Any:
        assert ctx.saved() is None
        ctx.save([1], done=1, total=2)
        ctx.progress(2, 2)
        return ctx.saved()

    assert await asyncio.to_thread(handler) == [1]
    assert [(each.data, each.done, each.total) for each in port.writes] == [("[1]", 1, 2), ("[1]", 2, 2)]


async def test_a_loop_in_a_handlers_thread_can_save_too(port: StorePort) -> None:
    ctx = Context(await claimed(port), port)
    await asyncio.to_thread(lambda: asyncio.run(ctx.asave(3)))
    assert [each.data for each in port.writes] == ["3"]


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda ctx: ctx.save(1), r"await ctx\.asave\("),
        (lambda ctx: ctx.saved(), r"await ctx\.asaved\("),
        (lambda ctx: ctx.progress(1), r"await ctx\.aprogress\("),
    ],
)
async def test_a_plain_call_on_the_workers_loop_is_refused(
    port: StorePort, call: Callable[[Context], Any], advice: str
) -> None:
    ctx = Context(await claimed(port), port)
    with pytest.raises(RuntimeError, match=advice):
        call(ctx)
    assert port.writes == []


async def test_progress_is_written_at_most_once_a_second(
    port: StorePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("windlass.running.checkpoints.monotonic", lambda: now)
    job = await claimed(port)
    await Context(job, port).asave("kept")
    port.writes.clear()
    ctx = Context(job, port)
    for done in range(100):
        now += 0.125
        await ctx.aprogress(done, 100)
    assert [each.done for each in port.writes] == list(range(0, 100, 8))
    await ctx.aprogress(100, 100)
    assert {each.data for each in port.writes} == {'"kept"'}
    assert (port.writes[-1].done, port.writes[-1].total) == (100, 100)
    await ctx.aprogress(7)
    await ctx.asave("more")  # what was held back goes along
    assert (port.writes[-1].done, port.writes[-1].total) == (7, None)


async def test_progress_survives_a_store_in_trouble_but_not_a_lost_claim(
    port: StorePort, caplog: pytest.LogCaptureFixture
) -> None:
    """[C5]"""
    ctx = Context(await claimed(port), port)
    port.error = StoreUnavailable("gone for a moment")
    await ctx.aprogress(1, 1)
    assert "its checkpoint cannot be written" in caplog.text
    with pytest.raises(StoreUnavailable):
        await ctx.asave(1)
    for lost in (ClaimLost("not yours"), WorkerLost("not alive")):
        port.error = lost
        with pytest.raises(type(lost)):
            await ctx.aprogress(1, 1)


async def test_progress_never_puts_older_data_back(port: StorePort) -> None:
    """[P6] A save under way when progress is told: the progress goes with the newer data."""
    ctx = Context(await claimed(port), port)
    await ctx.asave("old")
    port.gate = asyncio.Event()
    saving = asyncio.create_task(ctx.asave("new"))
    telling = asyncio.create_task(ctx.aprogress(5, 5))
    await asyncio.sleep(0)
    port.gate.set()
    await asyncio.gather(saving, telling)
    assert [(each.data, each.done) for each in port.writes] == [
        ('"old"', None),
        ('"new"', None),
        ('"new"', 5),
    ]


def test_a_thread_left_behind_hears_that_its_worker_is_gone() -> None:
    async def start() -> Context:
        store = SQLiteStore(":memory:")
        await store.register(WorkerInfo(id=77))
        port = StorePort(store, 77)
        return Context(await claimed(port), port)

    ctx = asyncio.run(start())
    with pytest.raises(WorkerLost, match="has stopped"):
        ctx.save(1)


# -- transactions ---------------------------------------------------------------------------------------


async def test_a_job_ends_in_its_handlers_transaction() -> None:
    ctx = Context.for_test(connection="a connection")
    with pytest.raises(RuntimeError, match="return the value instead"):
        ctx.result = 5
    with pytest.raises(ValueError, match="boom"):
        async with ctx.transaction():
            raise ValueError("boom")
    ended = [ctx.ended]
    async with ctx.transaction() as connection:
        assert connection == "a connection"
        ended.append(ctx.ended)
        with pytest.raises(RuntimeError, match="save before it"):
            await ctx.asave(1)
        with pytest.raises(RuntimeError, match="only once"):
            async with ctx.transaction():
                pass
        ctx.result = {"rows": 5}
    assert [*ended, ctx.ended] == [False, False, True]
    assert ctx._outcome().result == '{"rows":5}'
    await ctx.aprogress(1, 1)
    with pytest.raises(RuntimeError, match="save before it"):
        await ctx.asave(1)
    with pytest.raises(RuntimeError, match="only once"):
        async with ctx.transaction():
            pass
    assert ctx.written == []


async def test_a_refused_transaction_has_not_ended_the_job(port: StorePort) -> None:
    ctx = Context(await claimed(port), port)
    with pytest.raises(ConfigurationError, match="in memory has no transaction"):
        async with ctx.transaction():
            pass
    assert not ctx.ended


async def test_plain_handlers_have_no_transaction(port: StorePort) -> None:
    ctx = Context(await claimed(port), port)

    def handler() -> None:
        with ctx.transaction():
            pass

    async def elsewhere() -> None:
        async with ctx.transaction():
            pass

    with pytest.raises(ConfigurationError, match="async def"):
        await asyncio.to_thread(handler)
    with pytest.raises(ConfigurationError, match="async def"):
        await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
