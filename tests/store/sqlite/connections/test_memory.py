"""The path :memory:, a database for tests. What every store promises, tests/conformance asks of it, too."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apsw
import pytest

from tests.store.sqlite.kit import drain, in_child, job, opened
from windlass.core.states import State
from windlass.store.records import NewJob, Outcome, WorkerInfo
from windlass.store.sqlite import SQLiteStore

MEMORY = ":memory:"


async def ready(store: SQLiteStore) -> int:
    return sum(depth.ready for depth in (await store.depth()).values())


async def test_each_store_has_its_own() -> None:
    async with opened(MEMORY) as one, opened(MEMORY) as other:
        await one.enqueue([job("t")])
        assert (await ready(one), await ready(other)) == (1, 0)


async def test_jobs_stay_when_it_is_closed() -> None:
    """They live as long as the store: who closes an app in a test still looks at its jobs."""
    async with opened(MEMORY) as store:
        await store.enqueue([job("t")])
    async with opened(MEMORY) as other, opened(MEMORY):
        assert await ready(other) == 0
    assert await ready(store) == 1


async def test_one_that_nobody_holds_is_used_again_as_if_it_were_new() -> None:
    """Its connection is, which has prepared its statements; of its rows nothing is left."""
    store = SQLiteStore(MEMORY)
    connection = await store.database.read(lambda connection: connection)
    await store.enqueue([job("t"), job("t", queue="other")])
    await store.set_queue("other", {"max_workers": 3})
    await drain(store, 1)
    del store
    again, new = SQLiteStore(MEMORY), SQLiteStore(MEMORY)
    assert await again.database.read(lambda connection: connection) is connection
    assert await again.database.read(_rows) == await new.database.read(_rows)


def _rows(connection: apsw.Connection) -> dict[Any, Any]:
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables}


async def test_nothing_is_left_of_a_call_that_fails() -> None:
    async with opened(MEMORY) as store:
        with pytest.raises(TypeError):
            await store.enqueue([job("t"), NewJob(task="t", payload=object())])  # type: ignore[arg-type]
        assert await ready(store) == 0
        await store.enqueue([job("t")])
        assert len(await drain(store, 1)) == 1


async def test_who_waits_for_a_job_hears_of_its_end() -> None:
    async with opened(MEMORY) as store:
        (receipt,) = await store.enqueue([job("t")])
        waiting = asyncio.create_task(store.wait_finished(receipt.id, 10))
        await store.register(WorkerInfo(id=1))
        ((claim,),) = [each.jobs for each in await store.claim(1, ["default"], 1)]
        await asyncio.sleep(0)  # it has looked, and waits
        await store.finish(1, 1, [Outcome(job=claim)])
        assert (await waiting).state is State.SUCCEEDED


def test_threads_take_turns() -> None:
    """Each with a loop of its own, as a program's threads have."""
    store = SQLiteStore(MEMORY)

    async def enqueue() -> None:
        for _ in range(50):
            await store.enqueue([job("t")])

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(asyncio.run, enqueue()) for _ in range(4)]:
            done.result()
    assert asyncio.run(ready(store)) == 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_a_fork_has_a_copy() -> None:
    """[fault 22] Both go on, and neither sees what the other does."""
    async with opened(MEMORY) as store:
        await store.enqueue([job("before")])

        async def in_the_child() -> None:
            await store.enqueue([job("child")])
            assert await ready(store) == 2

        assert in_child(lambda: asyncio.new_event_loop().run_until_complete(in_the_child())) == 0
        assert [claimed.task for claimed in await drain(store, 1)] == ["before"]
