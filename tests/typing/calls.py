"""Right and wrong calls, as a user's type checker sees them. Never run.

Each wrong line carries the error it must cause. Unused ignores are errors, so mypy itself fails when one of
them starts to pass; `test_typing.py` checks the same with the ignores taken away.
"""

from functools import partial
from sqlite3 import Connection
from typing import Any, Literal, assert_type

from windlass import (
    Context,
    Group,
    Job,
    Priority,
    Retry,
    Task,
    Windlass,
    current_context,
    result_of,
    results_of,
)
from windlass.handles.details import JobDetails, StepDetails
from windlass.running.hooks import CallNext
from windlass.store.records import Outcome
from windlass.tasks.task import AsyncTask, SyncTask

app = Windlass()


@app.task
def bare(number: int, text: str = "") -> float:
    return number / 2


@app.task(queue="mail", priority="high", retry=Retry(5, base="5s"), timeout="30s")
async def send(to: str, *, template: str) -> list[str]:
    return [to, template]


@app.task
async def load(ctx: Context, path: str, *, rows: int = 0) -> int:
    assert_type(current_context(), Context)
    return rows


@app.task(queue="imports", mode="thread")
def load_plainly(ctx: Context, path: str) -> bytes:
    return path.encode()


@app.task
def late(path: str, ctx: Context | None = None) -> int:
    return len(path)


@app.on_start
async def connect(it: Windlass) -> None:
    it.state.pool = None


@app.on_stop
def disconnect() -> None: ...


@app.middleware
async def timed(ctx: Context, call_next: CallNext) -> Any:
    return await call_next()


@app.on_failure
def report(ctx: Context, error: BaseException, outcome: Outcome) -> None: ...


async def right_with_a_context() -> None:
    ctx = Context.for_test("imports.load", attempt=2, saved={"row": 1})
    assert_type(await load.aenqueue("file", rows=5), Job[int])
    assert_type(load.using(delay="5m").enqueue("file").result(), int)
    assert_type(await load(ctx, "file", rows=5), int)
    assert_type(load_plainly.enqueue("file"), Job[bytes])
    assert_type(load_plainly(ctx, "file"), bytes)
    assert_type(late.enqueue("file"), Job[int])
    assert_type(late("file"), int)
    assert_type(load.enqueue("file").replay(), Job[int])
    assert_type(app.discover("shop.tasks"), list[str])
    generic: Task[[str], bytes] = load_plainly
    del generic


async def wrong_with_a_context() -> None:
    ctx = Context.for_test()
    load_plainly.enqueue(ctx)  # type: ignore[arg-type]
    await load.aenqueue("file", 5)  # type: ignore[call-arg]
    load.enqueue(5)  # type: ignore[arg-type]
    await load(ctx)  # type: ignore[call-arg]
    load_plainly.enqueue()  # type: ignore[call-arg]
    load_plainly(5, "file")  # type: ignore[arg-type]
    app.task(mode="fibre")  # type: ignore[call-overload]
    app.middleware(bare.function)  # type: ignore[type-var]
    app.on_failure(disconnect)  # type: ignore[type-var]
    Context.for_test(colour="red")  # type: ignore[call-arg]


async def right() -> None:
    assert_type(bare(1), float)
    assert_type(await send("a", template="b"), list[str])
    assert_type(bare.enqueue(1, text="x"), Job[float])
    assert_type(bare.enqueue(1).result(), float)
    assert_type(await send.aenqueue("a", template="b"), Job[list[str]])
    assert_type(await (await send.aenqueue("a", template="b")).aresult("5s"), list[str])
    assert_type(bare.using(delay="5m", priority="high", tags=["a"]).enqueue(1), Job[float])
    assert_type(bare.enqueue_many([(1,), {"number": 2}]), list[int])
    assert_type(bare.job(7).result(timeout=1), float)
    app.enqueue("mail.send", 1, anything="goes")
    app.named("mail.send").using(queue="mail").enqueue(1, anything="goes")
    generic: Task[[int], float] = bare
    synchronous: SyncTask[..., float] = bare
    asynchronous: AsyncTask[..., list[str]] = send
    del generic, synchronous, asynchronous


class Approval:
    """What an operator sends."""

    by: str


async def quote(order: int, currency: str = "EUR") -> float:
    return order / 2


def weigh(order: int, *, unit: str = "kg") -> str:
    return f"{order} {unit}"


async def book(connection: Connection, order: int) -> bytes:
    return str(connection.execute("SELECT 1", (order,))).encode()


async def right_steps_and_waits(ctx: Context) -> None:
    assert_type(await ctx.wait("approved", type=Approval), Approval)
    assert_type(await ctx.wait("approved", type=list[int], timeout="1h"), list[int])
    assert_type(await ctx.wait("approved"), Any)
    assert_type(await ctx.wait("approved", type=Literal["yes", "no"]), Any)
    assert_type(ctx.blocking.wait("approved", type=int), int)
    assert_type(await ctx.step("quote", quote, 1), float)
    assert_type(await ctx.step("quote", quote, 1, currency="USD"), float)
    assert_type(await ctx.step("quote", quote, 1, retry=Retry(3), timeout="30s", was="old"), float)
    assert_type(await ctx.step("quote", quote, 1, "USD", version=2, accepts=["f"]), float)
    assert_type(await ctx.step("quote", partial(quote, 1, currency="USD"), retry=Retry(3)), float)
    assert_type(await ctx.step("weigh", weigh, 1, unit="g"), str)
    assert_type(await ctx.step("weigh", weigh, 1, retry=Retry(3)), str)
    assert_type(await ctx.step("book", book, 1, transaction=True), bytes)
    assert_type(await ctx.step("sum", lambda: 3, retry=Retry(3)), int)
    assert_type(ctx.blocking.step("weigh", weigh, 1, retry=Retry(3)), str)


