"""What a job costs while many others wait: the rate of one process behind a growing backlog, and, for
Windlass, the time of a single claim."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import statistics
import time
from typing import Any, Final

from bench import ledger
from bench.ground import Ground, Place
from bench.hands import Hands, PeerFailed
from bench.plan import Plan
from bench.subjects import Subject

CLAIMS: Final = 90
AT_A_TIME: Final = 10


def grown(ground: Ground, subject: Subject, plan: Plan, backlog: int) -> dict[str, Any]:
    """The first jobs behind a backlog of this size."""
    with ground.fresh(subject) as place:
        hands = Hands(subject, place)
        hands.tell("prepare")
        hands.fill(backlog)
        few = max(200, min(int(backlog * 0.4), int(subject.rate * plan.drain / 2)))
        with hands.working():
            if not hands.wait_for(few, 90, still=60) and hands.ran() < 50:
                raise PeerFailed(f"{hands.ran()} of {few} jobs ran; {hands.words()}")
        runs = ledger.records(place.ledger)[:few]
    return {"rate": (len(runs) - 1) / max(1e-9, float(runs["at"][-1] - runs["at"][0]))}


def claims(ground: Ground, subject: Subject, plan: Plan) -> dict[str, Any]:
    """The time of a single claim, by the number of jobs that wait. All backlogs stand beside each other, and
    are claimed from in turns: so the machine is as quick or slow for one as for the next."""
    with contextlib.ExitStack() as stack:
        places = {}
        for size in sorted((*plan.backlogs, *plan.own_backlogs)):
            places[size] = place = stack.enter_context(ground.fresh(subject))
            hands = Hands(subject, place)
            hands.tell("prepare")
            hands.fill(size)
        return {str(size): took for size, took in asyncio.run(_claim_times(places)).items()}


async def _claim_times(places: dict[int, Place]) -> dict[int, float]:
    """Milliseconds of the median claim of ten jobs, by a worker that ends each batch before the next."""
    from windlass.store.factory import make_store
    from windlass.store.records import Outcome, WorkerInfo

    worker = secrets.randbelow(2**62) + 1
    took: dict[int, list[float]] = {size: [] for size in places}
    async with contextlib.AsyncExitStack() as stack:
        stores = {}
        for size, place in places.items():
            assert place.dsn is not None
            stores[size] = store = make_store(place.dsn)
            await store.open()
            stack.push_async_callback(store.close)
            await store.register(WorkerInfo(id=worker, label="bench", queues=("bench",)))
        for flush in range(CLAIMS):
            for size, store in stores.items():
                began = time.perf_counter()
                claimed = await store.claim(worker, ["bench"], AT_A_TIME)
                took[size].append(time.perf_counter() - began)
                jobs = [job for claim in claimed for job in claim.jobs]
                await store.finish(worker, flush + 1, [Outcome(job=job, run_ms=1.0) for job in jobs])
    return {size: 1000 * statistics.median(each[10:]) for size, each in took.items()}
