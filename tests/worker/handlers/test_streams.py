"""Streams as handlers fill them, on each kind of store [W3]."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from windlass import Context, Dead, Retry, Windlass, current_context
from windlass.contrib.encryption import Encrypted, new_key
from windlass.errors import CodecError, InvalidOption, JobFailed, PayloadTooLarge
from windlass.handles.events import StreamEvent
from windlass.handles.job import Job

pytestmark = pytest.mark.usefixtures("often")


async def all_of(job: Job[Any], after: int = 0) -> list[StreamEvent]:
    return [event async for event in job.events(after=after)]


async def test_w3_events_arrive_in_order_while_the_job_runs(any_app: Windlass) -> None:
    seen = asyncio.Event()

    @any_app.task
    async def answer(ctx: Context) -> int:
        for token in ("one", "two"):
            await ctx.emit(token)
        await seen.wait()
        await ctx.emit({"done": True, "n": [1, 2.5, None]})
        return 3

    await any_app.amigrate()
    job = await answer.aenqueue()
    found: list[StreamEvent] = []
    async with any_app.worker({"default": 1}):
        async for event in job.events():
            found.append(event)
            if len(found) == 2:
                seen.set()
        assert await job.aresult("10s") == 3
    assert [event.value for event in found] == ["one", "two", {"done": True, "n": [1, 2.5, None]}]
    assert [(event.position, event.attempt, event.gone) for event in found] == [
        (1, 1, 0),
        (2, 1, 0),
        (3, 1, 0),
    ]
    assert found[0].at.tzinfo is not None
    assert [event.value for event in await all_of(job, after=2)] == [{"done": True, "n": [1, 2.5, None]}]


async def test_w3_a_plain_handler_emits_too(any_app: Windlass) -> None:
    """All of it is there when the job has ended, however much that is."""

    @any_app.task
    def count(ctx: Context, n: int) -> None:
        for i in range(n):
            ctx.blocking.emit(i)

    await any_app.amigrate()
    job = await count.aenqueue(7_000)
    async with any_app.worker({"default": 1}):
        await job.aresult("20s")
    assert [event.value for event in await all_of(job)] == list(range(7_000))
    assert [event.value for event in await asyncio.to_thread(list, job.events(after=6_998))] == [6_998, 6_999]


@pytest.mark.parametrize("how", ["raises", "times out", "is dead"])
async def test_w3_what_a_failed_attempt_emitted_stays_and_is_marked(any_app: Windlass, how: str) -> None:
    @any_app.task(retry=Retry(2, base=0), timeout="300ms")
    async def work(ctx: Context) -> None:
        await ctx.emit(f"attempt {ctx.attempt}")
        if ctx.attempt == 2:
            return
        match how:
            case "raises":
                raise OSError("after it emitted")
            case "times out":
                await asyncio.Event().wait()
            case "is dead":
                raise Dead("for good")

    await any_app.amigrate()
    job = await work.aenqueue()
    async with any_app.worker({"default": 1}):
        if how == "is dead":
            with pytest.raises(JobFailed):
                await job.aresult("10s")
        else:
            await job.aresult("10s")
    expected = [(1, 1, "attempt 1"), (2, 2, "attempt 2")][: 1 if how == "is dead" else 2]
    assert [(event.position, event.attempt, event.value) for event in await all_of(job)] == expected


async def test_w3_tasks_and_threads_of_a_handler_share_its_stream(any_app: Windlass) -> None:
    @any_app.task
    async def work() -> None:
        ctx = current_context()

        async def emit(name: str) -> None:
            for i in range(50):
                await ctx.emit([name, i])
                await asyncio.sleep(0)

        def in_thread() -> None:
            for i in range(50):
                ctx.blocking.emit(["thread", i])

        thread = threading.Thread(target=in_thread)
        thread.start()
        await asyncio.gather(emit("a"), emit("b"))
        await asyncio.to_thread(thread.join)

    await any_app.amigrate()
    job = await work.aenqueue()
    async with any_app.worker({"default": 1}):
        await job.aresult("10s")
    events = await all_of(job)
    assert [event.position for event in events] == list(range(1, 151))
    for name in ("a", "b", "thread"):
        assert [i for whose, i in (event.value for event in events) if whose == name] == list(range(50))


async def test_w3_what_no_stream_can_keep_is_refused(app: Windlass) -> None:
    refused: list[str] = []

    @app.task
    async def work(ctx: Context) -> None:
        for value, error in (("x" * 70_000, PayloadTooLarge), (float("nan"), ValueError)):
            with pytest.raises(error) as raised:
                await ctx.emit(value)
            refused.append(str(raised.value))
        await ctx.emit("x" * 60_000)

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        await job.aresult("10s")
    assert "at most 65,536" in refused[0]
    assert [len(event.value) for event in await all_of(job)] == [60_000]


async def test_w3_a_job_that_ends_in_its_transaction_emits_before_it(url: str) -> None:
    if ":memory:" in url:
        pytest.skip("a store in memory has no transactions to join")
    with Windlass(url) as app:

        @app.task
        async def work(ctx: Context) -> None:
            await ctx.emit("before")
            async with ctx.transaction():
                with pytest.raises(RuntimeError, match="emit before it"):
                    await ctx.emit("inside")

        @app.task
        async def in_a_step(ctx: Context) -> None:
            async def chatty(_: Any) -> None:
                for i in range(5_000):
                    await ctx.emit(i)

            await ctx.step("chatty", chatty, transaction=True)

        await app.amigrate()
        jobs = await work.aenqueue(), await in_a_step.aenqueue()
        async with app.worker({"default": 2}):
            for job in jobs:
                await job.aresult("15s")
        assert [event.value for event in await all_of(jobs[0])] == ["before"]
        assert [event.value for event in await all_of(jobs[1])] == list(range(5_000))


async def test_w3_follow_false_reads_what_is_there(app: Windlass) -> None:
    goes_on = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        await ctx.emit("a")
        await goes_on.wait()

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        async for event in job.events():
            assert event.value == "a"
            break
        assert [event.value async for event in job.events(follow=False)] == ["a"]
        assert [event.value async for event in job.events(after=1, follow=False)] == []
        assert [event.value for event in await asyncio.to_thread(list, job.events(follow=False))] == ["a"]
        goes_on.set()
        await job.aresult("10s")


async def test_w3_a_reader_is_told_how_many_are_gone() -> None:
    with Windlass("sqlite:///:memory:", stream_limit=8) as app:

        @app.task
        async def work(ctx: Context) -> None:
            for i in range(20):
                await ctx.emit(i)
                await asyncio.sleep(0.03)

        await app.amigrate()
        job = await work.aenqueue()
        async with app.worker({"default": 1}):
            await job.aresult("10s")
        events = await all_of(job)
        assert events[0].gone == events[0].position - 1 > 8
        assert [event.gone for event in events[1:]] == [0] * (len(events) - 1)
        assert events[-1].value == 19
        (first, *_) = await all_of(job, after=3)
        assert first.gone == first.position - 4


async def test_w3_a_test_context_keeps_what_was_emitted() -> None:
    ctx = Context.for_test()
    await ctx.emit("a")
    await ctx.emit({"b": 1})
    assert ctx.emitted == ["a", {"b": 1}]
    plain = Context.for_test()
    await asyncio.to_thread(plain.blocking.emit, 5)
    assert plain.emitted == [5]


async def test_w3_a_codec_seals_what_is_emitted(tmp_path: Path) -> None:
    """The store has no word of it, and a handle made of an id alone can read it."""
    path = tmp_path / "jobs.db"
    with Windlass(f"sqlite:///{path}", codec=Encrypted({"2026": new_key()})) as app:

        @app.task
        async def work(ctx: Context) -> None:
            await ctx.emit("a secret word")

        await app.amigrate()
        job = await work.aenqueue()
        async with app.worker({"default": 1}):
            await job.aresult("10s")
        assert [event.value async for event in app.job(job.id).events()] == ["a secret word"]
    with Windlass(f"sqlite:///{path}") as keyless, pytest.raises(CodecError):
        await all_of(keyless.job(job.id))
    assert b"secret word" not in path.read_bytes()


@pytest.mark.parametrize("after", [-1, 2**63, "4", None, 1.5, True])
async def test_w3_what_is_no_position_is_refused_before_the_stream_begins(app: Windlass, after: Any) -> None:
    """While an answer of HTTP can still say so."""
    with pytest.raises(InvalidOption, match="is no position of a stream"):
        app.job(1).events(after=after)


async def test_w3_the_last_position_there_can_be(any_app: Windlass) -> None:
    @any_app.task
    async def say(ctx: Context) -> None:
        await ctx.emit("one")

    await any_app.amigrate()
    job = await say.aenqueue()
    await any_app.arun_until_idle()
    assert [event.value async for event in job.events(after=2**63 - 1)] == []
    assert [event.value async for event in job.events()] == ["one"]