async def wrong_steps_and_waits(ctx: Context) -> None:
    number: int = await ctx.wait("approved", type=Approval)  # type: ignore[arg-type]
    ctx.blocking.wait("approved", type=int).upper()  # type: ignore[attr-defined]
    await ctx.step("quote", quote, "wrong")  # type: ignore[arg-type]
    await ctx.step("quote", quote, "wrong", retry=Retry(3))  # type: ignore[call-arg, arg-type]
    await ctx.step("quote", quote)  # type: ignore[call-arg, arg-type]
    await ctx.step("quote", quote, 1, currency=3)  # type: ignore[arg-type]
    await ctx.step("quote", quote, 1, colour="red")  # type: ignore[call-arg]
    await ctx.step("quote", quote, 1, retry=3)  # type: ignore[call-arg]
    await ctx.step("book", book, "one", transaction=True)  # type: ignore[call-arg, arg-type]
    text: str = await ctx.step("quote", quote, 1)  # type: ignore[arg-type]
    ctx.blocking.step("weigh", weigh, "one")  # type: ignore[arg-type]
    del number, text


@app.task
def pair(number: int, text: str) -> None: ...


@app.task
def tick() -> None: ...


async def right_many(group: Group) -> None:
    rows: list[tuple[int, str]] = [(1, "a")]
    mixed: list[tuple[Any, ...]] = [(1,), (1, "a")]
    assert_type(pair.enqueue_many(rows), list[int])
    assert_type(await pair.aenqueue_many((n, "a") for n in range(3)), list[int])
    bare.enqueue_many([(1, "a"), (2, "b")])
    bare.enqueue_many(mixed)
    tick.enqueue_many([()] * 3)
    send.enqueue_many([{"to": "a", "template": "b"}])
    app.named("pair").enqueue_many([(1,), (2,)])
    await group.aenqueue_many(pair, rows)
    group.enqueue_many(tick, [(), ()])


async def wrong_many(group: Group) -> None:
    pair.enqueue_many([(3,)])  # type: ignore[list-item]
    pair.enqueue_many([(3, 4)])  # type: ignore[list-item]
    await pair.aenqueue_many([("a", "b")])  # type: ignore[list-item]
    send.enqueue_many([("a", "b")])  # type: ignore[list-item]
    tick.enqueue_many([(1,)])  # type: ignore[list-item]
    group.enqueue_many(pair, [(3,)])  # type: ignore[arg-type, list-item]
    pair.enqueue_many([{3: 4}])  # type: ignore[dict-item]


def right_words() -> None:
    app.task(priority="urgent")(bare.function)
    bare.using(priority=Priority.HIGH, otherwise="run_only")
    bare.using(priority=0).enqueue(1)
    app.jobs(state="dead")


def wrong_words() -> None:
    app.task(priority="urgnt")  # type: ignore[call-overload]
    bare.using(priority="urgnt")  # type: ignore[arg-type]
    bare.enqueue(1).change(priority="urgnt")  # type: ignore[arg-type]
    bare.using(otherwise="only")  # type: ignore[arg-type]
    app.jobs(state="ded")  # type: ignore[arg-type]


@app.task
def add_up(parts: list[int], *, first: float = 0.0) -> int:
    return sum(parts)


def right_results(group: Group) -> None:
    job = add_up.enqueue([1])
    assert_type(result_of(job), int)
    assert_type(results_of([job]), list[int])
    assert_type(result_of(group), list[Any])
    assert_type(group.on_failure(add_up, result_of(group), first=result_of(bare.enqueue(1))), Job[int])


def wrong_results(group: Group) -> None:
    job = add_up.enqueue([1])
    add_up.enqueue(result_of(job))  # type: ignore[arg-type]
    add_up.enqueue(results_of([bare.enqueue(1)]))  # type: ignore[list-item]
    group.on_failure(add_up, 5)  # type: ignore[arg-type]
    results_of(job)  # type: ignore[arg-type]
    result_of([job])  # type: ignore[call-overload]


async def right_listing() -> None:
    assert_type([job async for job in app.jobs(state="dead", limit=5)], list[Job[Any]])
    assert_type([record async for record in app.jobs().records()], list[JobDetails])
    assert_type(list(app.jobs(tag="red")), list[Job[Any]])
    assert_type(bare.enqueue(1).steps(), list[StepDetails])


async def wrong() -> None:
    bare("one")  # type: ignore[arg-type]
    bare.enqueue("one")  # type: ignore[arg-type]
    bare.enqueue()  # type: ignore[call-arg]
    bare.enqueue(1, "x", 3)  # type: ignore[call-arg]
    bare.enqueue(1, colour="red")  # type: ignore[call-arg]
    await send.aenqueue("a", "b")  # type: ignore[call-arg]
    await send.aenqueue("a", template=5)  # type: ignore[arg-type]
    await send("a")  # type: ignore[call-arg]
    bare.using(colour="red")  # type: ignore[call-arg]
    bare.using(delay=[]).enqueue("one")  # type: ignore[arg-type]
    bare.using(on_conflict="merge")  # type: ignore[arg-type]
    bare.enqueue_many([[1]])  # type: ignore[list-item]
    text: str = bare.enqueue(1).result()  # type: ignore[assignment]
    app.task(queue=5)  # type: ignore[call-overload]
    app.task(retry=3)  # type: ignore[call-overload]
    Windlass(colour="red")  # type: ignore[call-arg]
    del text
