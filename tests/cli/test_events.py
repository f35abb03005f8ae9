"""windlass events: what happened, the latest first [M2]."""

import json
import signal
import subprocess
import sys

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass import Windlass
from windlass.cli.events import Tail
from windlass.operations.operation import Ops
from windlass.operations.principal import Principal, Role
from windlass.store.records import Event, Report

BOUNCED = Event(
    at=1_700_000_000.0,
    kind="retry",
    text="attempt 1 of 5 failed, next try in 5 s: ValueError: \x1b[2J",
    job=5,
    queue="mail",
    task="send",
    worker="w-[b]1",
    attempt=1,
    ms=12.5,
)


async def happen(rig: Rig) -> float:
    others = (
        Event(at=1_700_000_001.0, kind="dead", job=6, queue="bulk", task="load"),
        Event(at=1_700_000_002.0, kind="leads", text="this host coordinates the cluster, term 1"),
    )
    return await rig.store.report(7, 1, Report(events=(BOUNCED, *others)))


def test_m2_events_of_everything_of_a_queue_and_of_a_job(any_desk: Desk) -> None:
    any_desk.visit(happen)
    assert [each["kind"] for each in any_desk.json("events")["events"]] == ["leads", "dead", "retry"]
    found = any_desk.json("events", "--limit", "2")
    assert (found["looked"], found["before"]) == (2, found["events"][-1]["id"])
    assert found["back_to"] == "2023-11-14T22:13:21.000Z"
    assert [each["kind"] for each in any_desk.json("events", "--limit", "1")["events"]] == ["leads"]
    assert [each["job"] for each in any_desk.json("events", "--queue", "bulk")["events"]] == ["6"]
    (event,) = any_desk.json("events", "--job", "5")["events"]
    assert event.pop("id")
    assert event == {
        "at": "2023-11-14T22:13:20.000Z",
        "kind": "retry",
        "text": BOUNCED.text,
        "job": "5",
        "queue": "mail",
        "task": "send",
        "worker": "w-[b]1",
        "attempt": 1,
        "ms": 12.5,
    }


def test_m2_m5_a_table_of_events_is_harmless(desk: Desk) -> None:
    desk.visit(happen)
    table = desk.ok("events")
    assert "\x1b" not in table
    assert "w-[b]1" in table
    assert "next try in 5 s" in table
    assert "is not a job id" in desk.refused("events", "--job", "x", code=2)


def test_m2_a_tail_gives_each_event_once_in_order(any_desk: Desk) -> None:
    any_desk.visit(happen)

    async def follow(rig: Rig) -> None:
        tail = Tail(Ops(Windlass(), rig.store, Principal("me", Role.READ)), None, None, 2)
        assert [event.kind for event in await tail.fresh()] == ["dead", "leads"]
        assert await tail.fresh() == []
        more = tuple(Event(at=1_700_000_010.0 + n, kind="lost", text=str(n)) for n in range(500))
        await rig.store.report(8, 1, Report(events=more))
        assert [event.text for event in await tail.fresh()] == [str(n) for n in range(500)]
        assert await tail.fresh() == []

    any_desk.visit(follow)


def test_m2_following_ends_with_ctrl_c(desk: Desk) -> None:
    desk.visit(happen)
    command = [sys.executable, "-m", "windlass", "events", "--follow", "--json", "--database", desk.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        kinds = [json.loads(following.stdout.readline())["kind"] for _ in range(3)]
        following.send_signal(signal.SIGINT)
        _, said = following.communicate(timeout=30)
    assert kinds == ["retry", "dead", "leads"]
    assert "Traceback" not in said
