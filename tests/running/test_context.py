"""What a handler knows about its run, how it asks for that, and tasks whose handlers do."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec
import pytest

from tests.running.ports import StorePort, claimed
from windlass import Cancelled, Context, Retry, State, Windlass, current_context
from windlass.errors import ConfigurationError, EnqueueError, InvalidArguments
from windlass.running.context import entered
from windlass.store.records import Options, Outcome
from windlass.tasks.payload import Signature

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
    assert found == {"job": "5", "task": "imports.load", "queue": "bulk", "attempt": 3, "colour": "red"}


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
    assert (await job.arecord()).payload == {"path": "file"}
    with pytest.raises(InvalidArguments, match="too many"):
        await load.aenqueue(ctx, "file")  # type: ignore[arg-type, call-arg]
    with pytest.raises(EnqueueError, match="no field colour"):
        Context.for_test(colour="red")  # type: ignore[call-arg]


def test_handlers_get_the_context_of_their_run(app: Windlass) -> None:
    """[O1] [O5] [K9]"""
    seen: list[str] = []

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
        seen.append(f"{ctx.task} {ctx.attempt}")
        return await call_next()

    @app.on_failure
    def failed(ctx: Context, error: BaseException, outcome: Outcome) -> None:
        seen.append(f"{ctx.task}: {error}")

    resumed, simple, stopped = load.enqueue("a"), plain.enqueue("b"), stops.enqueue()
    app.run_until_idle()
    assert (resumed.result(timeout=1), simple.result(timeout=1)) == (1, True)
    assert stopped.status() == State.CANCELLED
    assert sorted(seen) == ["load 1", "load 2", "load: try again", "plain 1", "stops 1"]


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
    with pytest.raises(ConfigurationError, match=r"'ctx' takes a Context.*Steps, sleeps and waits are for"):
        app.task(mode="process")(knowing)


def test_o2_whether_a_task_has_a_policy_of_its_own(app: Windlass) -> None:
    def plain() -> None: ...

    assert not app.task(name="a")(plain).has_policy
    assert app.task(name="b", retry=Retry())(plain).has_policy
