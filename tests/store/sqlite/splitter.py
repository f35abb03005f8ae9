"""A process that splits job after job into many parts and prints the id of each it has split. Runs until it
is killed."""

import asyncio
import itertools
import secrets
import sys

from tests.store.sqlite.kit import job, opened
from windlass.store.records import PartPlan, Plan, WorkerInfo


async def main(path: str, parts: int) -> None:
    """Enqueue, claim, split, tell."""
    worker = secrets.randbits(62)
    plan = Plan(parts=[PartPlan(str(n), 1) for n in range(parts)], parallel=20)
    async with opened(path) as store:
        await store.register(WorkerInfo(id=worker))
        for flush in itertools.count(1):
            queue = f"splits-{flush}"
            await store.enqueue([job(chunked=True, queue=queue)])
            (claim,) = await store.claim(worker, [queue], 1)
            await store.split(worker, flush, claim.jobs[0], plan)
            sys.stdout.write(f"{claim.jobs[0].id}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
