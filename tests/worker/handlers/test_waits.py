"""Waits for signals as handlers use them, on each kind of store [W2]."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from tests.stopwatch import Stopwatch, within
from windlass import Context, Retry, Windlass
from windlass.errors import (
    ConfigurationError,
    InvalidOption,
    InvalidPayload,
    JobFailed,
    ResultInvalid,
    SignalRefused,
    WaitTimedOut,
)
from windlass.store.postgres.durable.steps import Steps
from windlass.store.postgres.durable.waits import Waits

pytestmark = pytest.mark.usefixtures("often")


@dataclass
class Approval:
    """What is signalled."""

    by: str
    ok: bool = True


async def until_it_waits(app: Windlass, id: int) -> str:
    """Wait for a job to be suspended; why it waits."""
    job = app.job(id)
    async with within(10):
        while True:
            record = await job.arecord()
            if record.state == "scheduled" and record.reason is not None:
                return record.reason
            await asyncio.sleep(0.01)


async def test_w2_a_handler_goes_on_with_the_value_of_its_signal(any_app: Windlass) -> None:
    """Typed, the same on later attempts, while others have its slot."""
    seen: list[Any] = []

    @any_app.task(retry=Retry(3, base=0))
    async def ask(ctx: Context) -> str:
        answer = await ctx.wait("approved", timeout="7d", type=Approval)
        assert isinstance(answer, Approval)
        seen.append((ctx.attempt, answer))
        if ctx.attempt == 1:
            raise OSError("after the wait")
        return answer.by

    @any_app.task
    async def other() -> str:
        return "ran"

    await any_app.amigrate()
    job = await ask.aenqueue()
    async with any_app.worker({"default": 1}):
        reason = await until_it_waits(any_app, job.id)
        assert reason.startswith("waits for signal approved since ")
        assert await (await other.aenqueue()).aresult("10s") == "ran"
        assert await any_app.asignal(job, "approved", Approval("ann")) == "delivered"
        assert await job.aresult("10s") == "ann"
    assert seen == [(1, Approval("ann")), (2, Approval("ann"))]
    with pytest.raises(SignalRefused, match="succeeded"):
        await job.asignal("approved", None)


class Verdict(pydantic.BaseModel):
    """What is signalled, as a pydantic model."""

    ok: bool
    by: str = pydantic.Field(default="me", min_length=2)


async def test_w2_a_pydantic_model_is_waited_for(any_app: Windlass) -> None:
    """Sent as a model or as plain JSON; what it does not take fails the attempt."""

    @any_app.task(retry=Retry(1))
    async def ask(ctx: Context) -> Verdict:
        first = await ctx.wait("one", type=Verdict)
        return Verdict(ok=first.ok, by=(await ctx.wait("other", type=Verdict)).by)

    await any_app.amigrate()
    jobs = [await ask.aenqueue() for _ in range(2)]
    for job in jobs:
        await job.asignal("one", Verdict(ok=True))
    await jobs[0].asignal("other", {"ok": False, "by": "ann"})
    await jobs[1].asignal("other", {"ok": False, "by": "x"})
    await any_app.arun_until_idle()
    assert await jobs[0].aresult() == Verdict(ok=True, by="ann")
    with pytest.raises(JobFailed, match="signal 'other' does not fit its type"):
        await jobs[1].aresult()


async def test_w2_a_value_that_does_not_fit_is_refused_and_the_wait_goes_on(any_app: Windlass) -> None:
    @any_app.task
    async def ask(ctx: Context) -> str:
        return (await ctx.wait("approved", type=Approval)).by

    await any_app.amigrate()
    job = await ask.aenqueue()
    async with any_app.worker({"default": 1}):
        await until_it_waits(any_app, job.id)
        with pytest.raises(InvalidPayload, match="does not fit what the job waits for: it lacks 'by'"):
            await any_app.asignal(job, "approved", {"ok": True})
        with pytest.raises(InvalidPayload, match="'by' must be a text"):
            await asyncio.to_thread(job.signal, "approved", {"by": 7})
        assert await job.asignal("approved", Approval("ann")) == "delivered"
        assert await job.aresult("10s") == "ann"


async def test_w2_a_plain_handler_waits_too(any_app: Windlass) -> None:
    @any_app.task
    def ask(ctx: Context) -> list[int]:
        return [ctx.blocking.wait("number", type=int) for _ in range(3)]

    await any_app.amigrate()
    job = await ask.aenqueue()
    assert [await any_app.asignal(str(job.id), "number", n) for n in (1, 2)] == ["kept", "kept"]
    async with any_app.worker({"default": 1}):
        await until_it_waits(any_app, job.id)
        assert await job.asignal("number", 3) == "delivered"
        assert await job.aresult("10s") == [1, 2, 3]


async def test_w2_nobody_waits_longer_than_a_hundred_years(any_app: Windlass) -> None:
    """A slip in a unit does not break the lists of those who wait."""

    @any_app.task
    async def ask(ctx: Context) -> Any:
        return await ctx.wait("go", timeout=1e13)

    await any_app.amigrate()
    job = await ask.aenqueue()
    async with any_app.worker({"default": 1}):
        assert ", until 2" in await until_it_waits(any_app, job.id)
        await job.asignal("go", 1)
        assert await job.aresult("10s") == 1


async def test_w2_a_wait_that_times_out_may_be_caught(any_app: Windlass) -> None:
    @any_app.task(retry=Retry(2, base=0))
    async def ask(ctx: Context) -> str:
        try:
            await ctx.wait("approved", timeout="200ms")
        except WaitTimedOut as late:
            if ctx.attempt == 1:
                raise OSError("after the timeout") from None
            return f"no {late.signal}, attempt {ctx.attempt}"
        return "approved"

    await any_app.amigrate()
    job = await ask.aenqueue()
    async with any_app.worker({"default": 1}):
        assert await job.aresult("20s") == "no approved, attempt 2"


async def test_w2_a_timeout_that_nobody_catches_ends_the_job_dead_at_once(any_app: Windlass) -> None:
    @any_app.task(retry=Retry(5, base=0))
    async def ask(ctx: Context) -> None:
        await ctx.wait("approved", timeout="100ms")

    await any_app.amigrate()
    job = await ask.aenqueue()
    async with any_app.worker({"default": 1}):
        with pytest.raises(JobFailed, match="WaitTimedOut"):
            await job.aresult("20s")
    record = await job.arecord()
    assert (record.attempt, record.reason) == (1, "signal approved did not come in time")


async def test_w2_waits_side_by_side_go_on_with_the_first_signal(any_app: Windlass) -> None:
    @any_app.task
    async def ask(ctx: Context) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(ctx.wait(name)) for name in ("a", "b")]
        return [wait.result() for wait in waits]

    await any_app.amigrate()
    job = await ask.aenqueue()
    async with any_app.worker({"default": 1}):
        reason = await until_it_waits(any_app, job.id)
        assert "signal a since" in reason
        assert "and b since" in reason
        assert await job.asignal("b", 2) == "delivered"
        await until_it_waits(any_app, job.id)
        await job.asignal("a", 1)
        assert await job.aresult("10s") == [1, 2]


async def test_w2_a_value_of_another_type_fails_the_attempt(app: Windlass) -> None:
    @app.task(retry=Retry(1))
    async def ask(ctx: Context) -> int:
        number: int = await ctx.wait("number", type=int)
        return number

    await app.amigrate()
    job = await ask.aenqueue()
    await job.asignal("number", "three")
    async with app.worker({"default": 1}):
        with pytest.raises(JobFailed, match=ResultInvalid.__name__):
            await job.aresult("10s")


async def test_w2_a_handler_behind_a_signal_asks_the_store_for_nothing(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its steps and its wait have become comes with the claim, on PostgreSQL."""
    calls: list[str] = []

    def counted(where: type[Any], name: str) -> None:
        kept = getattr(where, name)

        async def call(*args: Any) -> Any:
            calls.append(name)
            return await kept(*args)

        monkeypatch.setattr(where, name, call)

    counted(Steps, "steps")
    counted(Waits, "wait_for_signal")
    async with Windlass(pg_dsn) as app:

        @app.task
        async def ask(ctx: Context) -> Any:
            first = await ctx.step("first", int, 7)
            return [first, await ctx.wait("approved", timeout="7d")]

        await app.amigrate()
        job = await ask.aenqueue()
        async with app.worker({"default": 1}):
            await until_it_waits(app, job.id)
            assert calls == ["wait_for_signal"]
            assert await job.asignal("approved", "yes") == "delivered"
            assert await job.aresult("10s") == [7, "yes"]
    assert calls == ["wait_for_signal"]


