"""What instruments hang around every call that makes jobs: their order, what they may change, and errors."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from windlass import Context, Windlass
from windlass.errors import QueueFull
from windlass.running.hooks import Sending


async def test_hooks_are_around_every_enqueue(app: Windlass) -> None:
    seen: list[str] = []

    @app.task(name="mail.send")
    def send(context: Context) -> None:
        seen.append(",".join(context.tags))

    @contextmanager
    def outer(sending: Sending) -> Iterator[None]:
        seen.append(f"outer in {len(sending.jobs)}")
        yield
        seen.append(f"outer out {len(sending.receipts)}")

    @contextmanager
    def inner(sending: Sending) -> Iterator[None]:
        sending.jobs = [
            msgspec.structs.replace(job, options=msgspec.structs.replace(job.options, tags=("seen",)))
            for job in sending.jobs
        ]
        seen.append("inner in")
        yield
        seen.append("inner out")

    app.hooks.around_enqueue(outer)
    app.hooks.around_enqueue(inner)
    around = ["inner in", "inner out"]
    await send.aenqueue()
    assert seen == ["outer in 1", *around, "outer out 1"]
    seen.clear()
    send.enqueue_many([(), ()])
    assert seen == ["outer in 2", *around, "outer out 2"]
    seen.clear()
    assert await send.aenqueue_many([]) == []
    assert seen == []  # nothing was sent
    await app.arun_until_idle()
    assert seen == ["seen"] * 3


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
    await app._store_handle().acall(lambda store: store.set_queue("full", {"max_depth": 1}))
    await full.aenqueue()
    with pytest.raises(QueueFull):
        await full.aenqueue()
    with pytest.raises(QueueFull):
        full.enqueue()
    assert len(seen) == 2


async def test_what_a_hook_raises_after_the_sending_does_not_unsend(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    """[E7]: whoever hears of an error sends again. It is logged, and not each time."""
    left: list[str] = []

    @app.task(name="mail.send")
    def send() -> None: ...

    @contextmanager
    def outer(sending: Sending) -> Iterator[None]:
        yield
        left.append(sending.receipts[0].status)

    @contextmanager
    def broken(sending: Sending) -> Iterator[None]:
        yield
        raise RuntimeError("the collector is gone")

    app.hooks.around_enqueue(outer)
    app.hooks.around_enqueue(broken)
    for _ in range(3):
        assert (await send.aenqueue()).id
        assert send.enqueue().id
    assert left == ["enqueued"] * 6
    assert [record.message for record in caplog.records if "enqueue hook" in record.message] == [
        "the enqueue hook test_what_a_hook_raises_after_the_sending_does_not_unsend.<locals>.broken failed "
        "after the jobs were enqueued; they stay enqueued"
    ]


async def test_what_a_hook_raises_before_the_sending_refuses_it(app: Windlass) -> None:
    seen: list[BaseException] = []

    @app.task(name="mail.send")
    def send() -> None: ...

    @contextmanager
    def outer(sending: Sending) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            seen.append(error)
            raise

    @contextmanager
    def strict(sending: Sending) -> Iterator[None]:
        if sending.jobs:
            raise ValueError("not on a Sunday")
        yield

    app.hooks.around_enqueue(outer)
    app.hooks.around_enqueue(strict)
    with pytest.raises(ValueError, match="Sunday"):
        await send.aenqueue()
    assert len(seen) == 1
    assert (await app.jobs().acount()).jobs == 0


async def test_a_hook_can_neither_hide_nor_change_why_jobs_were_not_sent(app: Windlass) -> None:
    @app.task(name="full", queue="full")
    async def full() -> None: ...

    @contextmanager
    def broken(sending: Sending) -> Iterator[None]:
        try:
            yield
        finally:
            raise RuntimeError("the collector is gone")

    @contextmanager
    def mute(sending: Sending) -> Iterator[None]:
        try:
            yield
        except QueueFull:
            return

    await app._store_handle().acall(lambda store: store.set_queue("full", {"max_depth": 1}))
    await full.aenqueue()
    app.hooks.around_enqueue(broken)
    app.hooks.around_enqueue(mute)
    with pytest.raises(QueueFull):
        await full.aenqueue()
