"""[fault 15] The coordinator is stopped past its term and goes on, while another has taken over [K3].

The hosts here serve different queues: one only coordinates, the other runs the jobs.
"""

import asyncio
import re
import signal
import time

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import until
from tests.chaos.workers.jobs import QUEUE
from tests.chaos.workers.kit import LEASE, Host, Scene
from windlass.errors import TermLost

TERM = LEASE / 2
"""How long a term lasts: half a lease, where that is shorter than the usual one."""

COORDINATES = r"this host coordinates the cluster, term (\d+)"


@pytest.mark.slow
async def test_a_coordinator_that_slept_through_its_term(scene: Scene, figure: Figure) -> None:
    """Its term is over: it writes nothing, what it would write is refused, and each due job runs once."""
    former = await scene.host(queues=["other=2"])
    term = int((await former.says(COORDINATES))[1])
    host = await scene.host(queues=[f"{QUEUE}=4"])
    jobs = [
        job for delay in range(10) for job in await scene.enqueue("steady", 4, delay=delay / 2, seconds=0.0)
    ]

    former.send_all(signal.SIGSTOP)
    at = time.monotonic()
    later = int((await host.says(COORDINATES))[1])
    figure("stopped coordinator → another coordinates, s", time.monotonic() - at)
    assert later > term
    await scene.store.set_queue(QUEUE, {"max_workers": 6})
    await slots(scene, 6)
    with pytest.raises(TermLost):
        await scene.store.assign(term, {1: {QUEUE: 4}})

    former.send_all(signal.SIGCONT)
    await former.says(rf"term {term} is over")
    until_then = time.monotonic() + 1.5 * LEASE
    while time.monotonic() < until_then:  # what must not happen has three terms to happen in
        assert await shares(scene) == {6}
        assert not (await state(former))["coordinator"]
        await asyncio.sleep(0.05)
    assert (await state(host))["coordinator"]
    assert re.findall(COORDINATES, host.log) == [str(later)]
    assert re.findall(COORDINATES, former.log) == [str(term)]
    await former.ready()

    await scene.all_ended(20.0)
    await scene.check(jobs)
    assert [len(scene.entries(job, "start")) for job in jobs] == [1] * len(jobs)


@pytest.mark.slow
async def test_each_due_job_runs_once_while_coordinators_take_turns(pg_scene: Scene, figure: Figure) -> None:
    """Two that coordinate are stopped in turn, so that terms change hands again and again. On SQLite, where
    writers take turns anyway, the test above is enough."""
    scene = pg_scene
    hosts = [await scene.host(queues=[f"other-{number}=1"]) for number in range(2)]
    await scene.host(queues=[f"{QUEUE}=4"], lease=30.0)  # its own terms would be long; it may coordinate
    jobs = [
        job for tenth in range(40) for job in await scene.enqueue("steady", 2, delay=tenth / 10, seconds=0.0)
    ]
    for turn in range(3):
        stopped = hosts[turn % 2]
        stopped.send_all(signal.SIGSTOP)
        await asyncio.sleep(1.5 * TERM)  # how long the fault lasts
        stopped.send_all(signal.SIGCONT)
    await scene.all_ended(30.0)
    figure("terms", len(re.findall(COORDINATES, "".join(host.log for host in scene.hosts))))
    await scene.check(jobs)
    assert [len(scene.entries(job, "start")) for job in jobs] == [1] * len(jobs)


async def state(host: Host) -> dict[str, object]:
    """What its health endpoint tells."""
    readiness = await host.readiness()
    assert readiness is not None
    return readiness


async def shares(scene: Scene) -> set[int]:
    """The slots of the queue that workers were assigned, as the store has them."""
    workers = [worker.id for worker in await scene.store.workers()]
    assigned = (await scene.store.cluster_view(workers)).slots
    return {slots[QUEUE] for slots in assigned.values() if QUEUE in slots}


async def slots(scene: Scene, number: int) -> None:
    """Until the coordinator has shared out so many."""

    async def shared() -> bool:
        return await shares(scene) == {number}

    await until(shared, 10.0)
