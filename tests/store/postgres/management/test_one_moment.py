"""A listing, a count and a bulk action see one moment, whatever moves meanwhile [S5]."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.chaos.outages.pooler import pooler
from tests.cli.kit import RealTime
from tests.conformance.kit import Rig, failure
from tests.postgres import Server
from tests.store.postgres.kit import Base
from windlass import Windlass
from windlass.core.states import Kind
from windlass.operations import walks
from windlass.operations.operation import CODE, Ops
from windlass.store.postgres.connections.connect import Connection
from windlass.store.records import ClaimedJob, JobFilter

Move = Callable[["World"], Awaitable[object]]
STATEMENTS = 5
"""Of so many statements a page consists at least; each is tried."""


@contextlib.asynccontextmanager
async def before_statement(
    monkeypatch: pytest.MonkeyPatch, n: int, step: Callable[[], Awaitable[object]]
) -> AsyncIterator[None]:
    """While the block lasts, the step is done before the n-th of its statements that ask for rows."""
    asked, fetch = 0, Connection.fetch

    async def hooked(self: Any, query: str, *args: Any, **options: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == n:
            await step()
        return await fetch(self, query, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "fetch", hooked)
        yield
    assert asked >= n


class World(NamedTuple):
    """Jobs of one queue, of which some run, wait, stand aside until their key has its turn, and are due."""

    rig: Rig
    queue: str
    worker: int
    running: list[ClaimedJob]
    ids: set[int]

    @classmethod
    async def made(cls, rig: Rig, queue: str) -> "World":
        worker = await rig.worker()
        ids = await rig.add(*["a"] * 3, queue=queue)
        running = await rig.claim(worker, queue)
        for n in range(3):
            ids.append((await rig.one("later", delay=5, queue=queue)).id)
            ids += await rig.add("b", queue=queue)
            ids.append((await rig.one("held", fair_key=f"k{n}", queue=queue)).id)
        await rig.clock.advance(10)
        return cls(rig, queue, worker, running, set(ids))


async def promote(world: World) -> None:
    """Those that are due or held go to the top of their lane."""
    await world.rig.store.promote()


async def start(world: World) -> None:
    """Those go there, and all begin to run."""
    await world.rig.store.promote()
    await world.rig.claim(world.worker, world.queue)


async def fail(world: World) -> None:
    """Those that run go aside: some will be tried again, one is dead."""
    await world.rig.finish(world.worker, world.running[1:], Kind.RETRY, delay=60.0, error=failure())
    await world.rig.finish(world.worker, world.running[:1], Kind.DEAD, error=failure())


async def release(world: World) -> None:
    """Those that run are offered again, at the top of their lane."""
    await world.rig.finish(world.worker, world.running, Kind.RELEASED)


@pytest.mark.parametrize("move", [promote, start, fail, release])
async def test_a_page_misses_no_job_that_moves_between_its_statements(
    alone: Base, monkeypatch: pytest.MonkeyPatch, move: Move
) -> None:
    """[S5] A page was put together from statements with a snapshot each: a job that went from one table to
    another between two of them was in neither."""
    rig = Rig(await alone.store(), await alone.clock(), "postgres")
    for n in range(1, STATEMENTS + 1):
        world = await World.made(rig, f"q{n}")
        async with before_statement(monkeypatch, n, lambda: move(world)):  # noqa: B023
            page = await rig.store.jobs(JobFilter(queue=world.queue), 100)
        assert {job.id for job in page.jobs} == world.ids, n
        assert {job.id for job in await rig.listing(queue=world.queue)} == world.ids


@pytest.mark.parametrize("move", [promote, start, fail, release])
async def test_a_count_and_a_bulk_action_miss_none_either(
    alone: Base, monkeypatch: pytest.MonkeyPatch, move: Move
) -> None:
    """[S5] They were put together from pages, of which each saw another moment."""
    monkeypatch.setattr("windlass.store.postgres.listing_walk.MAX_ROWS", 3)
    monkeypatch.setattr("windlass.store.postgres.listing_walk.FEW_ROWS", 1)
    monkeypatch.setattr("windlass.store.postgres.listing.MAX_ROWS", 3)
    rig = Rig(await alone.store(), await alone.clock(), "postgres")
    for n in (1, 2, 3, 4, 6, 9, 12):
        world = await World.made(rig, f"q{n}")
        async with before_statement(monkeypatch, n, lambda: move(world)):  # noqa: B023
            assert await walks.count(rig.store, JobFilter(queue=world.queue)) == walks.Count(len(world.ids))
        world = await World.made(rig, f"r{n}")
        async with before_statement(monkeypatch, n, lambda: move(world)):  # noqa: B023
            answers = await walks.apply(
                Ops(Windlass(), rig.store, CODE), JobFilter(queue=world.queue), "cancel"
            )
        assert sum(answers.values()) == len(world.ids), n
        assert "not_found" not in answers


async def test_a_job_that_goes_aside_is_on_a_later_page(alone: Base) -> None:
    """[S5] The tables that held none were left out of the cursor: a job that failed before its page was asked
    for was on none."""
    rig = Rig(await alone.store(), await alone.clock(), "postgres")
    worker = await rig.worker()
    ids = await rig.add(*["t"] * 6)
    running = await rig.claim(worker)
    first = await rig.store.jobs(JobFilter(), 2)
    for job, kind in zip(running[:3], (Kind.RETRY, Kind.DEAD, Kind.SUCCEEDED), strict=True):
        await rig.finish(worker, job, kind, delay=60.0, error=failure())
    rest = await rig.store.jobs(JobFilter(), 50, first.cursor)
    assert sorted(job.id for job in (*first.jobs, *rest.jobs)) == ids
    assert rest.cursor is None


async def test_nothing_is_missing_while_jobs_start_and_fail(alone: Base) -> None:
    """[S5] As it was found: jobs of a crowd that starts, fails, waits and starts again; 10 of 87 listings
    lacked some of them."""
    store, other = await alone.store(), await alone.store()
    rig = Rig(store, RealTime(), "postgres")
    worker = await rig.worker()
    ids = set(await rig.add(*["t"] * 60))
    ids |= {(await rig.one("held", fair_key=f"k{n % 7}")).id for n in range(30)}
    ids |= {(await rig.one("later", delay=0.01)).id for _ in range(30)}
    until = time.monotonic() + 1.5

    async def work() -> None:
        while time.monotonic() < until:
            await store.promote()
            claimed = await rig.claim(worker, limit=20)
            await rig.finish(worker, claimed[:10], Kind.RETRY, delay=0.001, error=failure())
            await rig.finish(worker, claimed[10:], Kind.RELEASED)

    looks = 0
    working = asyncio.create_task(work())
    try:
        while not working.done():
            page = await other.jobs(JobFilter(), 200)
            if page.cursor is None:  # in the end there are more rows than a page looks at
                assert {job.id for job in page.jobs} == ids
            assert set((await other.matches(JobFilter(), 200)).ids) == ids
            looks += 1
    finally:
        until = 0.0
        await working
    assert looks > 5


async def test_who_leaves_a_listing_leaves_no_moment_open(
    alone: Base, caplog: pytest.LogCaptureFixture
) -> None:
    """[S5] A moment that stayed open would keep the server from removing anything; the one who left need not
    wait for its end."""
    store = await alone.store()
    holder = await alone.session()
    await holder.begin()
    await holder.run("LOCK TABLE windlass.deferred IN ACCESS EXCLUSIVE MODE")
    looking = asyncio.create_task(store.jobs(JobFilter()))
    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%list_aside%'"
    )
    while await alone.look.value(waits) == 0:
        assert not looking.done()
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(looking, 30.0)  # the lock is held until later
    await asyncio.gather(*store._db._leaving)
    opened = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE state LIKE 'idle in%' AND pid <> $1 AND datname = current_database()"
    )
    assert await alone.look.value(opened, holder.pid) == 0
    await holder.rollback()
    assert (await store.jobs(JobFilter())).jobs == []
    assert not caplog.records


async def test_a_moment_holds_through_a_transaction_pooler(
    alone: Base, pg_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[S5] Two sessions of the server for all clients, which take turns by transaction."""
    rig = Rig(await alone.store(), await alone.clock(), "postgres")
    with pooler(pg_server, alone.dsn, tmp_path, 2) as url:
        store = await alone.store(url)
        for n in range(1, STATEMENTS + 1):
            world = await World.made(rig, f"q{n}")
            async with before_statement(monkeypatch, n, lambda: start(world)):  # noqa: B023
                page = await store.jobs(JobFilter(queue=world.queue), 100)
            assert {job.id for job in page.jobs} == world.ids, n
        await store.close()
