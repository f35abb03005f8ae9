"""Every setting of `windlass.store.fields`, in every store: it lasts, it goes back to its default, and what
makes no sense is refused. Every option that a job carries lasts, too. A new one is tested here without a line
of its own."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from tests.conformance.kit import Rig, sample
from windlass.store.fields import SUBJECTS, Field, fields_of
from windlass.store.records import CARRIED, BudgetRecord, QueueRecord, TaskRecord

ALL = [(what, field) for what, record in SUBJECTS.items() for field in fields_of(record).values()]
each_setting = pytest.mark.parametrize(("what", "field"), ALL, ids=[f"{w}-{f.name}" for w, f in ALL])
Subject = QueueRecord | TaskRecord | BudgetRecord


async def change(rig: Rig, what: str, changes: Mapping[str, Any]) -> Subject:
    """Change settings of the queue, the task or the budget called `mine`."""
    match what:
        case "queue":
            return await rig.store.set_queue("mine", changes)
        case "task":
            return await rig.store.set_task("mine", changes)
    return await rig.store.set_budget("mine", changes)


async def kept(rig: Rig, what: str) -> dict[str, Any] | None:
    """The settings of `mine` as the store lists them."""
    listed: dict[str, Callable[[], Awaitable[Sequence[msgspec.Struct]]]] = {
        "queue": rig.store.queues, "task": rig.store.tasks, "budget": rig.store.budgets,
    }  # fmt: skip
    found = await listed[what]()
    return settings(found[0]) if found else None


def settings(record: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(record, name) for name in fields_of(type(record))}


def other(field: Field) -> Any:
    """A value that is not its default, and below all others that it must not pass."""
    if field.choices:
        return next(each for each in field.choices if each != field.default)
    return {bool: not field.default, int: 7, float: 2.5, str: "Europe/Paris"}[field.kind]


def nonsense(field: Field) -> list[Any]:
    """Values that the setting cannot have."""
    if field.kind is bool:
        return [1, "yes", None]
    if field.kind is str:
        least = [] if field.choices else ["", "x" * ((field.most or 255) + 1)]
        return [1, True, "a\0b", "\ud800", *least]
    wrong: list[Any] = [-1, "7", True, float("nan"), float("inf"), 10**400]
    wrong += [] if field.zero else [0]
    wrong += [] if field.optional else [None]
    wrong += [2.5] if field.kind is int else []
    wrong += [] if field.most is None else [field.most * 2]
    return wrong


@each_setting
async def test_a_setting_lasts_and_leaves_the_others_alone(rig: Rig, what: str, field: Field) -> None:
    """[K1] [P6] [F1]"""
    before = settings(await change(rig, what, {"rate": 1.0} if what == "budget" else {}))
    after = {**before, field.name: other(field)}
    assert settings(await change(rig, what, {field.name: other(field)})) == after
    assert await kept(rig, what) == after
    if field.default is not None or field.optional:
        assert settings(await change(rig, what, {field.name: field.default})) == before


@each_setting
async def test_a_value_that_makes_no_sense_is_refused(rig: Rig, what: str, field: Field) -> None:
    """[K1] [P6] [F1] Nothing is changed, and nothing is declared."""
    needed = {"rate": 1.0} if what == "budget" else {}
    for value in nonsense(field):
        with pytest.raises(ValueError, match=field.name):
            await change(rig, what, {**needed, field.name: value})
    assert await kept(rig, what) is None


@pytest.mark.parametrize("what", SUBJECTS)
async def test_defaults_are_those_of_the_fields(rig: Rig, what: str) -> None:
    """[K1] [P6] [F1] Whatever the columns of the store say."""
    made = settings(await change(rig, what, {"rate": 3.0} if what == "budget" else {}))
    given = {"rate": 3.0, "burst": 3} if what == "budget" else {}
    assert made == {name: field.default for name, field in fields_of(SUBJECTS[what]).items()} | given


@pytest.mark.parametrize("field", CARRIED, ids=lambda field: field.name)
async def test_an_option_of_a_job_lasts(rig: Rig, field: Field) -> None:
    """[E2]"""
    (first,) = await rig.add("t")
    given = sample(field, first)
    (id,) = await rig.add("t", **given)
    options = (await rig.look(id)).options
    assert {name: getattr(options, name) for name in given} == given