async def test_w2_a_signal_of_a_transaction_that_is_rolled_back_was_never_sent(url: str) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("that of SQLite is in tests/store/sqlite/connections/test_joining.py")
    import asyncpg

    with Windlass(url) as app:

        @app.task
        async def ask(ctx: Context) -> Any:
            return await ctx.wait("approved", timeout="7d")

        await app.amigrate()
        job = await ask.aenqueue()
        connection = await asyncpg.connect(url)
        async with app.worker({"default": 1}):
            await until_it_waits(app, job.id)
            undone = connection.transaction()
            await undone.start()
            assert await job.asignal("approved", "never", connection=connection) == "delivered"
            await undone.rollback()
            async with connection.transaction():
                assert await app.asignal(job, "approved", "yes", connection=connection) == "delivered"
                assert await job.astatus() == "scheduled"
            assert await job.aresult("10s") == "yes"
        await connection.close()


async def test_w2_a_test_context_is_given_its_signals() -> None:
    ctx = Context.for_test(signals=[("go", 1), ("go", 2)])
    assert [await ctx.wait("go"), await ctx.wait("go", timeout="1d")] == [1, 2]
    with pytest.raises(WaitTimedOut):
        await ctx.wait("go", timeout="1d")
    with pytest.raises(ConfigurationError, match="for_test"):
        await ctx.wait("go")


