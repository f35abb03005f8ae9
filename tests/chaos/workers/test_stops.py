"""[fault 2] Workers are stopped past their lease and go on as if nothing had happened. [fault 3] A handler
holds the interpreter for three leases.

The first must lose its jobs and must not be able to write about them any more; the second must keep them.
"""

import asyncio
import os
import signal
import time

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import until
from tests.chaos.workers.kit import LEASE, SWEEP, Scene

LATE = LEASE + SWEEP + 10.0


async def test_a_stopped_child_loses_its_jobs(scene: Scene, figure: Figure) -> None:
    """Its supervisor lives and must send no heartbeat for it [C5]; the job runs in another child
    meanwhile."""
    gate = scene.folder / "gate"
    host = await scene.host(processes=2, WINDLASS_UNRESPONSIVE="0")  # else it would be killed and replaced
    (job,) = await scene.enqueue("saver", gate=str(gate))
    (first,) = await scene.seen(job, "saved")
    os.kill(first.pid, signal.SIGSTOP)
    scene.fenced.add(first.pid)
    _, second = await scene.seen(job, n=2, within=LATE)
    figure("stopped child → its job runs elsewhere, s", second.at - first.at)
    assert second.pid != first.pid
    gate.touch()
    record = await scene.state(job, "succeeded")
    os.kill(first.pid, signal.SIGCONT)
    await host.says(rf"\[{first.pid}\].* lost its lease")
    await ended_late(scene, first.pid)
    assert [entry.note for entry in scene.entries(job, "found")] == ["None", repr({"fence": first.fence})]
    assert await scene.records([job]) == [record]  # the late run has changed nothing
    assert (record.attempt, record.deaths) == (1, 1)
    await scene.check()
    (again,) = await scene.enqueue("steady", seconds=0.0)
    await scene.state(again, "succeeded")
    assert first.pid in host.children()  # it works on under a new identity


async def ended_late(scene: Scene, pid: int) -> None:
    """Until the run in this process is over."""

    async def ended() -> bool:
        return any(entry.pid == pid and entry.what in ("stopped", "failed") for entry in scene.entries())

    await until(ended, 10.0)


@pytest.mark.slow
async def test_what_a_stopped_host_says_late_is_refused_and_counted(scene: Scene, figure: Figure) -> None:
    """Host and child are stopped while another host takes their jobs. The child goes on first, so that
    nobody can tell it; the store does, for a checkpoint and for outcomes [C5]."""
    gate = scene.folder / "gate"
    stopped = await scene.host()
    saver, *gated = await scene.enqueue("saver", gate=str(gate)) + await scene.enqueue(
        "gated", 2, gate=str(gate)
    )
    await scene.seen(n=3)
    (first,) = await scene.seen(saver, "saved")
    other = await scene.host()
    stopped.send_all(signal.SIGSTOP)
    scene.fenced.add(first.pid)
    await scene.seen(n=4, within=LATE)
    gate.touch()
    await scene.all_ended(LATE)
    before = await scene.records([saver, *gated])
    os.kill(first.pid, signal.SIGCONT)
    refusals = await scene.seen(saver, "refused")
    assert [(entry.pid, entry.fence, entry.note) for entry in refusals] == [
        (first.pid, first.fence, "WorkerLost")
    ]
    found = await stopped.says(r"(\d) outcomes? arrived too late: this worker had lost its lease")
    figure("late outcomes refused", int(found[1]))
    stopped.send(signal.SIGCONT)
    assert await scene.records([saver, *gated]) == before
    assert {record.state for record in before} == {"succeeded"}
    await scene.check()
    (again,) = await scene.enqueue("steady", seconds=0.0)
    await scene.state(again, "succeeded")
    await stopped.ready()
    assert "is dead: 3 of its jobs are offered again" in other.log


@pytest.mark.slow
async def test_a_handler_that_holds_the_interpreter_keeps_its_lease(pg_scene: Scene, figure: Figure) -> None:
    """Nothing else runs in its process for three leases, not even the loop; the supervisor sends heartbeats
    [C4]. What the store is told is the same on SQLite."""
    scene = pg_scene
    lease = 1.0
    host = await scene.host(lease=lease)
    other = await scene.host(lease=lease)  # would take the job if it could, and look for the dead
    (job,) = await scene.enqueue("greedy", seconds=3 * lease + SWEEP)
    record = await scene.state(job, "succeeded", within=30.0)
    (effect,) = scene.entries(job, "effect")
    figure("interpreter held for, leases", float(effect.note) / lease)
    assert float(effect.note) > 3 * lease
    assert len(scene.entries(job, "start")) == 1
    assert (record.attempt, record.deaths) == (1, 0)
    await scene.check()
    assert "lost its lease" not in host.log + other.log
    assert "is dead" not in host.log + other.log


@pytest.mark.slow
async def test_children_of_a_stopped_supervisor_take_nothing_new(pg_scene: Scene, figure: Figure) -> None:
    """No heartbeat is sent for them. They lose their jobs once; if they claimed again and again, each time
    for lack of a heartbeat, a long job would be taken for poison though it never did anything wrong [C8]. The
    store has no part in that, so one is enough."""
    scene = pg_scene
    gate, lease = scene.folder / "gate", 1.0
    stopped = await scene.host(lease=lease)
    jobs = await scene.enqueue("gated", 2, gate=str(gate))
    (first, *_) = await scene.seen(n=2)
    scene.fenced.add(first.pid)
    await scene.host(lease=lease)
    stopped.send(signal.SIGSTOP)
    at = time.monotonic()
    # Its child has free slots and there is work: for four leases it could lose identity after identity.
    for _ in range(20):
        jobs += await scene.enqueue("steady", seconds=0.3)
        await asyncio.sleep(lease / 5)
    last = max(entry.at for entry in scene.entries(what="start") if entry.pid == first.pid)
    figure("the child's last start after its supervisor was stopped, s", last - at)
    assert last - at < lease + SWEEP + 1.5
    gate.touch()
    await scene.all_ended(60.0)
    stopped.send(signal.SIGCONT)
    await scene.check(jobs)
    assert max(record.deaths for record in await scene.records(jobs)) <= 1
    await stopped.ready()
