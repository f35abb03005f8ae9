"""A waiting job is changed by its handle [E8]: what is asked for is read and checked as at an enqueue."""

import pytest

from windlass import Cost, Items, Part, State, Windlass
from windlass.errors import EnqueueError, InvalidArguments, InvalidName, InvalidOption, JobNotFound


async def test_e8_a_waiting_job_is_changed(any_app: Windlass) -> None:
    @any_app.task(name="mail.send")
    async def send(to: str, copies: int = 1) -> str:
        return f"{to} {copies}"

    job = await send.using(unique="u").aenqueue("a@b.c")
    answer = await job.achange(
        queue="mail", priority="urgent", args=["c@d.e"], kwargs={"copies": 2}, tags=["x"], timeout="5s"
    )
    assert answer == "changed"
    record = await job.arecord()
    assert (record.id, record.queue, record.priority, record.state) == (job.id, "mail", 0, State.READY)
    assert record.payload == {"to": "c@d.e", "copies": 2}
    assert (record.options.tags, record.options.timeout) == (("x",), 5.0)
    assert record.options.unique_key == "u"
    assert await job.achange(delay="1h") == "changed"
    assert await job.astatus() is State.SCHEDULED
    assert await job.achange(delay=0) == "changed"
    await any_app.arun_until_idle()
    assert await job.aresult("10s") == "c@d.e 2"
    assert await job.achange(priority="low") == "ended"


def test_e8_from_plain_code_and_by_an_id_alone(app: Windlass) -> None:
    id = app.enqueue("nobody.knows", 1).id
    assert app.job(id).change(args=[2], run_at=4_000_000_000) == "changed"
    record = app.job(id).record()
    assert (record.payload, record.state) == ([2], State.SCHEDULED)
    with pytest.raises(JobNotFound):
        app.job(1 << 40).change(priority="low")


def test_e3_new_arguments_are_checked_against_the_annotations(app: Windlass) -> None:
    """[E8] [E3] Also by a handle that was made of an id alone; nothing is changed then."""

    @app.task(name="mail.send")
    def send(to: str) -> None: ...

    job = send.enqueue("a@b.c")
    for handle in (job, app.job(job.id)):
        with pytest.raises(InvalidArguments, match="to"):
            handle.change(args=[7], priority="low")
        with pytest.raises(InvalidArguments):
            handle.change(kwargs={"whom": "a@b.c"})
    record = job.record()
    assert (record.payload, record.priority) == ({"to": "a@b.c"}, 2)


def test_e4_options_and_names_are_checked_as_at_an_enqueue(app: Windlass) -> None:
    job = app.enqueue("t")
    with pytest.raises(InvalidName):
        job.change(queue="Not A Name")
    with pytest.raises(InvalidOption, match="mutually exclusive"):
        job.change(delay="5m", run_at=4_000_000_000)
    with pytest.raises(InvalidOption, match="priority"):
        job.change(priority="soon")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="cannot be changed"):
        job.change(unique="u")  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="say what to change"):
        job.change()
    assert job.record().priority == 2


def test_e8_keys_that_arguments_make_follow_them(app: Windlass) -> None:
    """[E8] [F3] [F6] One that was given for the job itself stays."""

    @app.task(name="sync", concurrency_key="tenant", ordering_key="tenant")
    def sync(tenant: str) -> None: ...

    made, given = sync.enqueue("a"), sync.using(concurrency_key="own").enqueue("a")
    for job in (made, given):
        assert job.change(args=["b"]) == "changed"
    assert made.record().options.concurrency_key == "sync:b"
    assert made.record().options.ordering_key == "sync:b"
    assert given.record().options.concurrency_key == "own"
    assert given.record().options.ordering_key == "sync:b"


def test_e8_what_a_job_costs_follows_its_arguments(app: Windlass) -> None:
    """[E8] [F1]"""

    @app.task(name="embed", budgets=[Cost("tokens", tokens=lambda texts, **_: len(texts))])
    def embed(texts: list[str]) -> None: ...

    job = embed.enqueue(["a"])
    assert job.change(args=[["a", "b", "c"]]) == "changed"
    assert job.record().options.costs == {"tokens": 3}


async def test_e8_a_part_is_not_changed(app: Windlass) -> None:
    @app.chunked(split=Items([1, 2], size=1))
    async def load(part: Part) -> None: ...

    async with app:
        job = await load.aenqueue()
        await app.arun_until_idle()
        parts = [each for each in await app.parent(job.id).aparts() if each.job is not None]
        with pytest.raises(EnqueueError, match="part of a parent"):
            await app.job(parts[0].job or 0).achange(priority="low")
