"""[K13] Real worker hosts with an id that they were given: it names each child by its place."""

import os
import signal
from pathlib import Path

from tests.chaos.kit import until
from tests.chaos.outages.kit import Host
from windlass.store.factory import make_store
from windlass.store.protocol import Store


async def processes(store: Store) -> dict[str, int]:
    """The process of each worker, by the id in its label."""
    return {each.label.rpartition("-worker-")[2]: each.pid for each in await store.workers() if each.alive}


async def test_who_takes_a_place_takes_its_id(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    store = make_store(url)
    await store.migrate()
    await store.open()
    try:
        async with Host(tmp_path, url, processes=2, worker_id="pod-0"):

            async def both() -> bool:
                return set(await processes(store)) == {"pod-0.1", "pod-0.2"}

            await until(both, 30.0)
            before = await processes(store)
            os.kill(before["pod-0.1"], signal.SIGKILL)

            async def anew() -> bool:
                now = await processes(store)
                return await both() and now["pod-0.1"] != before["pod-0.1"]

            await until(anew, 30.0)
            assert (await processes(store))["pod-0.2"] == before["pod-0.2"]
    finally:
        await store.close()
