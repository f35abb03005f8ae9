"""windlass doctor on what keeps jobs from flowing: each finding, and that all is well where it is."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass.presentation.findings import (
    LONG_WAIT,
    budget_findings,
    gate_findings,
    queue_findings,
    schedule_findings,
)
from windlass.store.records import BudgetRecord, Depth, Finding, GateRecord, Need, QueueRecord, ScheduleRecord


def gate(name: str, oldest: float = 0.0) -> GateRecord:
    return GateRecord(name=name, passes=1, waiting=3, oldest=oldest)


def schedule(**given: object) -> ScheduleRecord:
    return ScheduleRecord(name="daily", cron="0 9 * * *", task="t", **given)  # type: ignore[arg-type]


def only(findings: Iterable[Finding]) -> Finding:
    (finding,) = findings
    assert finding.level == "warning"
    assert finding.advice
    return finding


def warnings(desk: Desk) -> dict[str, str]:
    findings = desk.json("doctor")["findings"]
    return {each["name"]: each["text"] for each in findings if each["level"] == "warning"}


def test_f1_a_budget_that_nobody_declared() -> None:
    """[F1]"""
    found = only(budget_findings([], [gate("budget:github/"), gate("budget:github/acme"), gate("key:x")]))
    assert found.name == "budget github"
    assert "windlass budget set github" in found.advice
    assert (
        list(budget_findings([BudgetRecord(name="github", rate=1, burst=1)], [gate("budget:github/")])) == []
    )


@pytest.mark.parametrize("state", ["open", "half-open"])
def test_f7_a_breaker_that_is_not_closed(state: str) -> None:
    """[F7]"""
    given: dict[str, Any] = {"state": state, "paused_for": 12, "failures": 5, "waiting": 1}
    record = BudgetRecord(name="b", rate=1, burst=1, **given)
    assert (
        f"its breaker is {state} for 12 s more after 5 failed runs"
        in only(budget_findings([record], [])).text
    )


def test_f7_a_breaker_that_awaits_its_probe_holds_nobody_up_while_nobody_waits() -> None:
    """[F7]"""
    record = BudgetRecord(name="b", rate=1, burst=1, state="half-open", failures=5)
    assert list(budget_findings([record], [])) == []


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("order:mail/o 1", "ordering key 'o 1'", "windlass watermarks mail --key 'o 1'"),
        ("key:c", "concurrency key 'c'", "--key-concurrency"),
        ("task:mail.send", "slot of task mail.send", "windlass task set mail.send --concurrency"),
        ("budget:api/{x}", "tokens of budget api, key '{x}'", "windlass budget set api --rate"),
    ],
)
def test_f3_a_gate_with_a_long_wait(name: str, text: str, advice: str) -> None:
    """[F3]"""
    found = only(gate_findings([gate(name, LONG_WAIT + 1)], {"api"}))
    assert text in found.text
    assert advice in found.advice
    assert list(gate_findings([gate(name, LONG_WAIT)], {"api"})) == []


def test_k4_a_schedule_that_is_wrong_or_that_nobody_fires() -> None:
    """[K4] One that is paused need not fire."""
    assert "no cron" in only(schedule_findings([schedule(error="no cron")], 0.0)).text
    late = only(schedule_findings([schedule(next_at=1000.0)], 1600.0))
    assert "due 10 min ago" in late.text
    assert "start a worker" in late.advice
    fine = [schedule(next_at=1000.0, paused=True), schedule(next_at=1550.0), schedule(next_at=None)]
    assert list(schedule_findings(fine, 1600.0)) == []


def test_f4_f5_f2_a_queue_in_trouble() -> None:
    """[F4] [F5] [F2]"""
    full = QueueRecord(name="q", max_depth=1000, pressure="full", refused=7)
    assert "60 % of 1,000; 7 refused" in only(queue_findings([full], {})).text
    shedding = QueueRecord(name="q", shed_depth=100, shed_wait=60.0, shed=9)
    assert "80% of its limits; 9 jobs shed" in only(queue_findings([shedding], {"q": Depth(ready=80)})).text
    assert "200% of" in only(queue_findings([shedding], {"q": Depth(ready=1, oldest=120.0)})).text
    slow = QueueRecord(name="q", governor=True, rate=1.0, why="halved: an upstream throttled 3 runs")
    assert "lowest rate, 1/s: halved" in only(queue_findings([slow], {"q": Depth(running=1)})).text
    paused = QueueRecord(name="q", paused=True)
    assert "paused, and 2 ready jobs wait" in only(queue_findings([paused], {"q": Depth(ready=2)})).text
    fine = [
        QueueRecord(name="q", max_depth=1000, pressure="soft", refused=7, shed_depth=100, shed=9),
        QueueRecord(name="q", governor=True, rate=1.5),
        QueueRecord(name="idle", governor=True, rate=1.0),
        QueueRecord(name="idle", paused=True),
        QueueRecord(name="q", governor=True, rate=5.0, rate_min=5.0, rate_max=5.0),
    ]
    assert list(queue_findings(fine, {"q": Depth(ready=69)})) == []


def test_all_is_well(any_desk: Desk) -> None:
    assert "flow: no budget, gate, schedule or queue holds jobs up" in any_desk.ok("doctor")


def test_f1_doctor_sees_who_waits_for_a_budget_that_is_not_there(any_desk: Desk) -> None:
    """[F1] An unknown budget grants nothing."""

    async def fill(rig: Rig) -> None:
        await rig.add("call", queue="mail")
        worker = await rig.worker("mail")
        assert await rig.store.claim(worker, ["mail"], 10, {"call": [Need("github")]}) == []

    any_desk.visit(fill)
    assert "it is not declared" in warnings(any_desk)["budget github"]
    any_desk.ok("budget", "set", "github", "--rate", "10/s")
    assert "budget github" not in warnings(any_desk)


def test_k2_doctor_sees_a_paused_queue_with_jobs(any_desk: Desk) -> None:
    """[K2] Also where no queue sheds load."""
    any_desk.visit(lambda rig: rig.add("call", queue="mail"))
    any_desk.ok("queue", "pause", "mail")
    assert "it is paused, and 1 ready job waits" in warnings(any_desk)["queue mail"]


def test_f7_doctor_sees_a_breaker_that_is_open(any_desk: Desk) -> None:
    """[F7]"""
    any_desk.ok("budget", "set", "github", "--rate", "10/s", "--breaker", "2")
    assert any_desk.visit(lambda rig: rig.store.report_calls("github", 0, 2)) == "open"
    assert "its breaker is open" in warnings(any_desk)["budget github"]
