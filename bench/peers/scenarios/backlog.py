"""What a job costs while many others wait: the rate of one process behind a growing backlog, and, for
Windlass, the time of a single claim."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from typing import Any, Final

from bench.engine.bare_worker import BareWorker
from bench.peers import ledger
from bench.peers.plan import Plan
from bench.peers.program import PeerFailed, Program
from bench.peers.subjects import Subject
from bench.servers import Place, Servers
from windlass.store.factory import make_store

CLAIMS: Final = 90
AT_A_TIME: Final = 10


def grown(servers: Servers, subject: Subject, plan: Plan, backlog: int) -> dict[str, Any]:
    """The first jobs behind a backlog of this size."""
    with servers.fresh(subject.store) as place:
        program = Program(subject, place)
        program.tell("prepare")
        program.fill(backlog)
        few = max(200, min(int(backlog * 0.4), int(subject.rate * plan.drain / 2)))
        with program.working():
            if not program.wait_for(few, 90, still=60) and program.ran() < 50:
                raise PeerFailed(f"{program.ran()} of {few} jobs ran; {program.words()}")
        runs = ledger.records(place.ledger)[:few]
    return {"rate": (len(runs) - 1) / max(1e-9, float(runs["at"][-1] - runs["at"][0]))}


def claims(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """The time of a single claim, by the number of jobs that wait. All backlogs stand beside each other, and
    are claimed from in turns: so the machine is as quick or slow for one as for the next."""
    with contextlib.ExitStack() as stack:
        places = {}
        for size in sorted((*plan.backlogs, *plan.own_backlogs)):
            places[size] = place = stack.enter_context(servers.fresh(subject.store))
            program = Program(subject, place)
            program.tell("prepare")
            program.fill(size)
        return {str(size): took for size, took in asyncio.run(_claim_times(places)).items()}


async def _claim_times(places: dict[int, Place]) -> dict[int, float]:
    """Milliseconds of the median claim of ten jobs, by a worker that ends each batch before the next."""
    took: dict[int, list[float]] = {size: [] for size in places}
    async with contextlib.AsyncExitStack() as stack:
        workers = {}
        for size, place in places.items():
            store = make_store(place.url)
            await store.open()
            stack.push_async_callback(store.close)
            workers[size] = BareWorker(store, "bench", AT_A_TIME)
            await workers[size].register()
        for _ in range(CLAIMS):
            for size, worker in workers.items():
                began = time.perf_counter()
                claimed = await worker.claim()
                took[size].append(time.perf_counter() - began)
                await worker.finish(claimed)
    return {size: 1000 * statistics.median(each[10:]) for size, each in took.items()}
