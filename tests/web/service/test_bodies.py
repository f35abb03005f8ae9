"""Jobs made of what programs ask for: what was read last is kept, and never taken for something else."""

from typing import Any

import pytest

from windlass import Windlass
from windlass.errors import InvalidArguments, InvalidName, InvalidOption
from windlass.operations.bodies import Maker, NewJobBody


def body(**said: Any) -> NewJobBody:
    return NewJobBody(**said)


@pytest.fixture
def maker() -> Maker:
    return Maker(Windlass("sqlite:///:memory:"))


async def test_each_job_has_its_own_options_whatever_came_before(maker: Maker) -> None:
    """[E2]"""
    asked = [
        body(task="a", queue="x", tags=["t"]),
        body(task="a", queue="x", tags=["t"], args=[1]),
        body(task="a", queue="x", tags=["u"]),
        body(task="a", queue="y", tags=["u"], unique_key="k"),
        body(task="b", queue="y", tags=["u"], unique_key="k"),
        body(task="b"),
    ]
    made = [await maker.make(each) for each in asked]
    assert [(job.task, job.queue, job.options.tags) for job in made] == [
        ("a", "x", ("t",)), ("a", "x", ("t",)), ("a", "x", ("u",)), ("a", "y", ("u",)), ("b", "y", ("u",)),
        ("b", "default", ()),
    ]  # fmt: skip
    assert [job.options.unique_key for job in made] == [None, None, None, "k", "k", None]
    assert made[1].payload == "[1]"


async def test_what_is_wrong_stays_wrong(maker: Maker) -> None:
    """[E4] A refusal leaves nothing behind that a later one could profit from."""
    for _ in range(2):
        with pytest.raises(InvalidOption):
            await maker.make(body(task="a", delay=-1))
        with pytest.raises(InvalidName):
            await maker.make(body(task="No Name"))
        assert (await maker.make(body(task="a"))).delay is None


async def test_a_task_that_comes_to_be_known_is_checked_from_then_on() -> None:
    """[E3]"""
    app = Windlass("sqlite:///:memory:")
    maker = Maker(app)
    await maker.make(body(task="send", args=["much"]))

    @app.task(name="send")
    def send(n: int) -> None: ...

    with pytest.raises(InvalidArguments):
        await maker.make(body(task="send", args=["much"]))
