"""The eight checks that a plan for a queue on `SELECT … FOR UPDATE SKIP LOCKED` sets itself, against the
stores that are there instead. Each test is named after its check.

Time is moved by hand where a check is about rates, so that what is counted is exact.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.chaos.figures import Figure
from tests.conformance.kit import Clock, HandClock, Rig, ServerClock
from tests.stopwatch import within
from windlass.cluster import duties
from windlass.core.flow.bucket import AHEAD
from windlass.core.histogram import bucket
from windlass.core.states import Kind, Priority, State
from windlass.errors import QueueFull, Shed
from windlass.store.fields import NewBudget
from windlass.store.postgres import PostgresStore
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Need, Runs
from windlass.store.sqlite import SQLiteStore

CALM = 10.0
"""Seconds that no call may take, however many others there are."""


class Floor:
    """One database, and as many stores on it as there are workers; each is one process's view of it."""

    def __init__(self, where: str | Path, clock: Clock) -> None:
        self._where = where
        self.clock = clock
        self.stores: list[Store] = []

    async def rig(self) -> Rig:
        """Another store."""
        store: Store
        if isinstance(self._where, str):
            store = PostgresStore(self._where, head_cache=0.0)
        else:
            assert isinstance(self.clock, HandClock)
            store = SQLiteStore(self._where, clock=self.clock)
            await store.migrate()
        await store.open()
        self.stores.append(store)
        return Rig(store, self.clock, "")


@pytest.fixture(params=["postgres", "sqlite"])
async def floor(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Floor]:
    """An empty database of each kind, whose clock the test moves."""
    clock: ServerClock | HandClock
    if request.param == "postgres":
        dsn = request.getfixturevalue("pg_dsn")
        clock = ServerClock(dsn)
        await clock.install()
        opened = Floor(dsn, clock)
    else:
        clock = HandClock()
        opened = Floor(tmp_path / "jobs.db", clock)
    yield opened
    for store in opened.stores:
        await store.close()
    if isinstance(clock, ServerClock):
        await clock.close()


class Hand(NamedTuple):
    """A worker with a store of its own."""

    rig: Rig
    id: int

    async def claim(self, limit: int) -> list[ClaimedJob]:
        async with within(CALM):
            return await self.rig.claim(self.id, limit=limit)

    async def run(self, limit: int) -> list[int]:
        """Claim some jobs and end them well."""
        claimed = await self.claim(limit)
        if claimed:
            async with within(CALM):
                finished = await self.rig.finish(self.id, claimed)
            assert finished.applied == len(claimed)
        return [each.id for each in claimed]


async def hands(floor: Floor, n: int) -> list[Hand]:
    """So many workers."""
    rigs = [await floor.rig() for _ in range(n)]
    return [Hand(rig, await rig.worker("default")) for rig in rigs]


async def test_1_ten_jobs_over_three_workers_run_once_each(floor: Floor) -> None:
    """[C1] However they take turns."""
    crew = await hands(floor, 3)
    ids = await crew[0].rig.add(*(["t"] * 10))
    seen: list[int] = []
    for hand in itertools.islice(itertools.cycle(crew), 12):
        seen += await hand.run(1)
    assert sorted(seen) == sorted(ids)
    assert (await crew[0].rig.depth()).ready == 0


async def test_2_five_rapid_workers_neither_block_nor_deadlock(floor: Floor, figure: Figure) -> None:
    """[C1] All at once and as fast as they can: no error, no call that stands still, each job once."""
    crew = await hands(floor, 5)
    ids = await crew[0].rig.add(*(["t"] * 600))
    seen: Counter[int] = Counter()
    longest = 0.0

    async def work(hand: Hand) -> None:
        nonlocal longest
        while len(seen) < len(ids):
            began = time.monotonic()
            seen.update(await hand.run(7))
            longest = max(longest, time.monotonic() - began)

    async with asyncio.TaskGroup() as group:
        for hand in crew:
            group.create_task(work(hand))
    figure("the longest claim and its end, ms", longest * 1000)
    assert seen == Counter(ids)


async def test_3_a_claimed_job_is_invisible_to_others(floor: Floor) -> None:
    """[C1] And holds up nobody: the next job is given out beside it."""
    one, other = await hands(floor, 2)
    first, second = await one.rig.add("t", "t")
    assert [each.id for each in await one.claim(1)] == [first]
    assert [each.id for each in await other.claim(10)] == [second]
    assert await other.claim(10) == []
    assert (await other.rig.look(first)).state is State.RUNNING


async def test_4_a_finished_job_is_gone_from_the_queue(floor: Floor) -> None:
    """[C1] For everybody, at once."""
    one, other = await hands(floor, 2)
    (id,) = await one.rig.add("t")
    assert await one.run(1) == [id]
    assert await one.claim(10) == await other.claim(10) == []
    depth = await other.rig.depth()
    assert (depth.ready, depth.running) == (0, 0)
    assert (await other.rig.look(id)).state is State.SUCCEEDED


