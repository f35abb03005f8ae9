"""[fault 13] A crowd behind one key, and a paused queue that is full: jobs of other keys and other queues are
claimed as fast as if there were neither, and segments are still reclaimed [F3] [K6].

Two databases, one with the crowd and one with a single job that waits, are asked in turn. The crowd behind a
fair key and the million ready jobs are in `test_crowds`.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.chaos.figures import Figure, median
from tests.chaos.kit import sized
from tests.conformance.kit import HandClock, Rig, job
from tests.postgres import Server
from windlass.store.postgres import PostgresStore
from windlass.store.protocol import Store
from windlass.store.records import Rotation
from windlass.store.sqlite import SQLiteStore

AS_FAST = 0.8
"""The speed beside the crowd ÷ the speed without it, at least, where the test has the machine to itself."""

IN_COMPANY = 0.6
"""The same where other tests have the other core: pairs a few milliseconds long are a quarter apart there."""

TRIES = 4
"""How often it is measured at most: the machine is shared, and a line that is scanned is slow every time."""

BATCH = 20
CROWDED = "crowded"
"""The key that the crowd stands behind."""


class Side:
    """One database and a worker on it."""

    def __init__(self, rig: Rig, worker: int) -> None:
        self.rig = rig
        self.worker = worker
        self.times: list[float] = []
        self._keys = itertools.count()

    async def round(self) -> None:
        """Jobs of keys that nobody else has, and plain ones of another queue: let in, claimed, ended. What
        it takes from their commit to their claim is noted."""
        store = self.rig.store
        await store.enqueue([job(concurrency_key=f"key {next(self._keys)}") for _ in range(BATCH)])
        await store.enqueue([job(queue="other")] * BATCH)
        began = time.perf_counter()
        await store.promote()
        claimed = await self.rig.claim(self.worker, "default", "other", limit=2 * BATCH)
        self.times.append(time.perf_counter() - began)
        assert len(claimed) == 2 * BATCH
        await self.rig.finish(self.worker, claimed)

    async def crowd(self, n: int, full: int) -> None:
        """n jobs behind one key, of which one runs, and a paused queue with so many."""
        store = self.rig.store
        await store.set_queue("full", {"paused": True})
        for start in range(0, n, 2500):
            await store.enqueue([job(concurrency_key=CROWDED)] * min(2500, n - start))
        for start in range(0, full, 2500):
            await store.enqueue([job(queue="full")] * min(2500, full - start))
        await store.promote()
        assert len(await self.rig.claim(self.worker)) == 1  # and runs for as long as all of this lasts


@asynccontextmanager
async def side(store: Store) -> AsyncIterator[Side]:
    """A store with a worker on it."""
    await store.open()
    try:
        rig = Rig(store, HandClock(), "")
        yield Side(rig, await rig.worker("default", "other"))
    finally:
        await store.close()


async def compared(crowded: Side, empty: Side, rounds: int, least: float, figure: Figure) -> None:
    """The same rounds on both, in turn."""
    ratios: list[float] = []
    while not ratios or (ratios[-1] < least and len(ratios) < TRIES):
        crowded.times, empty.times = [], []
        for number in range(rounds):
            for each in (crowded, empty) if number % 2 else (empty, crowded):
                await each.round()
        ratios.append(median(empty.times) / median(crowded.times))
    figure("speed of the others beside the crowd ÷ without", ratios[-1])
    figure("commit → claimed, without, median ms", median(empty.times) * 1000)
    figure("commit → claimed, beside the crowd, median ms", median(crowded.times) * 1000)
    assert ratios[-1] >= least, f"the others are slow beside the crowd: {ratios}"


async def the_next_one_comes(crowded: Side, n: int, full: int) -> None:
    """Nobody of the crowd is lost, and the next of it comes when there is room."""
    rig = crowded.rig
    depth = await rig.depth()
    assert (depth.ready, depth.running) == (n - 1, 1)
    assert (await rig.depth("full")).ready == full
    (claim,) = await rig.store.unfinished(crowded.worker)
    await rig.finish(crowded.worker, claim.jobs)
    await rig.store.promote()
    (following,) = await rig.claim(crowded.worker)
    assert following.options.concurrency_key == CROWDED


async def turned(store: Store, segments: int, figure: Figure) -> None:
    """The logs turn with the lines in place: so many segments are reclaimed."""
    began, made = time.monotonic(), list[Rotation]()
    while sum(rotation.reclaimed for rotation in made) < segments:
        made.append(await store.rotate(force=True))
        assert len(made) < 10 * segments, f"the ring stands still: {made[-1].blocked}"
    figure("segments reclaimed", segments)
    figure("that took, s", time.monotonic() - began)


async def on_postgres(
    server: Server, template: str, n: int, full: int, rounds: int, least: float, segments: int, figure: Figure
) -> None:
    names = [server.create_database(template=template) for _ in range(2)]
    try:
        one, other = (PostgresStore(server.dsn(name)) for name in names)
        async with side(one) as crowded, side(other) as empty:
            await crowded.crowd(n, full)
            await empty.crowd(2, 0)
            await compared(crowded, empty, rounds, least, figure)
            await turned(one, segments, figure)
            await the_next_one_comes(crowded, n, full)
    finally:
        for name in names:
            await asyncio.to_thread(server.drop_database, name)


async def on_sqlite(folder: Path, n: int, rounds: int, least: float, figure: Figure) -> None:
    stores = [SQLiteStore(folder / f"{name}.db") for name in ("crowded", "empty")]
    for store in stores:
        await store.migrate()
    async with side(stores[0]) as crowded, side(stores[1]) as empty:
        await crowded.crowd(n, n)
        await empty.crowd(2, 0)
        await compared(crowded, empty, rounds, least, figure)
        await stores[0].rotate(force=True)
        await the_next_one_comes(crowded, n, n)


@sized("sizes", ((20_000, 10_000, 40, IN_COMPANY, 3),), ((100_000, 100_000, 500, AS_FAST, 10),))
async def test_fault_13_a_crowd_and_a_full_queue_slow_nobody(
    pg_server: Server, pg_template: str, figure: Figure, sizes: tuple[int, int, int, float, int]
) -> None:
    await on_postgres(pg_server, pg_template, *sizes, figure)


@sized("sizes", ((20_000, 40, IN_COMPANY),), ((100_000, 500, AS_FAST),))
async def test_fault_13_on_sqlite(tmp_path: Path, figure: Figure, sizes: tuple[int, int, float]) -> None:
    await on_sqlite(tmp_path, *sizes, figure)
