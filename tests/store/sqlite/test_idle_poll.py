"""[K12] What another process writes to the file is found within `idle_poll`; a look costs next to nothing."""

import asyncio
from pathlib import Path

import pytest

from tests.stopwatch import Stopwatch
from windlass.store.records import NewJob
from windlass.store.settings import StoreSettings
from windlass.store.sqlite import SQLiteStore


@pytest.mark.parametrize("idle_poll", [0.2, 0.5])
async def test_what_another_process_writes_is_found_in_time(idle_poll: float, tmp_path: Path) -> None:
    settings = StoreSettings(idle_poll=idle_poll)
    store, other = SQLiteStore(tmp_path / "jobs.db", settings), SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    await other.open()
    try:
        waiting = asyncio.create_task(store.wait(["mail"], 60))
        await asyncio.sleep(4 * idle_poll)  # so that the pause has grown to its longest
        watch = Stopwatch()
        await other.enqueue([NewJob(task="a", payload="{}", queue="mail")])
        assert await waiting
        assert watch.seconds() < idle_poll + 0.25
        polling = await store.polling(["mail"])
        found = {finding.name: finding.text for finding in await store.diagnose()}
    finally:
        await store.close()
        await other.close()
    assert (polling.every, polling.wakes) == (idle_poll / 2, True)
    assert 0 < polling.took < 0.25 + watch.lost()
    assert f"looks every {idle_poll / 2:g} s" in found["polling"]
