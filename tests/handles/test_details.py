"""What users see of jobs, parents and schedules: values, times with their zone, labels of workers."""

from datetime import UTC, datetime, timedelta

import pytest

from windlass import Items, Part, Priority, Retry, State, Windlass, current_context
from windlass.codec import Purpose
from windlass.errors import CodecError
from windlass.store.sqlite import SQLiteStore


def is_now(moment: datetime | None) -> bool:
    return (
        moment is not None and moment.tzinfo is UTC and abs(moment - datetime.now(UTC)) < timedelta(minutes=5)
    )


async def test_a_record_has_values_times_and_the_label_of_its_worker(any_app: Windlass) -> None:
    @any_app.task(name="orders.sum", retry=Retry(2, base=0.001, jitter=0))
    async def add(*prices: int, shop: str) -> dict[str, int]:
        ctx = current_context()
        record = await any_app.job(ctx.id).arecord()
        assert record.state is State.RUNNING
        # Who runs it is told by its label while its worker is there.
        assert record.worker is not None
        assert record.worker != str(ctx.worker)
        assert str(ctx.worker) not in record.worker
        if ctx.attempt == 1:
            await ctx.asave({"at": 1}, done=1, total=2)
            assert (await any_app.job(ctx.id).arecord()).checkpoint == {"at": 1}
            raise ConnectionError("gone")
        return {shop: sum(prices)}

    job = await add.using(priority="high", delay=0.001).aenqueue(1, 2, shop="a")
    waiting = await job.arecord()
    assert (waiting.payload, waiting.result, waiting.checkpoint) == ({"*": [1, 2], "shop": "a"}, None, None)
    assert is_now(waiting.run_at)
    await any_app.arun_until_idle(wait=5)
    ended = await job.arecord()
    assert (ended.state, ended.priority, ended.result) == (State.SUCCEEDED, Priority.HIGH, {"a": 3})
    assert all(map(is_now, (ended.enqueued_at, ended.claimed_at, ended.finished_at, ended.errors[0].at)))
    assert (ended.errors[0].type, ended.errors[0].attempt) == ("ConnectionError", 1)
    assert (ended.progress.done, ended.progress.total, ended.checkpoint) == (1, 2, None)
    assert ended.worker is not None
    assert repr(ended) == f"<JobDetails {job.id} of orders.sum: succeeded>"


async def test_parents_parts_and_schedules_have_times_with_their_zone(any_app: Windlass) -> None:
    @any_app.chunked(split=Items(["a", "b"], size=1), name="imports.load")
    async def load(part: Part) -> None: ...

    @any_app.schedule("0 9 * * *", kwargs={"to": "ada"})
    @any_app.task(name="report")
    async def report(to: str) -> None: ...

    job = await load.aenqueue()
    await any_app.arun_until_idle()
    parent = await any_app.parent(job.id).arecord()
    assert is_now(parent.created_at)
    assert is_now(parent.finished_at)
    for part in await any_app.parent(job.id).aparts():
        assert is_now(part.created_at)
        assert part.job is not None
        record = await any_app.job(part.job).arecord()
        assert record.part is not None
        assert (record.part.parent, record.part.index, record.part.span) == (job.id, part.index, part.span)
        assert is_now(record.part.created_at)
        assert record.options.part is None
    await any_app._store_handle().acall(any_app.schedules.aseed)
    (schedule,) = await any_app.schedules.arecords()
    assert schedule.payload == {"to": "ada"}
    assert schedule.next_at is not None
    assert schedule.next_at.tzinfo is UTC
    assert schedule.last_at is None


class Locked:
    """A codec that has lost its key."""

    name = "locked"
    require = False

    def encode(self, data: bytes, purpose: Purpose) -> dict[str, str]:
        return {"data": data.hex()}

    def decode(self, fields: object, purpose: Purpose) -> bytes:
        raise CodecError("the key is lost")


def test_a_job_that_cannot_be_read_can_be_looked_at() -> None:
    """Only who asks for the payload needs the key."""
    app = Windlass(store=SQLiteStore(":memory:"), codec=Locked())
    job = app.enqueue("mail.send", "ada")
    record = job.record()
    assert (record.state, job.status(), record.result) == (State.READY, State.READY, None)
    with pytest.raises(CodecError, match="the key is lost"):
        _ = record.payload
    app.close()
