"""Every choice there is, in every store: of a setting, an option of a job, a schedule and an event. A new one
is tried here without a line of its own."""

from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest

from tests.conformance.kit import Rig, job, sample
from tests.conformance.schedule_kit import look, schedule, seed
from tests.conformance.test_settings import ALL, change, kept
from windlass.core.states import Priority
from windlass.store.fields import Field, OnConflict
from windlass.store.records import CARRIED, Event, NewSchedule, Report


def words(type: Any) -> tuple[Any, ...]:
    return get_args(type) if get_origin(type) is Literal else ()


SETTINGS = [(what, field, each) for what, field in ALL for each in field.choices]
OPTIONS = [(field, each) for field in CARRIED for each in field.choices]
OF_SCHEDULES = [
    (info.name, each) for info in msgspec.structs.fields(NewSchedule) for each in words(info.type)
]
OF_EVENTS = [(info.name, each) for info in msgspec.structs.fields(Event) for each in words(info.type)]


@pytest.mark.parametrize(("what", "field", "choice"), SETTINGS, ids=lambda part: getattr(part, "name", part))
async def test_every_choice_of_a_setting_lasts(rig: Rig, what: str, field: Field, choice: str) -> None:
    """[K1] [P6] [F1]"""
    await change(rig, what, {**({"rate": 1.0} if what == "budget" else {}), field.name: choice})
    assert (await kept(rig, what) or {})[field.name] == choice


@pytest.mark.parametrize(("field", "choice"), OPTIONS, ids=lambda part: getattr(part, "name", part))
async def test_every_choice_of_an_option_lasts(rig: Rig, field: Field, choice: str) -> None:
    """[E2]"""
    (first,) = await rig.add("t")
    (id,) = await rig.add("t", **{**sample(field, first), field.kept: choice})
    assert getattr((await rig.look(id)).options, field.kept) == choice


@pytest.mark.parametrize("choice", get_args(OnConflict))
async def test_every_answer_to_a_conflict_is_taken(rig: Rig, choice: OnConflict) -> None:
    """[E6]"""
    (receipt,) = await rig.store.enqueue([job("t", unique_key="k", on_conflict=choice)])
    assert receipt.status == "enqueued"


@pytest.mark.parametrize("priority", Priority)
async def test_every_priority_lasts(rig: Rig, priority: Priority) -> None:
    """[C1]"""
    (id,) = await rig.add("t", priority=priority)
    assert (await rig.look(id)).priority == priority


@pytest.mark.parametrize(("name", "choice"), OF_SCHEDULES)
async def test_every_choice_of_a_schedule_lasts(rig: Rig, name: str, choice: str) -> None:
    """[K4]"""
    fields: dict[str, Any] = {name: choice}
    await seed(rig, **fields)
    found = await look(rig)
    assert getattr(found, name) == choice
    assert getattr(found.declared, name) == getattr(schedule(**fields), name)


@pytest.mark.parametrize(("name", "choice"), OF_EVENTS)
async def test_every_kind_of_event_is_told(rig: Rig, name: str, choice: str) -> None:
    """[M2]"""
    event = msgspec.convert({"at": await rig.store.now(), "kind": "retry", name: choice}, Event)
    await rig.store.report(78, 1, Report(events=[event]))
    (found,) = await rig.store.events()
    assert getattr(found, name) == choice


def test_there_are_choices() -> None:
    assert all((SETTINGS, OPTIONS, OF_SCHEDULES, OF_EVENTS, get_args(OnConflict)))
