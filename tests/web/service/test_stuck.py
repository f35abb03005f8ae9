"""Slots that have run the same jobs for long while others wait are not well: pages, API, commands and the
doctor say so [M3]."""

from collections.abc import Sequence

import pytest

from tests.cli.conftest import any_desk, path
from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from tests.web.kit import rigged, visiting
from tests.web.pages.kit import Html
from windlass import Windlass
from windlass.presentation import cluster_state
from windlass.presentation.cluster_state import LONG_RUN, ClusterState, Stuck
from windlass.store.records import Busy, ClusterView, Depth, QueueRecord, Report, Vitals, WorkerRecord

__all__ = ["any_desk", "path"]
NOW = 100_000.0


def worker(id: int, *began: float, told: float = NOW, **vitals: float) -> WorkerRecord:
    jobs = tuple(Busy(at, "t", "mail", NOW - ago) for at, ago in enumerate(began[:20]))
    return WorkerRecord(
        id=id, label="w", host="h", pid=1, queues=("mail",), alive=True, heartbeat=1, started_at=0.0,
        heartbeat_at=NOW, vitals=Vitals(running=len(began), slots=2, jobs=jobs, **vitals),  # type: ignore[arg-type]
        vitals_at=told,
    )  # fmt: skip


def stuck(
    workers: Sequence[WorkerRecord], *, waited: float = 2 * LONG_RUN, free: int = 3, slots: int = 2
) -> Stuck | None:
    view = ClusterView(
        queues={"mail": QueueRecord(name="mail")},
        slots={each.id: {"mail": slots} for each in workers},
        serving={"mail": len(workers)},
    )
    depth = Depth(ready=3, running=2, free=free, oldest=waited)
    return ClusterState(view, {"mail": depth}, list(workers), NOW, 0.0).stuck("mail")


def test_slots_are_stuck_where_all_of_them_are_and_others_wait() -> None:
    old, older = LONG_RUN + 100, LONG_RUN + 900
    assert stuck([worker(1, old, older)]) == Stuck(2, NOW - old)
    assert stuck([worker(1, old, older), worker(2, older, older)]) == Stuck(4, NOW - old)
    assert stuck([worker(1, old, 3.0)]) is None
    assert stuck([worker(1, old)]) is None
    assert stuck([worker(1, old, old), worker(2, old, 3.0)]) is None
    assert stuck([worker(1, old, old)], waited=3.0) is None
    assert stuck([worker(1, old, old)], free=0) is None  # a limit holds those that wait
    assert stuck([]) is None


def test_every_worker_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each of its queues, not for each worker that asks: of a thousand, a million were."""
    looked: list[int] = []
    long_runs = cluster_state._long_runs

    def look(worker: WorkerRecord, queue: str, slots: int, until: float) -> list[float]:
        looked.append(worker.id)
        return long_runs(worker, queue, slots, until)

    monkeypatch.setattr(cluster_state, "_long_runs", look)
    workers = [worker(id, LONG_RUN + 100, LONG_RUN + 900) for id in range(5)]
    slots = {each.id: {"mail": 2} for each in workers}
    view = ClusterView(queues={"mail": QueueRecord(name="mail")}, slots=slots, serving={"mail": 5})
    depth = Depth(ready=3, running=2, free=3, oldest=2 * LONG_RUN)
    state = ClusterState(view, {"mail": depth}, workers, NOW, 0.0)
    assert {state.stuck_since(each) for each in workers} == {NOW - LONG_RUN - 100}
    assert looked == [0, 1, 2, 3, 4]


def test_slots_behind_a_blocked_loop_are_stuck() -> None:
    assert stuck([worker(1, told=NOW - LONG_RUN - 50)]) == Stuck(2, NOW - LONG_RUN - 50)


def test_slots_are_stuck_also_where_there_are_too_many_to_name() -> None:
    many = worker(1, *[LONG_RUN + 5.0] * 30, newest=NOW - LONG_RUN - 5)
    assert stuck([many], slots=30) == Stuck(30, NOW - LONG_RUN - 5)


async def hang(rig: Rig) -> None:
    """Both slots of a queue run jobs, and another job waits."""
    worker = await rig.worker("mail")
    term = await rig.store.lead(worker, 30.0)
    assert term is not None
    await rig.store.assign(term, {worker: {"mail": 2}})
    await rig.add("t", "t", "t", queue="mail")
    claimed = await rig.claim(worker, "mail", limit=2)
    now = await rig.store.now()
    busy = tuple(Busy(job.id, job.task, "mail", now - 725) for job in claimed)
    await rig.store.report(worker, 1, Report(vitals=Vitals(running=2, slots=2, jobs=busy, newest=now - 725)))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs count as long at once."""
    monkeypatch.setattr("windlass.presentation.cluster_state.LONG_RUN", 0.0)


@pytest.mark.usefixtures("impatient")
async def test_pages_say_that_slots_are_stuck(any_app: Windlass) -> None:
    async with rigged(any_app) as rig, visiting(any_app) as visitor:
        await hang(rig)
        said = "all of its 2 slots have run the same jobs for 12 min"
        (found,) = [
            each
            for each in (await visitor.get("/api/overview")).json()["findings"]
            if each["name"] == "queue mail"
        ]
        assert found["text"].startswith(said)
        assert found["level"] == "warning"
        assert said in Html((await visitor.get("/")).text).text
        assert said in Html((await visitor.get("/queues")).text).text
        page = Html((await visitor.get("/workers")).text)
        assert "alive, slots stuck for 12 min" in page.text
        assert (await visitor.get("/api/workers")).json()["workers"][0]["stuck_since"]


@pytest.mark.usefixtures("impatient")
def test_commands_say_that_slots_are_stuck(any_desk: Desk) -> None:
    any_desk.visit(hang)
    found = {each["name"]: each for each in any_desk.json("doctor")["findings"]}["queue mail"]
    assert found["text"].startswith("all of its 2 slots have run the same jobs for 12 min")
    assert found["text"].endswith("; 1 job waits")
    assert "--state running" in found["advice"]
    assert "alive, slots stuck for 12 min" in any_desk.ok("workers")
    for verb in (["queues"], ["top", "--once"]):
        (row,) = [line for line in any_desk.ok(*verb).splitlines() if line.startswith("mail ")]
        assert "  all of its 2 slots have run the same jobs for 12 min" in row
