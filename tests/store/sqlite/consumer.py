"""A process that claims and finishes jobs of the default queue and prints each id it has finished, until
there have been none for a second."""

import asyncio
import secrets
import sys

from tests.store.sqlite.kit import opened
from windlass.store.records import Outcome, WorkerInfo


async def main(path: str, limit: int) -> None:
    """Claim, finish, tell."""
    worker = secrets.randbits(62)
    async with opened(path) as store:
        await store.register(WorkerInfo(id=worker))
        flush = 0
        while await store.wait(["default"], 1.0):
            for claim in await store.claim(worker, ["default"], limit):
                flush += 1
                await store.finish(worker, flush, [Outcome(job=job) for job in claim.jobs])
                sys.stdout.write("".join(f"{job.id}\n" for job in claim.jobs))
                sys.stdout.flush()
        await store.retire(worker)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
