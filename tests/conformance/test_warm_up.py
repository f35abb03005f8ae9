"""What a spare process does before it is called: everything up to where jobs are given out [K9]."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import State
from windlass.worker.processes.spares import warm_up


async def test_nothing_is_given_out_in_a_warm_up(rig: Rig) -> None:
    """It ends where there was something to claim, and that is there as before."""
    (job,) = await rig.add("t")
    await asyncio.wait_for(warm_up(rig.store, ["default"]), 10.0)
    assert await rig.state(job) is State.READY
    (claimed,) = await rig.claim(await rig.worker())
    assert (claimed.id, claimed.attempt, claimed.deaths) == (job, 1, 0)


async def test_a_warm_up_waits_for_something_to_claim(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = asyncio.Event()
    wait = rig.store.wait

    async def noted(queues: Sequence[str], timeout: float) -> bool:
        waits.set()
        return await wait(queues, timeout)

    monkeypatch.setattr(rig.store, "wait", noted)
    warming = asyncio.create_task(warm_up(rig.store, ["default"]))
    await asyncio.wait_for(waits.wait(), 10.0)
    assert not warming.done()
    await rig.add("t")
    await asyncio.wait_for(warming, 10.0)
    assert len(await rig.claim(await rig.worker())) == 1
