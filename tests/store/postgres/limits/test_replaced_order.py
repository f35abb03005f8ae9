"""A job of an ordering key that takes the place of one in a lane has its turn from its commit on: those that
come later wait behind it, as long as the one it replaces is there [F6] [E6]."""

from typing import Any

import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base, Session
from tests.store.postgres.limits.test_runs import Runs

pytestmark = BOTH

SWEPT = "SELECT admitted FROM windlass.sweep_gates(100)"
STEP = "SELECT windlass.replace_step(1000)"
KEYS = pytest.mark.parametrize("key", ["k", "another", None])
"""The ordering key of the job that is replaced."""


async def add(session: Session, task: str, key: str | None = "k", **options: Any) -> int:
    return await session.enqueue(task, **({} if key is None else {"ordering_key": key}), **options)


async def replace(session: Session, **options: Any) -> int:
    """A job of the key takes the place of the one that has the test's unique key."""
    return await add(session, "edit", unique_key=session.queue, on_conflict="replace", **options)


async def twin(base: Base, key: str | None = None) -> tuple[int, int]:
    """A lane, and a job there that can be replaced."""
    lane = await base.lane()
    job = await add(base.look, "twin", key, unique_key=base.queue)
    await base.look.value(SWEPT)
    return lane, job


async def one_by_one(base: Base, lane: int) -> list[int]:
    """Run jobs as their turns come, and return their order."""
    worker = await base.worker()
    ran = []
    while await base.look.value(SWEPT) or await base.depth(lane):
        got = await base.claim(lane, worker)
        ran += got.ids
        await base.finish(worker, got.jobs)
    return ran


@KEYS
async def test_it_keeps_its_place_before_those_that_come_later(alone: Base, key: str | None) -> None:
    """It joined the list about a second later, when its twin was gone, behind all that had come since."""
    lane, first = await twin(alone, key)
    before = await add(alone.look, "before")
    edit = await replace(alone.look)
    late = await add(alone.look, "late")
    assert await alone.look.value(SWEPT) == (key != "k")
    assert await alone.look.value(STEP) == 1
    assert await one_by_one(alone, lane) == [before, edit, late]
    assert await alone.state(first) is None


@KEYS
async def test_a_twin_that_is_claimed_before_it_could_be_removed_is_waited_for(
    alone: Base, key: str | None
) -> None:
    """Nobody passes its successor meanwhile, and that one goes first when it has ended."""
    lane, first = await twin(alone, key)
    edit = await replace(alone.look)
    late = await add(alone.look, "late")
    worker = await alone.worker()
    got = await alone.claim(lane, worker)
    assert got.ids == [first]
    assert await alone.look.value(STEP) == 0
    assert await alone.look.value(SWEPT) == 0
    await alone.finish(worker, got.jobs)
    assert await alone.look.value(SWEPT) == 0
    assert await alone.look.value(STEP) == 1
    assert await one_by_one(alone, lane) == [edit, late]


async def test_its_turn_is_that_of_its_commit(alone: Base) -> None:
    """However early it was inserted."""
    lane, _ = await twin(alone)
    (producer,) = await alone.sessions(1)
    await producer.begin()
    edit = await replace(producer)
    sooner = await add(alone.look, "sooner")
    await producer.commit()
    later = await add(alone.look, "later")
    assert await alone.look.value(STEP) == 1
    assert await one_by_one(alone, lane) == [sooner, edit, later]


@pytest.mark.parametrize("verb", ["cancel", "delete"])
async def test_who_waits_behind_one_that_is_taken_back_goes_on(alone: Base, verb: str) -> None:
    """[E6] Neither it nor its twin is wanted any more."""
    lane, first = await twin(alone)
    edit = await replace(alone.look)
    late = await add(alone.look, "late")
    assert await alone.look.value(SWEPT) == 0
    await alone.look.value(f"SELECT windlass.{verb}($1)", edit)
    assert await one_by_one(alone, lane) == [late]
    assert await alone.state(first) is None


async def test_one_that_is_replaced_in_turn_gives_up_its_place(alone: Base) -> None:
    """[E6] Who takes its place goes to the end, and removes the twin of both."""
    lane, first = await twin(alone)
    edit = await replace(alone.look)
    late = await add(alone.look, "late")
    assert await alone.look.value(SWEPT) == 0
    again = await replace(alone.look)
    assert await alone.look.value(SWEPT) == 1
    assert await alone.look.value(STEP) == 1
    assert await one_by_one(alone, lane) == [late, again]
    assert [await alone.state(job) for job in (first, edit)] == [None, None]


@pytest.mark.parametrize(
    "change", ["p_payload => '{}'", "p_delay => 0", "p_queue => 'elsewhere'", "p_delay => 3600"]
)
async def test_one_that_is_changed_still_replaces_its_twin(alone: Base, change: str) -> None:
    """[E8] [E6] Wherever that puts it."""
    states = {"p_delay => 3600": "scheduled", "p_queue => 'elsewhere'": "ready"}
    lane, first = await twin(alone)
    edit = await replace(alone.look)
    late = await add(alone.look, "late")
    assert await alone.look.value(f"SELECT windlass.change($1, {change})", edit) == "changed"
    assert await alone.look.value(STEP) == 1
    assert await alone.state(first) is None
    ran = await one_by_one(alone, lane)
    assert ran[-1] == late
    assert await alone.state(edit) == states.get(change, "succeeded")


async def test_jobs_that_end_together_leave_it_to_remove_its_twin(alone: Base) -> None:
    """[E6] Cancelled with many others."""
    _, first = await twin(alone)
    edit = await replace(alone.look)
    late = await add(alone.look, "late")
    ended = await alone.look.value("SELECT windlass.end_aside($1, 'cancelled')", [edit, late])
    assert ended == [late]
    await alone.look.value("SELECT windlass.cancel($1)", edit)
    assert (await alone.state(first), await alone.state(edit)) == (None, "cancelled")


async def test_a_run_ends_before_it(alone: Base) -> None:
    """[F6] Those that a flush hands over at once are the ones before it."""
    lane, other = await alone.lane(), "elsewhere"
    await alone.lane(other)
    await alone.look.enqueue("twin", queue=other, unique_key=alone.queue)
    runs = Runs(alone, await alone.store(), await alone.worker())
    before = [await add(alone.look, "before") for _ in range(3)]
    edit = await replace(alone.look)
    late = await add(alone.look, "late")
    assert await alone.look.value(SWEPT) == 1
    got = await runs.end(*await runs.claim())
    assert [job.id for job in got] == before[1:]
    assert await runs.end(*got) == []
    assert await alone.look.value(STEP) == 1
    assert await one_by_one(alone, lane) == [edit, late]
