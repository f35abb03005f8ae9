"""Ids that workers are given: at most one that is alive has one [K13]."""

import asyncio

import pytest

from tests.conformance.kit import POLICY, Rig
from windlass.errors import WorkerIdTaken, WorkerLost


async def test_a_second_live_worker_is_refused(rig: Rig) -> None:
    """[K13] The error says which worker has it; another name, and no name, are free."""
    first = await rig.worker(name="pod-0", process="p1")
    with pytest.raises(WorkerIdTaken, match="pod-0") as taken:
        await rig.worker(name="pod-0")
    assert taken.value.worker == first
    others = {await rig.worker(name="pod-1"), await rig.worker(), await rig.worker()}
    named = {record.id: (record.name, record.process) for record in await rig.store.workers()}
    assert named[first] == ("pod-0", "p1")
    assert others | {first} == set(named)
    await rig.store.heartbeat(first)


async def test_it_is_free_when_its_worker_has_left(rig: Rig) -> None:
    """[K13] However it left, and under a number that is new: the old one's writes are refused [C5]."""
    first = await rig.worker(name="pod-0")
    await rig.store.retire(first)
    second = await rig.worker(name="pod-0")
    await rig.add("t")
    (job,) = await rig.claim(second)
    await rig.store.rescue(second, await rig.heartbeat_of(second), POLICY)
    third = await rig.worker(name="pod-0")
    assert len({first, second, third}) == 3
    with pytest.raises(WorkerLost):
        await rig.finish(second, job)
    assert (await rig.finish(third, await rig.claim(third))).applied == 1


async def test_a_worker_that_begins_again_is_no_other(rig: Rig) -> None:
    """[K13] Its lease ran out, and its old number is not retired yet."""
    first = await rig.worker(name="pod-0")
    second = await rig.worker(name="pod-0", before=first)
    with pytest.raises(WorkerIdTaken) as taken:
        await rig.worker(name="pod-0", before=first)
    assert taken.value.worker == second


async def test_of_many_at_once_one_has_it(rig: Rig) -> None:
    """[K13]"""
    answers = await asyncio.gather(*(rig.worker(name="pod-0") for _ in range(8)), return_exceptions=True)
    (one,) = [answer for answer in answers if not isinstance(answer, BaseException)]
    taken = [answer for answer in answers if isinstance(answer, WorkerIdTaken)]
    assert [error.worker for error in taken] == [one] * 7
