"""Every verb that acts leaves an event that says who did what, and never fails for that [M2] [O5] [O6]."""

import asyncio
import getpass
from typing import Any

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig, failure
from windlass.cli import target
from windlass.core.states import Kind
from windlass.errors import StoreUnavailable
from windlass.presentation import audit
from windlass.store.records import EventRecord, NewSchedule, Report
from windlass.store.sqlite import SQLiteStore

SPAN = ("--from", "2026-01-01", "--to", "2026-01-03")


async def fill(rig: Rig) -> dict[str, str]:
    """A queue with jobs, a parent with a dead part, a schedule and a budget; ids by name."""
    worker = await rig.worker()
    (dead,) = await rig.add("t", queue="mail")
    await rig.finish(worker, await rig.claim(worker, "mail"), Kind.DEAD, error=failure())
    parent = await rig.parent(worker, 2)
    ill, well = await rig.claim(worker)
    await rig.finish(worker, ill, Kind.DEAD, error=failure())
    await rig.finish(worker, well)
    await rig.store.promote()
    (ready,) = await rig.add("t", queue="mail")
    schedule = NewSchedule(name="daily", cron="0 9 * * *", task="report", queue="mail", payload="{}")
    await rig.store.seed_schedule(schedule, await rig.store.now() + 3600, None)
    await rig.store.set_budget("api", {"rate": 10.0, "burst": 10})
    return {"dead": str(dead), "ready": str(ready), "parent": str(parent)}


async def events(rig: Rig) -> list[EventRecord]:
    return [event for event in await rig.store.events() if event.kind == "operator"]


ACTS: list[tuple[str, str, dict[str, Any]]] = [
    ("queue pause mail", "paused", {"queue": "mail"}),
    ("queue resume mail", "resumed", {"queue": "mail"}),
    ("queue warm mail", "warmed: its cool-down has ended", {"queue": "mail"}),
    ("queue set mail --max-workers 3 --window none", "set: max_workers=3, window=100", {"queue": "mail"}),
    ("task set t --batch 5", "set: batch=5", {"task": "t"}),
    ("job retry {dead}", "retry: retried", {"job": "dead"}),
    ("job cancel {ready}", "cancel: cancelled", {"job": "ready"}),
    ("job delete {ready}", "delete: deleted", {"job": "ready"}),
    ("job replay {dead}", "replay: as job ", {"job": "dead"}),
    ("dead retry {dead}", "retry: retried", {"job": "dead"}),
    ("dead purge {dead}", "delete: deleted", {"job": "dead"}),
    ("dead retry --queue mail --yes", "bulk retry done: 1 retried", {"queue": "mail"}),
    ("dead purge --task t --queue mail --yes", "bulk delete done: 1 deleted", {"queue": "mail", "task": "t"}),
    ("parent set {parent} --parallel 2", "set: up to 2 parts at a time", {"job": "parent"}),
    ("parent redrive {parent}", "redrive: 1 part", {"job": "parent"}),
    ("schedules run daily", "schedule daily: run now", {}),
    ("schedules pause daily", "schedule daily: paused", {}),
    ("schedules resume daily", "schedule daily: resumed", {}),
    ("schedules remove daily", "schedule daily: removed", {}),
    (f"schedules backfill daily {' '.join(SPAN)}", "schedule daily: backfill: 2 jobs made", {}),
    ("budget set api --rate 5/s", "budget api: set: rate=5.0", {}),
    ("budget drain api", "budget api: drained", {}),
    ("budget take api -n 2", "budget api: took 2 tokens", {}),
    ("budget remove api", "budget api: removed", {}),
    ("maintain promote --once", "maintain promote: due 0", {}),
    ("maintain retention --once", "maintain retention: ", {}),
    ("maintain rollup --once", "maintain rollup: folded 0", {}),
    ("maintain schedules --once", "maintain schedules: 0 jobs made", {}),
    ("maintain governor --once", "maintain governor: 0 queues decided on", {}),
    ("maintain slots --once", "maintain slots: over 0 workers", {}),
]


