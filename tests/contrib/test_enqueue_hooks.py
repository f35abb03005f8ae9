"""What instruments hang around every call that makes jobs: their order, what they may change, and errors."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from windlass import Context, Windlass
from windlass.errors import QueueFull
from windlass.hooks import Sending


async def test_hooks_are_around_every_enqueue(app: Windlass) -> None:
    told: list[str] = []

    @app.task(name="mail.send")
    def send(context: Context) -> None:
        told.append(",".join(context.tags))

    @contextmanager
    def outer(sending: Sending) -> Iterator[None]:
        told.append(f"outer in {len(sending.jobs)}")
        yield
        told.append(f"outer out {len(sending.receipts)}")

    @contextmanager
    def inner(sending: Sending) -> Iterator[None]:
        sending.jobs = [
            msgspec.structs.replace(job, options=msgspec.structs.replace(job.options, tags=("seen",)))
            for job in sending.jobs
        ]
        told.append("inner in")
        yield
        told.append("inner out")

    app.hooks.around_enqueue(outer)
    app.hooks.around_enqueue(inner)
    around = ["inner in", "inner out"]
    await send.aenqueue()
    assert told == ["outer in 1", *around, "outer out 1"]
    told.clear()
    send.enqueue_many([(), ()])
    assert told == ["outer in 2", *around, "outer out 2"]
    told.clear()
    assert await send.aenqueue_many([]) == []
    assert told == []  # nothing was sent
    await app.arun_until_idle()
    assert told == ["seen"] * 3


async def test_a_hook_sees_why_jobs_were_not_sent(app: Windlass) -> None:
    seen: list[BaseException] = []

    @app.task(name="full", queue="full")
    async def full() -> None: ...

    @contextmanager
    def watch(sending: Sending) -> Iterator[None]:
        try:
            yield
        except QueueFull as error:
            seen.append(error)
            raise

    app.hooks.around_enqueue(watch)
    await app._home().acall(lambda store: store.set_queue("full", {"max_depth": 1}))
    await full.aenqueue()
    with pytest.raises(QueueFull):
        await full.aenqueue()
    with pytest.raises(QueueFull):
        full.enqueue()
    assert len(seen) == 2
