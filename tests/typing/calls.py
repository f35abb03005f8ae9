"""Right and wrong calls, as a user's type checker sees them. Never run.

Each wrong line carries the error it must cause. Unused ignores are errors, so mypy itself fails when one of
them starts to pass; `test_typing.py` checks the same with the ignores taken away.
"""

from typing import Any, assert_type

from windlass import Context, Job, Retry, Task, Windlass, current_context
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
