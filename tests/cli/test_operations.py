"""One function, one operation: its route, its command and a call from Python do and say the same."""

from typing import Any

import msgspec
import pytest

from tests.cli.kit import Desk
from windlass import Windlass
from windlass.operations.budgets import budgets, drain_budget
from windlass.operations.bulk import bulk, preview_bulk
from windlass.operations.events import events
from windlass.operations.groups import groups
from windlass.operations.jobs import jobs
from windlass.operations.measures import measures
from windlass.operations.new_jobs import new_jobs
from windlass.operations.operation import Operation, Ops, Subject
from windlass.operations.overview import overview
from windlass.operations.parents import parents
from windlass.operations.principal import Principal, Role
from windlass.operations.queues import pause_queues, queues, resume_queue
from windlass.operations.schedules import schedules
from windlass.operations.signals import signals
from windlass.operations.store_health import store_health
from windlass.operations.tasks import tasks
from windlass.operations.workers import workers
from windlass.web.api.routing import ENDPOINTS

SUBJECTS: tuple[Subject, ...] = (
    budgets, bulk, events, groups, jobs, measures, new_jobs, overview, parents, queues, schedules, signals,
    store_health, tasks, workers,
)  # fmt: skip
EVERY = pytest.mark.parametrize(
    "operation", [each for subject in SUBJECTS for each in subject], ids=lambda each: str(each.name)
)


@EVERY
def test_every_operation_says_what_it_does_and_who_may(operation: Operation[Any, Any]) -> None:
    assert operation.summary
    assert not operation.summary.endswith(".")
    reads = operation.method == "GET" or operation is preview_bulk
    assert operation.role is (Role.READ if reads else Role.OPERATE)


@EVERY
def test_every_argument_in_an_address_is_an_argument(operation: Operation[Any, Any]) -> None:
    taken = [param.name for param in operation.params if param.in_path]
    assert operation.path.count("{") == len(taken)


@EVERY
def test_every_operation_with_an_address_is_an_endpoint(operation: Operation[Any, Any]) -> None:
    routed = {(each.method, each.path): each for each in ENDPOINTS}
    if operation.path:
        found = routed[operation.method, operation.path]
        assert (found.role, found.summary, found.answer) == (
            operation.role,
            operation.summary,
            operation.answer,
        )


def test_m2_a_call_and_a_command_answer_and_record_alike(any_desk: Desk) -> None:
    any_desk.ok("budget", "set", "github", "--rate", "1/h", "--burst", "5")
    told = any_desk.ok("budget", "drain", "github", "--for", "5m")
    printed = any_desk.json("budget", "drain", "github", "--for", "5m")

    async def drain(rig: Any) -> tuple[Any, Ops]:
        ops = Ops(Windlass(), rig.store, Principal("me", Role.OPERATE))
        return await drain_budget(ops, "github", 300.0), ops

    answer, ops = any_desk.visit(drain)
    assert told.strip() == ops.said == "github is drained and grants nothing for 5 min"
    assert [entry.text for entry in ops.deeds] == ["budget github: drained"]
    called = msgspec.to_builtins(answer)
    passing = {"tokens", "paused_for", "state_text", "used_until"}
    assert {name: value for name, value in called.items() if name not in passing} == {
        name: value for name, value in printed.items() if name not in passing
    }


def test_what_does_not_exist_is_refused_in_the_same_words(any_desk: Desk) -> None:
    any_desk.ok("budget", "set", "github", "--rate", "1/h")
    said = any_desk.refused("budget", "drain", "githbu")
    assert "no budget 'githbu'; there are github" in said


def test_m2_several_at_once_are_all_found_before_one_is_changed(any_desk: Desk) -> None:
    """[M2] [K2] Each gets an event of its own, and one that does not exist keeps the others as they are."""
    for name in ("imports", "mail"):
        any_desk.ok("queue", "set", name)
    assert "no queue 'mial'" in any_desk.refused("queue", "pause", "imports", "mial")
    printed = any_desk.json("queue", "pause", "imports", "mail")["queues"]
    assert [(queue["name"], queue["paused"], queue["state_text"]) for queue in printed] == [
        ("imports", True, "paused"),
        ("mail", True, "paused"),
    ]

    async def resume(rig: Any) -> Ops:
        ops = Ops(Windlass(), rig.store, Principal("me", Role.OPERATE))
        assert (await resume_queue(ops, "mail")).state_text == ""
        assert all(queue.paused for queue in (await pause_queues(ops, ["imports", "mail"])).queues)
        return ops

    ops = any_desk.visit(resume)
    assert [(each.text, each.queue) for each in ops.deeds] == [
        ("resumed", "mail"),
        ("paused", "imports"),
        ("paused", "mail"),
    ]
    assert ops.said == "imports, mail paused"


@pytest.mark.parametrize("value", ["1000000001s", "12000d"])
def test_a_setting_that_no_store_could_use_is_refused(any_desk: Desk, value: str) -> None:
    for words in (("queue", "set", "mail", "--cool-base"), ("task", "set", "t", "--batch-timeout")):
        assert "must be at most 1,000,000,000" in any_desk.refused(*words, value)