@pytest.mark.parametrize(("line", "words", "where"), ACTS, ids=[line.split(" {")[0] for line, *_ in ACTS])
def test_m2_a_verb_that_acts_leaves_an_event(
    desk: Desk, line: str, words: str, where: dict[str, Any]
) -> None:
    ids = desk.visit(fill)
    desk.ok(*line.format(**ids).split())
    (event,) = desk.visit(events)
    assert event.text.startswith(words)
    assert event.worker == f"{getpass.getuser()}@cli"
    assert (event.queue, event.task) == (where.get("queue", ""), where.get("task", ""))
    if "job" in where:
        assert event.job == int(ids[where["job"]])


def test_m2_a_cancelled_parent_is_told(desk: Desk) -> None:
    async def on_the_way(rig: Rig) -> int:
        return await rig.parent(await rig.worker(), 2)

    parent = desk.visit(on_the_way)
    desk.ok("parent", "cancel", str(parent))
    (event,) = desk.visit(events)
    assert (event.text, event.job) == ("cancel: requested", parent)


def test_m2_a_rescue_is_told(desk: Desk) -> None:
    desk.visit(lambda rig: rig.worker(lease=1.0))
    assert desk.run("maintain", "rescue", "--once", WINDLASS_LEASE="1s").exit_code == 0
    (event,) = desk.visit(events)
    assert event.text == "maintain rescue: 1 worker had died"


@pytest.mark.parametrize(
    "line",
    [
        "dead retry {dead} --dry-run",
        "dead purge --all --dry-run",
        f"schedules backfill daily {' '.join(SPAN)} --dry-run",
        "schedules next daily",
        "job show {dead}",
        "queues",
    ],
)
def test_m2_a_look_leaves_none(desk: Desk, line: str) -> None:
    ids = desk.visit(fill)
    desk.ok(*line.format(**ids).split())
    assert desk.visit(events) == []


def test_m2_what_was_refused_leaves_none(desk: Desk) -> None:
    desk.visit(fill)
    desk.refused("queue", "pause", "mial")
    desk.refused("job", "retry", "123456789")
    desk.refused("budget", "take", "api", "-n", "11")
    desk.refused("schedules", "pause", "dayly")
    assert desk.visit(events) == []


def test_m2_each_queue_and_job_gets_its_own_and_many_jobs_one(any_desk: Desk) -> None:
    ids = any_desk.visit(lambda rig: rig.add(*(["t"] * 60), queue="mail"))
    any_desk.visit(lambda rig: rig.one(queue="imports"))
    any_desk.ok("queue", "pause", "mail", "imports")
    any_desk.ok("job", "cancel", *map(str, ids[:2]))
    any_desk.ok("job", "delete", *map(str, ids))
    latest, *rest = any_desk.visit(events)
    assert latest.text == "delete: 60 jobs"
    assert {event.job for event in rest[:2]} == set(ids[:2])
    assert {(event.text, event.queue) for event in rest[2:]} == {("paused", "mail"), ("paused", "imports")}


def test_m2_an_account_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert target.operator() == "cli"


def test_m2_a_name_stays_on_one_line() -> None:
    (event,) = audit.events([audit.AuditEntry("paused", queue="mail")], 0.0, "ada (night \x1b[2J shift)@cli")
    assert event.worker.startswith("ada (night")
    assert "\x1b" not in event.worker


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), RuntimeError("a bug"), None])
def test_m2_a_verb_does_not_fail_for_telling(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Where telling fails, or takes for ever, the verb says what it says and the deed is done."""
    desk.visit(fill)

    async def report(self: SQLiteStore, source: int, number: int, report: Report) -> float:
        if error is not None:
            raise error
        await asyncio.Event().wait()
        return 0.0

    monkeypatch.setattr("windlass.presentation.audit.TIMEOUT", 0.05)
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "report", report)
        assert desk.ok("queue", "pause", "mail") == "mail paused\n"
    assert desk.visit(events) == []
    queues = {queue["name"]: queue for queue in desk.json("queues")["queues"]}
    assert queues["mail"]["paused"]
