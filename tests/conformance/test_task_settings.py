"""Settings of tasks that live in the store [P6], and turns."""

import asyncio
from typing import Any

import pytest

from tests.conformance.kit import Rig
from windlass.store.records import TaskRecord

NONSENSE: list[dict[str, Any]] = [
    *({"batch": value} for value in (0, -1, 1.5, "5", True)),
    *({"parallel": value} for value in (0, "many")),
    *({"chunk": value} for value in (0, -1, 1.5, "128MiB", 2**63)),
    *({"batch_timeout": value} for value in (0, -1.0, float("nan"), float("inf"), "1m")),
    {"colour": "red"},
    {"name": "other"},
    {"batch": 7, "parallel": 0},
]


async def test_set_and_change(rig: Rig) -> None:
    """[P6] [P13] What is not named stays."""
    assert await rig.store.tasks() == []
    new = await rig.store.set_task("imports.big", {"batch": 500})
    assert new == TaskRecord(name="imports.big", batch=500)
    new = await rig.store.set_task("imports.big", {"batch_timeout": 30, "parallel": 4, "chunk": 2**40})
    assert new == TaskRecord(name="imports.big", batch=500, batch_timeout=30.0, parallel=4, chunk=2**40)
    assert await rig.store.tasks() == [new]


async def test_none_goes_back_to_the_code(rig: Rig) -> None:
    """[P6] A task without settings is not told of."""
    await rig.store.set_task("t", {"batch": 5, "parallel": 2})
    assert await rig.store.set_task("t", {"batch": None}) == TaskRecord(name="t", parallel=2)
    assert await rig.store.set_task("t", {"parallel": None}) == TaskRecord(name="t")
    assert await rig.store.tasks() == []


async def test_by_name(rig: Rig) -> None:
    """[P6]"""
    for name in ("c", "a", "b.x"):
        await rig.store.set_task(name, {"batch": 1})
    assert [task.name for task in await rig.store.tasks()] == ["a", "b.x", "c"]


async def test_what_makes_no_sense(rig: Rig) -> None:
    """[P6] Refused, and nothing is changed."""
    before = await rig.store.set_task("t", {"batch": 3})
    for changes in NONSENSE:
        with pytest.raises(ValueError, match=r"batch|parallel|chunk|colour|name"):
            await rig.store.set_task("t", changes)
        assert await rig.store.tasks() == [before], changes


async def test_a_name_that_no_task_has(rig: Rig) -> None:
    """[E4]"""
    for name in ("", "Big", "a b", "x" * 65):
        with pytest.raises(ValueError, match="name"):
            await rig.store.set_task(name, {"batch": 3})
    assert await rig.store.tasks() == []


async def test_a_turn_is_taken_once(rig: Rig) -> None:
    """[K5] Of many who ask at once, one gets it."""
    answers = await asyncio.gather(*(rig.store.begin_chore("gaps", 60) for _ in range(8)))
    assert sorted(answers) == [False] * 7 + [True]


async def test_the_next_turn_comes_with_time(rig: Rig) -> None:
    """[K5] `every` seconds after the last was taken, not after the last was asked for."""
    assert await rig.store.begin_chore("gaps", 60)
    await rig.clock.advance(50)
    assert not await rig.store.begin_chore("gaps", 60)
    await rig.clock.advance(11)
    assert await rig.store.begin_chore("gaps", 60)
    assert not await rig.store.begin_chore("gaps", 60)


async def test_turns_of_other_names(rig: Rig) -> None:
    """[K5]"""
    assert await rig.store.begin_chore("a", 60)
    assert await rig.store.begin_chore("b", 60)
    assert not await rig.store.begin_chore("a", 60)
