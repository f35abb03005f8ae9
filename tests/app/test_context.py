"""What a handler may know and do about its run: on a real store where it writes, and without a worker."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec
import pytest

from windlass import Cancelled, Context, Retry, State, Windlass, current_context
from windlass.context import entered
from windlass.core.states import Kind
from windlass.errors import (
    ClaimLost,
    ConfigurationError,
    EnqueueError,
    InvalidArguments,
    InvalidPayload,
    StoreUnavailable,
    WorkerLost,
)
from windlass.payload import Signature
from windlass.store.memory import MemoryStore
from windlass.store.records import (
    Checkpoint,
    ClaimedJob,
    NewJob,
    Options,
    Outcome,
    PartOf,
    Plan,
    TaskRecord,
    WorkerInfo,
)


class StorePort:
    """What an engine is to a context, with a store behind it and nothing else."""

    def __init__(self, store: MemoryStore, worker: int) -> None:
        self.store = store
        self.worker = worker
        self.loop = asyncio.get_running_loop()
        self.loads = 0
        self.writes: list[Checkpoint] = []
        self.trouble: Exception | None = None
        self.gate: asyncio.Event | None = None

    async def load(self, job: ClaimedJob) -> Checkpoint | None:
        self.loads += 1
        return (await self.store.checkpoints([job.id])).get(job.id)

    async def save(self, job: ClaimedJob, checkpoint: Checkpoint, connection: Any = None) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.trouble is not None:
            raise self.trouble
        await self.store.checkpoint(self.worker, job, checkpoint)
        self.writes.append(checkpoint)

    def transaction(
        self, job: ClaimedJob, outcome: Callable[[], Outcome]
    ) -> AbstractAsyncContextManager[Any]:
        return self.store.transaction(self.worker, 1, outcome)

    def saving(
        self, job: ClaimedJob, checkpoint: Callable[[], Checkpoint]
    ) -> AbstractAsyncContextManager[Any]:
        return self.store.saving(self.worker, job, checkpoint)

    async def split(self, job: ClaimedJob, plan: Plan) -> None:
        await self.store.split(self.worker, 1, job, plan)

    def span(self, task: str, part: PartOf) -> str:
        return part.span

    async def settings(self, task: str) -> TaskRecord:
        return TaskRecord(name=task)


@pytest.fixture
async def port() -> StorePort:
    store = MemoryStore()
    await store.register(WorkerInfo(id=77))
    return StorePort(store, 77)


async def claimed(port: StorePort, **fields: Any) -> ClaimedJob:
    await port.store.enqueue([NewJob(task="imports.load", payload="{}", **fields)])
    return await claimed_again(port)


async def claimed_again(port: StorePort) -> ClaimedJob:
    return (await port.store.claim(port.worker, ["default"], 1))[0].jobs[0]


# -- what it knows --------------------------------------------------------------------------------------


async def test_it_knows_its_job(port: StorePort) -> None:
    options = Options(max_attempts=2, tags=("a",), headers={"user": "7"}, trace="00-1")
    job = await claimed(port, options=options)
    ctx = Context(job, port)
    assert (ctx.id, ctx.task, ctx.queue, ctx.attempt, ctx.max_attempts) == (
        job.id,
        "imports.load",
        "default",
        1,
        2,
    )
    assert (ctx.deaths, ctx.fence, ctx.worker, ctx.tags, ctx.trace) == (0, job.claim, 77, ("a",), "00-1")
    assert ctx.enqueued_at == datetime.fromtimestamp(job.enqueued_at, UTC)
    assert dict(ctx.headers) == {"user": "7"}
    with pytest.raises(TypeError):
        ctx.headers["user"] = "8"  # type: ignore[index]
    assert not ctx.last_attempt
    assert Context(msgspec.structs.replace(job, attempt=2), port).last_attempt
    assert "imports.load" in repr(ctx)


def test_its_logger_says_which_job(caplog: pytest.LogCaptureFixture) -> None:
    ctx = Context.for_test("imports.load", id=5, queue="bulk", attempt=3)
    with caplog.at_level(logging.INFO, "windlass.job"):
        ctx.logger.info("%d of %d%%", 1, 2, extra={"colour": "red"})
    (record,) = caplog.records
    assert record.getMessage() == "imports.load 5: 1 of 2%"
    found = {name: getattr(record, name) for name in ("job", "task", "queue", "attempt", "colour")}
    assert found == {"job": 5, "task": "imports.load", "queue": "bulk", "attempt": 3, "colour": "red"}


async def test_the_current_one_is_known_in_tasks_and_threads_below() -> None:
    with pytest.raises(RuntimeError, match="no job runs here"):
        current_context()
    ctx = Context.for_test()

    async def job() -> None:
        entered(ctx)
        assert current_context() is ctx
        assert await asyncio.to_thread(current_context) is ctx

    await asyncio.create_task(job())
    with pytest.raises(RuntimeError, match="inside a handler"):
        current_context()


def test_o5_a_plain_function_looks_whether_it_should_stop() -> None:
    ctx = Context.for_test()
    before = ctx.cancelled
    ctx.check()
    ctx.cancel()
    ctx.cancel()
    assert (before, ctx.cancelled) == (False, True)
    with pytest.raises(Cancelled):
        ctx.check()


# -- how it is asked for --------------------------------------------------------------------------------


def first(ctx: Context, path: str, rows: int = 1) -> None: ...
def last(path: str, rows: int = 1, *, ctx: "Context") -> None: ...
def middle(path: str, run: Context | None = None, rows: int = 1) -> None: ...


@pytest.mark.parametrize(("function", "name"), [(first, "ctx"), (last, "ctx"), (middle, "run")])
@pytest.mark.parametrize("text", ['{"path":"a","rows":2}', '["a",2]', '{"*":["a"],"rows":2}'])
def test_the_context_is_no_part_of_the_payload(function: Any, name: str, text: str) -> None:
    signature = Signature("the.task", function)
    assert signature.context == name
    assert signature.encode(("a",), {"rows": 2}) == '{"path":"a","rows":2}'
    args, kwargs = signature.decode(text)
    assert args == ()
    assert kwargs == {"path": "a", "rows": 2}
    function(*args, **kwargs, **{name: Context.for_test()})  # the worker's way to call it
    with pytest.raises(InvalidArguments, match=f"'{name}' is the context of the run"):
        signature.encode(("a",), {name: 5})
    with pytest.raises(InvalidArguments, match="'path'"):
        signature.encode((), {})


def test_beside_other_kinds_of_parameters() -> None:
    def positional(one: int, /, ctx: Context, two: int, **rest: int) -> None: ...
    def many(one: int, *more: int, ctx: Context) -> None: ...

    signature = Signature("the.task", positional)
    args, kwargs = signature.decode(signature.encode((1, 2), {"three": 3}))
    assert (args, kwargs) == ((1,), {"two": 2, "three": 3})
    positional(*args, **{**kwargs, "ctx": Context.for_test()})
    with pytest.raises(InvalidArguments, match="context of the run"):
        signature.encode((1, 2), {"ctx": 3})
    signature = Signature("the.task", many)
    args, kwargs = signature.decode(signature.encode((1, 2, 3), {}))
    assert (args, kwargs) == ((1, 2, 3), {})
    many(*args, **kwargs, ctx=Context.for_test())


def test_where_it_cannot_be_passed_by_name_is_a_configuration_error() -> None:
    def only(ctx: Context, /) -> None: ...
    def many(ctx: Context, *more: int) -> None: ...
    def two(ctx: Context, other: Context) -> None: ...
    def rest(*ctx: Context) -> None: ...

    wrong: dict[Callable[..., None], str] = {
        only: "keyword-only",
        many: "keyword-only",
        two: "one Context",
        rest: "one Context",
    }
    for function, reason in wrong.items():
        with pytest.raises(ConfigurationError, match=reason):
            Signature("the.task", function)


def test_annotations_that_cannot_be_read_yet_are_no_context() -> None:
    def plain(value: Any, other: Any) -> None: ...

    plain.__annotations__ = {"value": "DefinedFurtherDown", "other": "no annotation at all"}
    assert Signature("the.task", plain).context is None


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
    with pytest.raises(InvalidPayload):
        await again.asave(object())


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
    monkeypatch.setattr("windlass.checkpoints.monotonic", lambda: now)
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
    port.trouble = StoreUnavailable("gone for a moment")
    await ctx.aprogress(1, 1)
    assert "cannot write its progress" in caplog.text
    with pytest.raises(StoreUnavailable):
        await ctx.asave(1)
    for lost in (ClaimLost("not yours"), WorkerLost("not alive")):
        port.trouble = lost
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
        store = MemoryStore()
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
    with pytest.raises(ConfigurationError, match="memory store has no transaction"):
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


# -- tasks that take one --------------------------------------------------------------------------------


async def test_a_task_is_called_directly_with_a_context_for_tests(app: Windlass) -> None:
    @app.task
    async def load(ctx: Context, path: str) -> int:
        row = await ctx.asaved() or 0
        await ctx.asave(row + 1, done=row + 1, total=10)
        return row

    @app.task
    def load_plainly(ctx: Context, path: str) -> int:
        ctx.save(ctx.saved() + 1)
        return ctx.attempt

    ctx = Context.for_test(load.name, saved=3)
    assert await load(ctx, "file") == 3
    assert ctx.written == [(4, 4, 10)]
    plain = Context.for_test(attempt=2, saved=8)
    assert await asyncio.to_thread(load_plainly, plain, path="file") == 2
    assert plain.written == [(9, None, None)]
    job = await load.aenqueue("file")
    assert (await job.arecord()).payload == '{"path":"file"}'
    with pytest.raises(InvalidArguments, match="too many"):
        await load.aenqueue(ctx, "file")  # type: ignore[arg-type, call-arg]
    with pytest.raises(EnqueueError, match="no field colour"):
        Context.for_test(colour="red")  # type: ignore[call-arg]


def test_handlers_get_the_context_of_their_run(app: Windlass) -> None:
    """[O1] [O5] [K9]"""
    told: list[str] = []

    @app.task(name="load", retry=Retry(2, base=0))
    async def load(ctx: Context, path: str) -> int:
        row: int = await ctx.asaved() or 0
        await ctx.asave(row + 1)
        if ctx.attempt == 1:
            raise ValueError("try again")
        assert current_context() is ctx
        return row

    @app.task(name="plain")
    def plain(path: str, ctx: Context | None = None) -> bool:
        assert ctx is not None
        ctx.save(path)
        return ctx.saved() == path and current_context() is ctx

    @app.task(name="stops")
    def stops(ctx: Context) -> None:
        raise Cancelled

    @app.middleware
    async def note(ctx: Context, call_next: Callable[[], Any]) -> Any:
        told.append(f"{ctx.task} {ctx.attempt}")
        return await call_next()

    @app.on_failure
    def failed(ctx: Context, error: BaseException, outcome: Outcome) -> None:
        told.append(f"{ctx.task}: {error}")

    resumed, simple, stopped = load.enqueue("a"), plain.enqueue("b"), stops.enqueue()
    app.run_until_idle()
    assert (resumed.result(timeout=1), simple.result(timeout=1)) == (1, True)
    assert stopped.status() == State.CANCELLED
    assert sorted(told) == ["load 1", "load 2", "load: try again", "plain 1", "stops 1"]


def test_where_a_task_runs(app: Windlass) -> None:
    def plain(value: int) -> None: ...
    async def coroutine(value: int) -> None: ...
    def knowing(ctx: Context) -> None: ...

    assert app.task(name="a")(plain).mode == "thread"
    assert app.task(name="b", mode="thread")(plain).mode == "thread"
    assert app.task(name="c", mode="process")(plain).mode == "process"
    assert app.task(name="d")(coroutine).mode == "loop"
    for mode in get_args(Literal["thread", "process"]):
        with pytest.raises(ConfigurationError, match="for plain functions"):
            app.task(mode=mode)(coroutine)
    with pytest.raises(ConfigurationError, match="not one of thread, process"):
        app.task(mode="fibre")(plain)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="'ctx' takes a Context"):
        app.task(mode="process")(knowing)


def test_o2_whether_a_task_has_a_policy_of_its_own(app: Windlass) -> None:
    def plain() -> None: ...

    assert not app.task(name="a")(plain).has_policy
    assert app.task(name="b", retry=Retry())(plain).has_policy


# -- replay ---------------------------------------------------------------------------------------------


async def test_o6_replay_makes_a_new_job_that_does_the_same(any_app: Windlass) -> None:
    @any_app.task(name="mail.send")
    async def send(to: str) -> str:
        return to

    options = {"queue": "mail", "priority": "high", "unique": "key", "tags": ["a"], "headers": {"b": "c"}}
    job = await send.using(**options).aenqueue("a@b.c")  # type: ignore[arg-type]
    with pytest.raises(EnqueueError, match="has not ended"):
        await job.areplay()
    await job.acancel()
    again = await job.areplay()
    before, after = await job.arecord(), await again.arecord()
    assert (before.state, after.state) == (State.CANCELLED, State.READY)
    assert (after.task, after.payload, after.queue) == (before.task, before.payload, "mail")
    assert (after.priority, after.options.tags) == (before.priority, ("a",))
    assert (after.options.replay_of, after.options.unique_key) == (job.id, None)
    assert after.options.headers == {"b": "c"}
    assert again.receipt == "enqueued"
    await again.acancel()
    assert (await (await again.areplay()).arecord()).options.replay_of == again.id


def test_o6_replay_from_plain_code(app: Windlass) -> None:
    job = app.enqueue("mail.send", 1)
    job.cancel()
    assert job.replay().record().options.replay_of == job.id
