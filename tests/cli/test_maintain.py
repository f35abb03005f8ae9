"""windlass maintain …: each duty of a coordinator once, by hand, with its counts [K3]."""

import json

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass.core.rollup import Sample
from windlass.core.states import State
from windlass.store.records import NewSchedule, Report, Runs, WorkerInfo

DUTIES = ("counts", "governor", "promote", "rescue", "retention", "rollup", "schedules", "slots")


def test_k3_promote(desk: Desk) -> None:
    desk.visit(lambda rig: rig.add("t", delay=1e-6))  # due by the time of the next command
    answer = desk.json("maintain", "promote", "--once")
    assert answer == {"due": 1, "admitted": 0, "next_in": None}
    assert desk.ok("maintain", "promote", "--once") == "due 0, admitted 0, next in –\n"


def test_k3_retention(any_desk: Desk) -> None:
    answer = any_desk.json("maintain", "retention", "--once")
    assert {"reclaimed", "moved", "removed", "blocked", "dead", "keys", "workers"} <= set(answer)
    assert "removed 0" in any_desk.ok("maintain", "retention", "--once")


def test_k3_m1_rollup(any_desk: Desk) -> None:
    async def tell(rig: Rig) -> float:
        report = Report(samples=[Sample(at=60, queue="mail", task="send", counts={"succeeded": 3})])
        return await rig.store.report(7, 1, report)

    any_desk.visit(tell)
    answer = any_desk.json("maintain", "rollup", "--once")
    assert answer["folded"] == 1
    assert answer["rows"] > 0
    assert any_desk.json("maintain", "rollup", "--once")["folded"] == 0
    totals = {(each.queue, each.task): each for each in any_desk.visit(lambda rig: rig.store.totals())}
    assert totals["mail", "send"].counts == totals["", ""].counts == {"succeeded": 3}


def test_k3_m7_counts(any_desk: Desk) -> None:
    """[M7] Counted, compared with what the store holds, and corrected."""

    async def run(rig: Rig) -> None:
        await rig.add("a", "b")
        worker = await rig.worker("default")
        await rig.finish(worker, await rig.claim(worker))

    any_desk.visit(run)
    answer = any_desk.json("maintain", "counts", "--once")
    assert (answer["ended"], answer["corrected"]) == (2, [])
    assert any_desk.ok("maintain", "counts", "--once") == "2 jobs have ended; counts and logs agree\n"


def test_k3_rescue_takes_one_lease_and_says_so(desk: Desk) -> None:
    async def abandon(rig: Rig) -> int:
        await rig.store.register(WorkerInfo(id=7, label="gone-[b]1", queues=("default",), lease=1.0))
        (id,) = await rig.add("t")
        await rig.claim(7)
        return id

    id = desk.visit(abandon)
    result = desk.run("maintain", "rescue", "--once", WINDLASS_LEASE="1s")
    assert result.exit_code == 0, result.output
    assert "for one lease" in result.stderr
    assert "gone-[b]1: offered 1" in result.stdout
    assert desk.visit(lambda rig: rig.state(id)) is State.READY
    again = desk.run("maintain", "rescue", "--once", "--json", WINDLASS_LEASE="1s")
    assert json.loads(again.stdout) == {"rescued": []}


def test_k3_slots_unless_another_coordinator_is_at_work(any_desk: Desk) -> None:
    async def serve(rig: Rig) -> None:
        await rig.store.set_queue("mail", {"max_workers": 3})
        await rig.store.register(WorkerInfo(id=7, queues=("mail",)))
        await rig.store.register(WorkerInfo(id=8, queues=("mail",)))

    any_desk.visit(serve)
    slots = any_desk.json("maintain", "slots", "--once")["slots"]
    assert sorted(share["mail"] for share in slots.values()) == [1, 2]
    assert any_desk.visit(lambda rig: rig.store.lead(1, 30)) is not None  # the first one has resigned
    assert "another coordinator is active" in any_desk.refused("maintain", "slots", "--once")


def test_k3_schedules_fire_what_is_due(any_desk: Desk) -> None:
    async def seed(rig: Rig) -> None:
        schedule = NewSchedule(name="daily", cron="0 9 * * *", task="report")
        await rig.store.seed_schedule(schedule, await rig.store.now() - 5)

    any_desk.visit(seed)
    assert any_desk.json("maintain", "schedules", "--once") == {"jobs": 1}
    assert any_desk.ok("maintain", "schedules", "--once") == "jobs 0\n"
    (job,) = any_desk.json("jobs")["jobs"]
    assert job["headers"]["windlass-schedule"] == "daily"


def test_k3_f2_the_governor_decides(any_desk: Desk) -> None:
    assert "no queue has a governor" in any_desk.ok("maintain", "governor", "--once")
    any_desk.ok("queue", "set", "crawl", "--governor", "on", "--rate-max", "100")
    any_desk.visit(lambda rig: rig.store.count_runs({"crawl": Runs(succeeded=50, failed=50)}))
    (governor,) = any_desk.json("maintain", "governor", "--once")["governors"]
    assert (governor["queue"], governor["rate"]) == ("crawl", 2.5)
    assert (
        any_desk.ok("maintain", "governor", "--once") == "crawl: 2.5/s, held; halved: 50 of 100 runs failed\n"
    )


@pytest.mark.parametrize("duty", DUTIES)
def test_once_must_be_said(desk: Desk, duty: str) -> None:
    assert "add --once" in desk.refused("maintain", duty, code=2)
