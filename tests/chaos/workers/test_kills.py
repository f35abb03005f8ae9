"""[fault 1] Children and whole hosts are killed in the middle of jobs. [fault 16] A job that kills its
worker.

Nothing may be lost, no attempt is charged, and a kill costs a job one effect more at most.
"""

import asyncio
import random
import signal
from typing import Any

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import SOAK_SECONDS, until
from tests.chaos.workers.kit import LEASE, SWEEP, Host, Scene
from tests.postgres_guard import alive
from tests.stock import BOTH
from tests.stopwatch import Stopwatch
from windlass.store.records import Options

ELSEWHERE = 1.0
"""Seconds within which the job of a killed child runs elsewhere."""

SLACK = 1.5
"""Seconds that a busy machine may add to lease and sweep: a heartbeat on its way, a look at the workers, a
claim."""


async def test_a_killed_childs_job_runs_elsewhere_at_once(scene: Scene, figure: Figure) -> None:
    """The supervisor sees the death and hands the job back; nobody waits for a lease [C8]."""
    host = await scene.host(processes=2, lease=30.0)
    took, watch = list[float](), Stopwatch()
    for _ in range(2):
        gate = scene.folder / f"gate-{len(took)}"
        (job,) = await scene.enqueue("gated", gate=str(gate))
        (first,) = await scene.seen(job)
        at = scene.kill(first.pid)
        _, second = await scene.seen(job, n=2)
        took.append(second.at - at)
        assert second.pid != first.pid
        assert (second.attempt, second.deaths) == (1, 1)
        gate.touch()
        await scene.state(job, "succeeded")
        await host.ready(2)
    figure("killed child → its job runs elsewhere, s, at most", max(took))
    assert min(took) < ELSEWHERE + watch.lost()
    books = await scene.check()
    assert books.extra == 0  # neither had come to its effect
    assert "was killed by SIGKILL" in host.log


@pytest.mark.slow
async def test_a_killed_hosts_jobs_run_within_a_lease_and_a_sweep(scene: Scene, figure: Figure) -> None:
    """Nobody is left to hand them back: another host sees that the heartbeats have ended [C8]."""
    gate = scene.folder / "gate"
    doomed = await scene.host(processes=2)
    jobs = await scene.enqueue("gated", 6, gate=str(gate))
    await scene.seen(n=6)
    other = await scene.host()
    at, watch = scene.kill_host(doomed), Stopwatch()
    entries = await scene.seen(n=7, within=LEASE + SWEEP + 20.0)
    took, lost = entries[6].at - at, watch.lost()
    gate.touch()
    await scene.all_ended(20.0)
    figure("killed host → its jobs run elsewhere, s", took)
    figure("lease + sweep, s", LEASE + SWEEP)
    assert took < LEASE + SWEEP + SLACK + lost
    await scene.check(jobs)
    assert other.log.count("is dead:") == 2  # two workers of the host, each declared dead once


async def test_children_outlive_their_supervisor_only_to_hand_back(scene: Scene, figure: Figure) -> None:
    """A child whose supervisor is gone gets no more heartbeats: it stops, hands back and leaves."""
    gate = scene.folder / "gate"
    doomed = await scene.host(processes=2, lease=30.0)
    jobs = await scene.enqueue("gated", 4, gate=str(gate)) + await scene.enqueue("plain", 2, seconds=2.0)
    await scene.seen(n=6)
    other = await scene.host(lease=30.0)
    children = doomed.children()
    assert len(children) == 2
    at = scene.kill(doomed.pid)

    async def all_left() -> bool:
        return not any(map(alive, children))

    took = await until(all_left, 10.0)
    gate.touch()
    figure("killed supervisor → its children have left, s", took)
    await scene.all_ended(20.0)
    first = min(entry.at for entry in scene.entries(what="start") if entry.pid not in children)
    figure("killed supervisor → its jobs run elsewhere, s", first - at)
    assert "hands its jobs back and exits" in doomed.log
    scene.fenced |= set(children)  # a thread cannot be stopped: it runs until its process has left
    await scene.check(jobs)
    assert all(record.deaths == 0 for record in await scene.records(jobs))
    assert other.code is None


@pytest.mark.slow
@BOTH
async def test_random_kills_under_load(pg_scene: Scene, figure: Figure) -> None:
    """Children and a host die at random while jobs come in. SQLite has the single faults above: the engine
    is the same, and its producers would wait for one another."""
    await kill_at_random(pg_scene, 5, random.Random(1), figure)


@pytest.mark.soak
async def test_random_kills_for_long(scene: Scene, figure: Figure) -> None:
    await kill_at_random(scene, max(10, int(SOAK_SECONDS)), random.Random(2), figure)


async def kill_at_random(scene: Scene, kills: int, dice: random.Random, figure: Figure) -> None:
    # An innocent job may be hit more than twice here; that it would be dead then is another test's business.
    start: dict[str, Any] = {"processes": 2, "WINDLASS_POISON": "100"}
    hosts = [await scene.host(**start) for _ in range(2)]
    died = 0
    async with scene.producing(dice, 5, every=0.05, most=0.1):
        for number in range(kills):
            await asyncio.sleep(dice.uniform(0.3, 1.0))
            if number % 5 == 2:  # a host, and a new one in its place
                died += len(hosts[0].children())
                scene.kill_host(hosts.pop(0))
                hosts.append(await scene.host(**start))
            else:
                children = [pid for host in hosts for pid in host.children()]
                if children:
                    died += 1
                    scene.kill(dice.choice(children))
    await scene.all_ended(60.0)
    books = await scene.check()
    figure("kills", kills)
    figure("processes killed", died)
    figure("jobs acknowledged = succeeded", len(scene.acknowledged))
    figure("effects beyond one a job", books.extra)
    assert all(books.effects(job) <= 1 + kills for job in scene.acknowledged)


@pytest.mark.slow
async def test_a_job_that_kills_its_worker_is_poison(scene: Scene, figure: Figure) -> None:
    """Dead after three workers; who ran beside it is charged no attempt and runs to its end [C8]."""
    host = await scene.host(processes=2)
    before = await scene.enqueue("steady", 20, seconds=0.2)
    (poison,) = await scene.enqueue("poison", options=Options(max_attempts=50))
    after = await scene.enqueue("steady", 40, seconds=0.2)
    record = await scene.state(poison, "dead", within=40.0)
    assert (record.attempt, record.deaths, record.reason) == (1, 3, "poison")
    await scene.all_ended(20.0)
    entries = scene.entries(poison, "start")
    assert [entry.deaths for entry in entries] == [0, 1, 2]
    scene.killed |= {entry.pid: entry.at for entry in entries}
    books = await scene.check(before + after)
    neighbours = [record for record in await scene.records(before + after) if record.deaths]
    figure("jobs that ran beside it when it killed its worker", len(neighbours))
    assert all(record.deaths < 3 for record in neighbours)  # on their last life nobody runs beside them
    figure("effects beyond one a job", books.extra)
    assert "dead as poison" in host.log
    await leaves_in_order(host)


async def leaves_in_order(host: Host) -> None:
    """It still does what it is told."""
    host.send(signal.SIGTERM)
    assert await host.leaves() == 0
