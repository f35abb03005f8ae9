"""[fault 2] [C5] [W1] [W2] [W3] Workers are stopped past their lease in the middle of a job of several steps.
When they go on, they write a step, emit, sleep and wait as if nothing had happened: each is refused and
counted, and what the next run has written stands."""

import os
import signal
from typing import Any

import pytest

from tests.chaos.durable.test_kills import executed, paid
from tests.chaos.durable.workflows import LATE, TABLE
from tests.chaos.kit import until
from tests.chaos.workers.kit import LEASE, SWEEP, Scene

APP = "tests.chaos.durable.workflows:app"
LATER = LEASE + SWEEP + 10.0
LATE_WRITE = "a write of its handler arrived too late: the job belonged to another worker"
ENDS = {"step": "succeeded", "transaction": "succeeded", "emit": "succeeded"}


async def written(scene: Scene, job: int) -> tuple[Any, ...]:
    """All that runs of a job have left in the store."""
    (record,) = await scene.records([job])
    page = await scene.store.wait_stream(job, 0, 0.0)
    steps = [(step.name, step.result, step.attempt, step.at) for step in await scene.store.steps(job)]
    waits = [(wait.signal, wait.since, wait.until) for wait in await scene.store.waits(job=job)]
    return record, steps, waits, [(each.position, each.run, each.events) for each in page.batches]


@pytest.mark.slow
async def test_what_a_stopped_worker_writes_late_is_refused_and_counted(scene: Scene) -> None:
    gate = scene.folder / "gate"
    await executed(scene, TABLE)
    # A process for each, since the first refusal stops whatever else runs in its process.
    stopped = await scene.host(APP, processes=len(LATE), queues=(f"work={len(LATE)}",))
    jobs = {way: (await scene.enqueue("late", way=way, gate=str(gate)))[0] for way in LATE}
    first = {entry.job: entry for entry in await scene.seen(n=len(jobs))}
    assert len({entry.pid for entry in first.values()}) == len(jobs)
    await scene.host(APP)
    stopped.send_all(signal.SIGSTOP)
    await scene.seen(n=2 * len(jobs), within=LATER)
    gate.touch()
    for way, job in jobs.items():
        await scene.state(job, ENDS.get(way, "scheduled"), within=LATER)
    before = {way: await written(scene, job) for way, job in jobs.items()}
    for entry in first.values():
        os.kill(entry.pid, signal.SIGCONT)  # without its supervisor: nobody can tell it but the store
    for way, job in jobs.items():
        (refused,) = await scene.seen(job, "refused")
        assert (refused.pid, refused.fence) == (first[job].pid, first[job].fence), way
        told = ("CancelledError",) if way == "emit" else ()  # its write is not waited for
        assert refused.note in ("WorkerLost", "ClaimLost", *told), way
    stopped.send(signal.SIGCONT)
    assert {way: await written(scene, job) for way, job in jobs.items()} == before
    assert await paid(scene) == {jobs["transaction"]: 1}
    for way, job in jobs.items():
        plan, *rest = await scene.store.steps(job)
        assert plan.result == str(first[job].fence), "the first run had done this step"
        assert len(rest) == (way in ("step", "transaction", "sleep"))
    assert await scene.store.signal(jobs["wait"], "go", "1") == "delivered"
    await scene.state(jobs["wait"], "succeeded", within=LATER)

    async def counted() -> bool:
        found = [await scene.store.events(job=job) for job in jobs.values()]
        noted = [[event.text for event in events if event.kind == "refused"] for events in found]
        missing = [way for way, texts in zip(jobs, noted, strict=True) if LATE_WRITE not in texts]
        return not missing

    await until(counted, LATER)
