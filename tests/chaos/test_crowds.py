"""[fault 13] One million ready jobs; a crowd behind one key; a paused queue that is full. The time of a claim
is flat, other queues and keys are not affected, segments are still reclaimed, and nothing is lost.
(Concurrency keys come with a later stage; the crowd behind one key is a fair key here [C3].)
"""

import asyncio
import time

import pytest

from tests.chaos.figures import Figure, high, median
from tests.chaos.kit import Worker, connected, depth_is_a_scan, fill, job, opened, sized
from tests.stopwatch import Stopwatch
from windlass.store.postgres import PostgresStore
from windlass.store.records import Options, Rotation

FLAT = 2.5
"""How much longer the median claim may take; a plan that scans would be a hundred times off."""


async def claim_times(workers: dict[str, Worker], rounds: int, limit: int = 50) -> dict[str, list[float]]:
    """Milliseconds of claims from each queue in turn."""
    times: dict[str, list[float]] = {queue: [] for queue in workers}
    for _ in range(rounds):
        for queue, worker in workers.items():
            began = time.monotonic()
            jobs = await worker.claim(queue, limit=limit)
            times[queue].append((time.monotonic() - began) * 1000)
            assert len(jobs) == limit
            await worker.finish(jobs)
            await worker.store.enqueue([job(queue=queue)] * limit)
    return times


async def crowd(dsn: str, n: int, rounds: int, figure: Figure) -> None:
    """A queue of a thousand beside one of n, both kept at their size."""
    async with opened(dsn, head_cache=60.0) as a, opened(dsn, head_cache=60.0) as b:
        await fill(a, 1_000, queue="small")
        began = time.monotonic()
        await fill(b, n, queue="large")
        figure("bulk enqueue, jobs a second", n / (time.monotonic() - began))
        workers = {"small": await Worker.registered(a), "large": await Worker.registered(b)}
        times = await claim_times(workers, rounds)
        ratio = median(times["large"]) / median(times["small"])
        figure(f"claim of {n:,} ÷ claim of 1,000, medians", ratio)
        figure("claim of the large one, p99 ms", high(times["large"]))
        began = time.monotonic()
        depth = (await a.depth())["large"]
        figure("depth, ms", (time.monotonic() - began) * 1000)
        assert depth.ready == n
        assert ratio <= FLAT


@sized("n, rounds", (200_000, 60), (1_000_000, 500))
async def test_many_ready_jobs(pg_dsn: str, figure: Figure, n: int, rounds: int) -> None:
    await crowd(pg_dsn, n, rounds, figure)


async def behind_one_key(dsn: str, n: int, figure: Figure) -> None:
    """n jobs of one fair key wait; a job of another key is among the next ones admitted, whatever n is."""
    async with opened(dsn) as store, connected(dsn) as connection:
        await store.set_queue("fair", {"window": 10})
        await fill(store, 1, queue="fair")
        call = "windlass.enqueue('t', queue => 'fair', fair_key => 'big')"
        sql = f"SELECT count({call}) FROM generate_series(1, $1)"
        assert await connection.fetchval(sql, n, timeout=600) == n
        worker = await Worker.registered(store)
        steps: list[float] = []
        waits = [await claims_until_served(worker, Options(fair_key=f"key {i}"), steps) for i in range(20)]
        figure("claims of ten until another key had its turn, at most", max(waits))
        assert max(waits) <= 3
        figure("one promotion beside the crowd, median ms", median(steps))
        await depth_is_a_scan(store, dsn)


async def claims_until_served(worker: Worker, options: Options, steps: list[float]) -> int:
    """How many claims it takes until a job with these options is among them; each promotion is timed."""
    (other,) = await worker.store.enqueue([job(queue="fair", options=options)])
    for n in range(1, 10):
        began = time.monotonic()
        await worker.store.promote()
        steps.append((time.monotonic() - began) * 1000)
        jobs = await worker.claim("fair", limit=10)
        await worker.finish(jobs)
        if other.id in {j.id for j in jobs}:
            return n
    raise AssertionError("the other key waits behind the crowd")


@sized("n", (5_000,), (100_000,))
async def test_a_crowd_behind_one_key(pg_dsn: str, figure: Figure, n: int) -> None:
    await behind_one_key(pg_dsn, n, figure)


async def test_finished_claims_do_not_slow_a_look_at_the_running_ones(pg_dsn: str, figure: Figure) -> None:
    """[rule 8] [C8] What a worker holds is found among many claims that it has finished since its last
    heartbeat; a rescue rests on that. In the wrong order of joins this took time in the square of them."""
    async with opened(pg_dsn, head_cache=60.0) as store:
        await fill(store, 800)
        worker = await Worker.registered(store)
        for _ in range(600):
            await worker.finish(await worker.claim(limit=1))
        running = await worker.claim(limit=3)
        began, watch = time.monotonic(), Stopwatch()
        (claim,) = await store.unfinished(worker.id)
        took = time.monotonic() - began
        figure("ms to find them among 600 finished claims", took * 1000)
        assert claim.jobs == running
        assert took < 0.5 + watch.lost()


async def turn(store: PostgresStore, over: asyncio.Event) -> list[Rotation]:
    """Turn the ring until it has gone round."""
    made: list[Rotation] = []
    try:
        while sum(rotation.reclaimed for rotation in made) < 10:
            made.append(await store.rotate(force=True))
            assert len(made) < 100, f"the ring stands still: {made[-1].blocked}"
    finally:
        over.set()
    return made


async def paused(dsn: str, n: int, figure: Figure) -> None:
    """A full queue is paused, another one works, and the ring turns: each row of the full one moves."""
    async with opened(dsn, head_cache=1.0) as store, opened(dsn) as keeper:
        full = await fill(store, n, queue="full")
        await store.set_queue("full", {"paused": True})
        await fill(store, 500, queue="busy")
        worker = await Worker.registered(store)
        over = asyncio.Event()
        turning = asyncio.create_task(turn(keeper, over))
        times, watch = list[float](), Stopwatch()
        while not over.is_set():
            times += (await claim_times({"busy": worker}, 5))["busy"]
        made, lost = await turning, watch.lost()
        assert not await worker.claim("full")
        assert sum(rotation.moved for rotation in made) >= n
        assert not sum(rotation.offered_again for rotation in made)
        assert (await store.depth())["full"].ready == n
        figure("segments reclaimed", sum(rotation.reclaimed for rotation in made))
        figure("rows moved", sum(rotation.moved for rotation in made))
        figure("claim from the other queue meanwhile, median ms", median(times))
        figure("claim from the other queue meanwhile, longest ms", max(times))
        assert max(times) < 2000 + lost * 1000, "a claim stood still while the ring turned"
        await store.set_queue("full", {"paused": False})
        assert await worker.drain("full", limit=2000) == full, "not every job, not once, or not in order"
        await depth_is_a_scan(store, dsn)


@pytest.mark.slow
@sized("n", (20_000,), (300_000,))
async def test_a_paused_full_queue(pg_dsn: str, figure: Figure, n: int) -> None:
    """Each of the ten turns moves all of it: in a soak, three million rows."""
    await paused(pg_dsn, n, figure)
