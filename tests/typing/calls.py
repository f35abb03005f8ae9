"""Right and wrong calls, as a user's type checker sees them. Never run.

Each wrong line carries the error it must cause. Unused ignores are errors, so mypy itself fails when one of
them starts to pass; `test_typing.py` checks the same with the ignores taken away.
"""

from typing import assert_type

from windlass import Job, Retry, Task, Windlass
from windlass.task import AsyncTask, SyncTask

app = Windlass()


@app.task
def bare(number: int, text: str = "") -> float:
    return number / 2


@app.task(queue="mail", priority="high", retry=Retry(5, base="5s"), timeout="30s")
async def send(to: str, *, template: str) -> list[str]:
    return [to, template]


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
