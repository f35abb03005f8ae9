"""What a job costs while many others wait: the rate of one process behind a growing backlog, and, for
Windlass, the time of a single claim."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from typing import Any, Final

from bench import ledger
from bench.ground import Ground, Place
from bench.hands import Hands, PeerFailed
from bench.plan import Plan
from bench.subjects import Subject

CLAIMS: Final = 60
AT_A_TIME: Final = 10


def grown(ground: Ground, subject: Subject, plan: Plan, backlog: int) -> dict[str, Any]:
    """The first jobs behind a backlog of this size."""
    with ground.fresh(subject) as place:
        hands = Hands(subject, place)
        hands.tell("prepare")
        hands.fill(backlog)
        figures: dict[str, Any] = {}
        if subject.name == "windlass":
            figures["claim_ms"] = asyncio.run(_claim_time(place))
        few = max(200, min(int(backlog * 0.4), int(subject.rate * plan.drain / 2)))
        with hands.working():
            if not hands.wait_for(few, 90, still=60) and hands.ran() < 50:
                raise PeerFailed(f"{hands.ran()} of {few} jobs ran; {hands.words()}")
        runs = ledger.records(place.ledger)[:few]
    figures["rate"] = (len(runs) - 1) / max(1e-9, float(runs["at"][-1] - runs["at"][0]))
    return figures


async def _claim_time(place: Place) -> float:
    """Milliseconds of the median claim of ten jobs, by a worker that ends each batch before the next."""
    from windlass.store.factory import make_store
    from windlass.store.records import Outcome, WorkerInfo

    assert place.dsn is not None
    store = make_store(place.dsn)
    await store.open()
    try:
        worker = secrets.randbelow(2**62) + 1
        await store.register(WorkerInfo(id=worker, label="bench", queues=("bench",)))
        took = []
        for flush in range(CLAIMS):
            began = time.perf_counter()
            claims = await store.claim(worker, ["bench"], AT_A_TIME)
            took.append(time.perf_counter() - began)
            jobs = [job for claim in claims for job in claim.jobs]
            await store.finish(worker, flush + 1, [Outcome(job=job, run_ms=1.0) for job in jobs])
        await store.retire(worker)
        return 1000 * statistics.median(took[10:])
    finally:
        await store.close()
