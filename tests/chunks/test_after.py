"""Jobs that come after others [P12], as their users write them."""

import pytest

from windlass import Context, Part, Ranges, Retry, State, Windlass
from windlass.errors import InvalidOption, JobNotFound
from windlass.store.records import Otherwise


def test_p12_a_chain_runs_in_order(app: Windlass) -> None:
    ran: list[str] = []

    @app.task
    async def step(name: str) -> None:
        ran.append(name)

    one = step.enqueue("one")
    two = step.using(after=[one]).enqueue("two")
    three = step.using(after=[one.id, two]).enqueue("three")
    assert three.status() is State.SCHEDULED
    app.run_until_idle(wait=5)
    assert ran == ["one", "two", "three"]


def test_p12_a_chord_waits_for_a_parent(app: Windlass) -> None:
    ran: list[str] = []

    @app.chunked(split=Ranges(3, size=1))
    async def load(part: Part) -> None:
        ran.append("part")

    @load.finalizer
    async def final(ctx: Context) -> None:
        ran.append("final")

    @app.task
    async def tell() -> None:
        ran.append("tell")

    tell.using(after=[load.enqueue()]).enqueue()
    app.run_until_idle(wait=5)
    assert ran == ["part", "part", "part", "final", "tell"]


@pytest.mark.parametrize(
    ("otherwise", "state"), [("dead", State.DEAD), ("cancel", State.CANCELLED), ("run", State.SUCCEEDED)]
)
def test_p12_what_comes_after_a_failure(memory: Windlass, otherwise: Otherwise, state: State) -> None:
    @memory.task(retry=Retry(1))
    async def fails() -> None:
        raise ValueError("no")

    @memory.task
    async def next_one() -> None: ...

    job = next_one.using(after=[fails.enqueue()], otherwise=otherwise).enqueue()
    memory.run_until_idle(wait=5)
    assert job.status() is state


def test_p12_mistakes(memory: Windlass) -> None:
    @memory.task
    async def step() -> None: ...

    for wrong in ("17", 17, [None], ["17"], [0]):
        with pytest.raises(InvalidOption):
            step.using(after=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="leave them out"):
        step.using(after=[step.enqueue()], delay="5m")
    with pytest.raises(InvalidOption):
        step.using(otherwise="explode")  # type: ignore[arg-type]
    with pytest.raises(JobNotFound):
        step.using(after=[12345]).enqueue()
