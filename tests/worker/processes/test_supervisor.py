"""The row of processes while they start."""

import asyncio

from windlass.settings import Settings
from windlass.store.factory import make_store
from windlass.worker.processes.supervisor import Supervisor


async def test_starts_that_are_cancelled_together_all_end() -> None:
    """An end that was swallowed would keep the whole host alive for ever."""
    supervisor = Supervisor(make_store("sqlite:///:memory:"), "shop:app", Settings(queues={"work": 1}), {})
    starting = [asyncio.create_task(supervisor._start(place)) for place in (1, 2)]
    await asyncio.sleep(0)
    for task in starting:
        task.cancel()
    ends = await asyncio.gather(*starting, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 2
