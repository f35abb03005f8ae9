"""A process that takes tokens by hand as fast as it can, in rushes, and writes down each grant [F1].

    python -m tests.chaos.workers.takers URL LEDGER SEED

An entry of the ledger has the moments before and after the call: the token was granted in between. It is with
the system before the next call, so a kill takes none away.
"""

import asyncio
import contextlib
import random
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from windlass import Windlass
from windlass.errors import BudgetTimeout

BUDGET, RATE, BURST = "by-hand", 2000.0, 400
ENTRY = struct.Struct("dd")


def take(url: str, ledger: Path, dice: random.Random) -> None:
    """Until somebody ends it."""
    app = Windlass(url)
    budget = app.budget(BUDGET, rate=RATE, burst=BURST)
    with ledger.open("ab", buffering=0) as file:
        while True:
            with contextlib.suppress(BudgetTimeout):
                for _ in range(dice.randint(1, 300)):
                    before = time.monotonic()
                    budget.acquire(timeout=0)
                    file.write(ENTRY.pack(before, time.monotonic()))
            time.sleep(dice.choice([0.0, 0.002, 0.02, 0.045, 0.2]))  # how often it rushes


def grants(ledger: Path) -> list[tuple[float, float]]:
    """What was written."""
    content = ledger.read_bytes()
    return list(ENTRY.iter_unpack(content[: len(content) // ENTRY.size * ENTRY.size]))


async def more_grants(ledger: Path, n: int, within: float = 60.0) -> None:
    """Wait until so many more were written."""
    wanted = len(grants(ledger)) + n
    async with asyncio.timeout(within):
        while len(grants(ledger)) < wanted:  # noqa: ASYNC110 - other processes write it
            await asyncio.sleep(0.02)


def windows(found: list[tuple[float, float]]) -> Iterator[tuple[float, float, int]]:
    """Windows of time, and how many tokens were certainly granted within: by calls that began and ended
    there."""
    by_end = sorted(found, key=lambda each: each[1])
    for start, _ in sorted(found)[:: max(1, len(found) // 400)]:
        count = 0
        for before, after in by_end:
            if before >= start:
                count += 1
                yield start, after, count


if __name__ == "__main__":
    take(sys.argv[1], Path(sys.argv[2]), random.Random(int(sys.argv[3])))