class Upstream:
    """A queue with a governor, and a service behind it that does well or fails, as the test says."""

    WINDOW = 2.0
    STEPS = 10

    def __init__(self, rig: Rig, worker: int) -> None:
        self.rig = rig
        self.worker = worker

    async def window(self, *, failing: bool = False) -> int:
        """How many jobs a window gives out; its runs are told of, and the governor decides on the next."""
        ran = 0
        for _ in range(self.STEPS):
            await self.rig.clock.advance(self.WINDOW / self.STEPS)
            claimed = await self.rig.claim(self.worker)
            if claimed:
                await self.rig.finish(self.worker, claimed, Kind.DEAD if failing else Kind.SUCCEEDED)
            ran += len(claimed)
        failed = ran if failing else 0
        runs = Runs(succeeded=ran - failed, failed=failed, times={bucket(10.0): ran} if ran else {})
        await self.rig.store.count_runs({"default": runs})
        await duties.govern(self.rig.store, await self.rig.lead(1))
        return ran


async def test_5_depth_raises_the_throughput_and_a_failing_upstream_lowers_it(
    floor: Floor, figure: Figure
) -> None:
    """[F2] Whatever the depth is, once the upstream fails."""
    rig = await floor.rig()
    upstream = Upstream(rig, await rig.worker("default"))
    await rig.store.set_queue("default", {"governor": True, "rate_min": 1.0, "rate_max": 100.0})

    await rig.add(*(["t"] * 3))
    shallow = [await upstream.window() for _ in range(3)]
    (still,) = await rig.store.queues()
    await rig.add(*(["t"] * 800))
    healthy = [await upstream.window() for _ in range(6)]
    failing = [await upstream.window(failing=True) for _ in range(4)]
    figure("jobs a window, deep and healthy", str(healthy))
    figure("jobs a window, deep and failing", str(failing))

    assert sum(shallow) == 3
    assert still.why == "nothing waits"
    assert healthy == sorted(healthy)
    assert healthy[-1] >= 3 * healthy[0]
    # The first failing window is given out at the rate of the last healthy one; it is judged after it.
    assert failing[-1] <= failing[0] / 4
    assert failing[1:] == sorted(failing[1:], reverse=True)
    assert (await rig.depth()).ready > 100


async def test_6_producers_are_told_of_pressure_beyond_the_threshold(floor: Floor) -> None:
    """[F4] From 70 % of the depth on, each receipt says how full the queue is; the jobs are taken."""
    rig = await floor.rig()
    await rig.store.set_queue("default", {"max_depth": 10})
    hints = [(await rig.one()).pressure for _ in range(9)]
    assert hints[:7] == [None] * 7
    assert hints[7:] == [pytest.approx(share) for share in (0.7, 0.8)]
    (queue,) = await rig.store.queues()
    assert (queue.pressure, (await rig.depth()).ready) == ("soft", 9)


async def test_7_new_jobs_are_refused_when_saturated(floor: Floor) -> None:
    """[F4] [F5] With when to come back, counted, and only until there is room again."""
    rig = await floor.rig()
    worker = await rig.worker("default")
    await rig.store.set_queue("default", {"max_depth": 10})
    await rig.add(*(["t"] * 10))
    with pytest.raises(QueueFull) as full:
        await rig.one()
    assert full.value.status == 429
    assert full.value.retry_after > 0
    assert (await rig.one(priority=Priority.URGENT)).id  # finds room until 120 %
    await rig.finish(worker, await rig.claim(worker, limit=5))
    assert (await rig.one()).id  # 60 %

    await rig.store.set_queue("default", {"max_depth": None, "shed_depth": 7})
    with pytest.raises(Shed) as shed:
        await rig.one()
    assert shed.value.status == 503
    assert shed.value.level >= 1.0
    assert (await rig.one(priority=Priority.URGENT)).id
    (queue,) = await rig.store.queues()
    assert (queue.refused, queue.shed) == (1, 1)


async def test_8_a_bucket_of_ten_a_second_is_held(floor: Floor, figure: Figure) -> None:
    """[F1] Three workers that ask as often as they can, and somebody by hand: over ten seconds they get what
    has grown and the burst, no more, and no less than that but for a token. A claim may book what comes in a
    moment."""
    crew = await hands(floor, 3)
    rig = crew[0].rig
    await rig.store.declare_budget(NewBudget(name="ten", rate=10.0, burst=10))
    await rig.add(*(["t"] * 150))
    began = await rig.store.now()
    granted, worst = 0, float("-inf")
    asked, grown = began, 10.0
    for half in range(21):
        await rig.clock.advance(0.5 if half else 0.0)
        await rig.store.promote()
        before, asked = asked, await rig.store.now()
        grown += 10.0 * min(1.0, asked - before)  # a full bucket does not grow, on a slow machine
        for hand in crew:
            claims = await hand.rig.store.claim(hand.id, ["default"], 100, {"t": [Need("ten")]})
            jobs = [each for claim in claims for each in claim.jobs]
            granted += len(jobs)
            if jobs:
                await hand.rig.finish(hand.id, jobs)
        granted += (await rig.store.take("ten", 1)).granted
        worst = max(worst, granted - 10.0 * (await rig.store.now() - began + AHEAD) - 10)
    figure("granted beyond what it may, at the worst moment", worst)
    assert worst <= 0.0
    assert granted >= grown - 2
