"""[fault 32] A child that does not move is killed and replaced, and a host without a child that moves is not
ready. One whose handler holds the interpreter moves, however long it sleeps.
"""

import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import left_out
from tests.chaos.figures import Figure
from tests.chaos.kit import until
from tests.chaos.workers.kit import LEASE, SWEEP, Host, Scene
from windlass.worker.processes.standstill import STILL

LONGER = STILL + 4.0
LATE = LONGER + LEASE + SWEEP + 30.0


@contextmanager
def freezer(version: int, child: int) -> Iterator[Callable[[bool], None]]:
    """Freezes and thaws a child with a control group of its own."""
    found = left_out.freezer(version)
    if found is None:
        pytest.skip(left_out.FREEZER.reason)
    home = next(
        line.rpartition(":")[2]
        for line in Path("/proc/self/cgroup").read_text("ascii").splitlines()
        if (line.startswith("0::") if version == 2 else ":freezer:" in line)
    )
    group = found / f"windlass-{secrets.token_hex(4)}"
    group.mkdir()
    switch, words = ("cgroup.freeze", "01") if version == 2 else ("freezer.state", ("THAWED", "FROZEN"))

    def freeze(on: bool) -> None:
        (group / switch).write_text(words[on], "ascii")

    try:
        (group / "cgroup.procs").write_text(str(child), "ascii")
        yield freeze
    finally:
        freeze(False)
        for left in (group / "cgroup.procs").read_text("ascii").split():
            (found / home.lstrip("/") / "cgroup.procs").write_text(left, "ascii")
        group.rmdir()


async def replaced(scene: Scene, host: Host, job: int, figure: Figure) -> None:
    """Its job runs in another child, which was started for that; meanwhile nobody says that it is ready."""
    at, unready = time.monotonic(), 0
    (first,) = scene.entries(job, "start")

    async def runs_elsewhere() -> bool:
        nonlocal unready
        readiness = await host.readiness()
        unready += readiness is not None and readiness["status"] != "ready"
        return len(scene.entries(job, "start")) == 2

    await until(runs_elsewhere, LATE, pause=0.05)
    figure("frozen → its job runs in another child, s", time.monotonic() - at)
    _, second = scene.entries(job, "start")
    assert second.pid != first.pid
    assert unready
    assert f"process {first.pid}, is killed and replaced: it has not moved for" in host.log
    (record,) = await scene.records([job])
    assert (record.attempt, record.deaths) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("holds_a_job", [True, False])
async def test_a_stopped_child_is_replaced(scene: Scene, figure: Figure, holds_a_job: bool) -> None:
    gate = scene.folder / "gate"
    host = await scene.host()
    (child,) = host.children()
    if holds_a_job:
        (job,) = await scene.enqueue("gated", gate=str(gate))
        await scene.seen(job)
        os.kill(child, signal.SIGSTOP)
        scene.fenced.add(child)
        await replaced(scene, host, job, figure)
    else:
        os.kill(child, signal.SIGSTOP)
        (job,) = await scene.enqueue("gated", gate=str(gate))
        await scene.seen(job, within=LATE)
    gate.touch()
    await scene.state(job, "succeeded")
    await host.ready()
    assert child not in host.children()


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
async def test_a_frozen_child_is_replaced(sqlite_scene: Scene, figure: Figure, version: int) -> None:
    """To the kernel one in a group of version 2 is asleep, as any other; one of version 1 cannot even be
    killed before it is thawed."""
    scene = sqlite_scene
    gate = scene.folder / "gate"
    host = await scene.host(lease=LONGER)
    (child,) = host.children()
    (job,) = await scene.enqueue("gated", gate=str(gate))
    await scene.seen(job)
    with freezer(version, child) as freeze:
        freeze(True)
        scene.fenced.add(child)
        await replaced(scene, host, job, figure)
        gate.touch()
        await scene.state(job, "succeeded")
        await host.ready()
    assert host.log.count(f"process {child}, is killed and replaced") == 1


@pytest.mark.slow
async def test_c4_one_that_sleeps_with_the_interpreter_is_none(sqlite_scene: Scene, figure: Figure) -> None:
    """[C4] [fault 3] Neither on the loop nor in a thread: it uses no processor, its loop does not turn, and
    it keeps its lease."""
    scene = sqlite_scene
    host = await scene.host(processes=2)
    children = host.children()
    seconds = 2 * STILL + LEASE
    jobs = await scene.enqueue("greedy", seconds=seconds) + await scene.enqueue("hoards", seconds=seconds)
    unready = 0

    async def ended() -> bool:
        nonlocal unready
        readiness = await host.readiness()
        unready += readiness is None or readiness["status"] != "ready"
        return {record.state for record in await scene.records(jobs)} == {"succeeded"}

    await until(ended, 3 * seconds, pause=0.1)
    assert [len(scene.entries(job, "start")) for job in jobs] == [1, 1]
    assert host.children() == children
    assert "is replaced" not in host.log
    figure("times that the host was not ready", unready)
    await scene.check()
