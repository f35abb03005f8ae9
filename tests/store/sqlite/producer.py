"""A process that enqueues single jobs and prints each id once it is acknowledged. Runs until it is killed, or
for as many jobs as it is told."""

import asyncio
import itertools
import sys

from tests.store.sqlite.kit import job, opened


async def main(path: str, count: int) -> None:
    """Four tasks at once, so that calls share transactions."""
    numbers = itertools.count()
    async with opened(path) as store:

        async def produce() -> None:
            while (number := next(numbers)) < count:
                (receipt,) = await store.enqueue([job(payload=f'{{"n": {number}}}')])
                sys.stdout.write(f"{receipt.id}\n")
                sys.stdout.flush()

        await asyncio.gather(*(produce() for _ in range(4)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