def test_w2_a_drain_runs_what_was_signalled() -> None:
    app = Windlass()

    @app.task
    def ask(ctx: Context) -> Any:
        return ctx.blocking.wait("go", timeout="2d", type=str)

    with app.testing() as kit:
        answered, late = ask.enqueue(), ask.enqueue()
        assert [job.id for job in kit.drain().waiting] == [answered.id, late.id]
        with pytest.raises(InvalidPayload, match="must be a text"):
            answered.signal("go", 1)
        assert answered.signal("go", "yes") == "delivered"
        assert [job.result for job in kit.drain().succeeded] == ["yes"]
        ran = kit.drain(advance="3d", raises=False)
        assert [job.reason for job in ran.dead] == ["signal go did not come in time"]
        assert isinstance(ran.errors[0], WaitTimedOut)


async def test_w2_a_signal_wakes_its_handler_at_once(any_app: Windlass) -> None:
    """Without a poll between them. Figures are in docs/guides/jobs-that-wait.md."""
    woken: asyncio.Queue[float] = asyncio.Queue()

    @any_app.task
    async def ask(ctx: Context) -> None:
        for _ in range(5):
            await ctx.wait("go")
        woken.put_nowait(time.perf_counter())

    await any_app.amigrate()
    sent: list[float] = []
    took, watch = list[float](), Stopwatch()
    async with any_app.worker({"default": 1}):
        for _ in range(5):
            job = await ask.aenqueue()
            for no in range(5):
                await until_it_waits(any_app, job.id)
                sent.append(time.perf_counter())
                await job.asignal("go", no)
            took.append(await woken.get() - sent[-1])
    assert min(took) < 0.25 + watch.lost(), took


async def test_w2_e7_a_sender_that_lost_the_answer_sends_its_signal_again(any_app: Windlass) -> None:
    """Sync and async; the job hears it once, and is told of another key."""

    @any_app.task
    async def ask(ctx: Context) -> list[Any]:
        return [await ctx.wait("paid"), await ctx.wait("paid")]

    await any_app.amigrate()
    job = await ask.aenqueue()
    async with any_app.worker({"default": 1}):
        await until_it_waits(any_app, job.id)
        assert await job.asignal("paid", 1, idempotency_key="evt_1") == "delivered"
        assert await any_app.asignal(job, "paid", 1, idempotency_key="evt_1") == "repeated"
        again = await asyncio.to_thread(any_app.signal, job, "paid", 1, idempotency_key="evt_1")
        assert again == "repeated"
        await job.asignal("paid", 2, idempotency_key="evt_2")
        assert await job.aresult("10s") == [1, 2]
    assert await job.asignal("paid", 1, idempotency_key="evt_1") == "repeated"
    for wrong in ("", "x" * 256, 7, "\0", "\ud800"):
        with pytest.raises(InvalidOption, match="idempotency_key"):
            await job.asignal("paid", 1, idempotency_key=wrong)


@pytest.mark.parametrize("name", ["", "a/b", "\0", "\ud800", 7])
async def test_w2_what_is_no_name_of_a_signal_is_refused(any_app: Windlass, name: Any) -> None:
    @any_app.task
    async def ask(ctx: Context) -> None:
        await ctx.wait(name)

    await any_app.amigrate()
    job = await ask.using(max_attempts=1).aenqueue()
    with pytest.raises(InvalidOption, match="cannot be the name of a signal"):
        await job.asignal(name, 1)
    await any_app.arun_until_idle()
    assert "cannot be the name of a signal" in (await job.arecord()).errors[0].message


async def test_w2_e7_the_key_of_a_signal_that_was_rolled_back_is_free(url: str) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("that of SQLite is in tests/store/sqlite/connections/test_joining.py")
    import asyncpg

    with Windlass(url) as app:

        @app.task
        async def ask(ctx: Context) -> Any:
            return await ctx.wait("paid")

        await app.amigrate()
        job = await ask.aenqueue()
        connection = await asyncpg.connect(url)
        undone = connection.transaction()
        await undone.start()
        assert await job.asignal("paid", 1, idempotency_key="k", connection=connection) == "kept"
        again = asyncio.create_task(job.asignal("paid", 2, idempotency_key="k"))
        await undone.rollback()
        assert await again == "kept"
        async with connection.transaction():
            said = await job.asignal("paid", 3, idempotency_key="k", connection=connection)
            assert said == "repeated"
        sql = "SELECT windlass.signal($1, 'paid', '3', idempotency_key => $2)"
        assert await connection.fetchval(sql, job.id, "k") == "repeated"
        assert await connection.fetchval(sql, job.id, "sql") == "kept"
        assert await job.asignal("paid", 4, idempotency_key="sql") == "repeated"
        await connection.close()
        await app.arun_until_idle()
        assert await job.aresult() == 2
