"""Signals against timeouts, suspensions and each other, all at once [W2]: each is taken once, none is lost,
and what a wait has become stands."""

import asyncio
from collections import Counter

import pytest

from tests.conformance.kit import Rig
from tests.conformance.test_signals import LONG, ask, taken
from tests.stopwatch import within
from windlass.core.states import Kind
from windlass.store.records import SIGNAL, TIMEOUT, ClaimedJob

N = 24


async def begun(rig: Rig, worker: int, timeout: float) -> list[ClaimedJob]:
    """Jobs that have asked for their signals, and are still to be suspended."""
    await rig.add(*(["t"] * N))
    jobs = await rig.claim(worker)
    for job in jobs:
        assert (await ask(rig, worker, job, timeout=timeout)).step is None
    return jobs


async def suspended(rig: Rig, worker: int, timeout: float) -> list[int]:
    """The same, and they wait."""
    jobs = await begun(rig, worker, timeout)
    await rig.finish(worker, jobs, Kind.SNOOZE, delay=timeout)
    return [job.id for job in jobs]


async def all_go_on(rig: Rig, worker: int, ids: list[int]) -> dict[int, ClaimedJob]:
    """Promote and claim until each of these has come; none comes twice."""
    jobs: dict[int, ClaimedJob] = {}
    async with within(15):
        while jobs.keys() != set(ids):
            await rig.store.promote()
            for job in await rig.claim(worker):
                assert job.id not in jobs, "it was offered twice"
                jobs[job.id] = job
    await rig.store.promote()
    assert await rig.claim(worker) == []
    return jobs


async def test_w2_a_signal_races_the_timeout(rig: Rig) -> None:
    """Either the wait has it, for good, or it has timed out for good and the next wait has the signal."""
    worker = await rig.worker()
    ids = await suspended(rig, worker, 100.0)
    await rig.clock.advance(200)
    seen: dict[int, ClaimedJob] = {}

    async def run() -> None:
        for _ in range(4):
            await rig.store.promote()
            for job in await rig.claim(worker, limit=5):
                seen[job.id] = job
                await asked(job)

    found: dict[int, tuple[str, str]] = {}

    async def asked(job: ClaimedJob) -> None:
        found[job.id] = taken(await ask(rig, worker, job, timeout=100.0))

    await asyncio.gather(*(rig.store.signal(id, "go", str(id)) for id in ids), run())
    seen |= await all_go_on(rig, worker, [id for id in ids if id not in seen])
    for id, job in seen.items():
        if id not in found:
            await asked(job)
        assert taken(await ask(rig, worker, job, timeout=100.0)) == found[id]
        following = taken(await ask(rig, worker, job, timeout=0.0, no=2))
        assert {found[id], following} == {(SIGNAL, str(id)), (TIMEOUT, "null")}


@pytest.mark.parametrize("timeout", [None, LONG])
async def test_w2_a_signal_races_the_suspension(rig: Rig, timeout: float | None) -> None:
    """It comes before the flush, in the middle of it, or after it: the job goes on with it, at once."""
    worker = await rig.worker()
    jobs = await begun(rig, worker, timeout or LONG)
    await asyncio.gather(
        *(rig.store.signal(job.id, "go", str(job.id)) for job in jobs[::2]),
        rig.finish(worker, jobs, Kind.SNOOZE, delay=LONG),
        *(rig.store.signal(job.id, "go", str(job.id)) for job in jobs[1::2]),
        rig.store.promote(),
    )
    for id, job in (await all_go_on(rig, worker, [job.id for job in jobs])).items():
        assert taken(await ask(rig, worker, job, timeout=timeout)) == (SIGNAL, str(id))


async def test_w2_several_signals_at_once(rig: Rig) -> None:
    """Each wakes a wait of its own, and each is taken once, whoever comes first."""
    worker = await rig.worker()
    ids = await suspended(rig, worker, LONG)
    sent = [(id, f"{id}{n}") for id in ids for n in range(3)]
    answers = await asyncio.gather(*(rig.store.signal(id, "go", value) for id, value in sent))
    assert set(answers) <= {"delivered", "kept"}
    assert answers.count("delivered") >= N, "a job that waits was not told"
    got: Counter[str] = Counter()
    for job in (await all_go_on(rig, worker, ids)).values():
        found = [taken(await ask(rig, worker, job, timeout=0.0, no=no)) for no in (1, 2, 3, 4)]
        assert [code for code, _ in found] == [SIGNAL] * 3 + [TIMEOUT]
        got.update(value for _, value in found[:3])
    assert got == Counter(value for _, value in sent)


async def test_w2_an_operator_lets_it_go_on_while_it_is_signalled(rig: Rig) -> None:
    """The run that he caused looks too early, and waits again: it must not wait for ever."""
    worker = await rig.worker()
    ids = await suspended(rig, worker, LONG)
    again: dict[int, ClaimedJob] = {}

    async def manage() -> None:
        for id in ids:
            assert (await rig.store.retry([id]))[id] in ("retried", "unchanged")
            for job in await rig.claim(worker):
                again[job.id] = job
                if (await ask(rig, worker, job)).step is None:
                    await rig.finish(worker, job, Kind.SNOOZE, delay=LONG)
                    del again[job.id]

    await asyncio.gather(manage(), *(rig.store.signal(id, "go", str(id)) for id in ids))
    again |= await all_go_on(rig, worker, [id for id in ids if id not in again])
    for id, job in again.items():
        assert taken(await ask(rig, worker, job)) == (SIGNAL, str(id))
