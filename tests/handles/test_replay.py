"""Replay: a new job that does the same as one that has ended [O6]."""

import pytest

from windlass import State, Windlass
from windlass.errors import EnqueueError


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
