"""A process with several claimers. Each claims, runs (which is to write it down) and ends its jobs: most of
them well, the others in every way that brings a job back. Flushes are split, and some are sent twice. Now and
then a claimer dies with its jobs in hand, comes back under a new id and has the old one rescued.

Started by `tests.chaos.program`, which says how it gets its orders.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.chaos.kit import Worker, opened
from tests.chaos.ledger import Ledger
from tests.chaos.program import orders, patiently, stopped
from windlass.core.retry import Backoff, DeathPolicy
from windlass.core.states import Kind
from windlass.errors import StoreUnavailable
from windlass.store.postgres import PostgresStore
from windlass.store.records import Claim, ClaimedJob, Finished, Outcome

NO_POISON = DeathPolicy(poison=50, backoff=Backoff(base=0.0))


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is told to do."""

    dsn: str
    ledger: str
    seed: int
    queues: list[str]
    claimers: int = 2
    limits: tuple[int, ...] = (1, 5, 20, 100)
    unfinished: float = 0.06
    """The share of attempts that bring the job back."""
    twice: float = 0.05
    dies: float = 0.01
    slow: float = 0.05


class Claimer:
    """One claimer with its own store, as a worker process has."""

    def __init__(self, orders: Orders, store: PostgresStore, ledger: Ledger, seed: int) -> None:
        self.orders = orders
        self.store = store
        self.ledger = ledger
        self.dice = random.Random(seed)
        self.worker = Worker(store)

    async def run(self, stop: asyncio.Event) -> None:
        await patiently(self._begin)
        while not stop.is_set():
            claims = await self._claim()
            if not claims:
                await patiently(lambda: self.store.wait(self.orders.queues, 0.1), stop)
            elif sum(len(claim.jobs) for claim in claims) <= 5 and self.dice.random() < self.orders.dies:
                await self._die([job for claim in claims for job in claim.jobs])
            else:
                if self.dice.random() < self.orders.slow:
                    await asyncio.sleep(self.dice.uniform(0.2, 1.0))  # the jobs run; the logs turn meanwhile
                await self._end([self._outcome(job) for claim in claims for job in claim.jobs])
                if self.dice.random() < 0.05:
                    await patiently(lambda: self.store.heartbeat(self.worker.id), stop)
        await patiently(lambda: self.store.retire(self.worker.id), stop)

    async def _begin(self) -> None:
        self.worker = await Worker.registered(self.store)

    async def _claim(self) -> list[Claim]:
        """Claim; where the answer was lost, hand back what the store says we hold, for we hold nothing."""
        try:
            claims = await self.worker.claims(*self.orders.queues, limit=self.dice.choice(self.orders.limits))
        except StoreUnavailable:
            held = await patiently(lambda: self.store.unfinished(self.worker.id)) or []
            self.ledger.claimed(self.worker.id, held)
            released = [Outcome(job=job, kind=Kind.RELEASED) for claim in held for job in claim.jobs]
            if released:
                await self._flush(released)
            return []
        self.ledger.claimed(self.worker.id, claims)
        return claims

    async def _die(self, jobs: Sequence[ClaimedJob]) -> None:
        gone = self.worker.id
        await self._begin()
        sent = time.monotonic()
        heartbeat = next(record.heartbeat for record in await self.store.workers() if record.id == gone)
        rescued = await self.store.rescue(gone, heartbeat, NO_POISON)
        assert rescued is not None
        assert rescued.offered == len(jobs)
        self.ledger.taken(gone, [job.id for job in jobs], sent)

    def _outcome(self, job: ClaimedJob) -> Outcome:
        if self.dice.random() >= self.orders.unfinished:
            return Outcome(job=job, run_ms=1.0)
        kinds = [Kind.RELEASED, Kind.SNOOZE, Kind.THROTTLED]
        if job.attempt < job.options.max_attempts:
            kinds.append(Kind.RETRY)
        return Outcome(job=job, kind=self.dice.choice(kinds), delay=self.dice.choice([0.0, 0.1, 0.5]))

    async def _end(self, outcomes: list[Outcome]) -> None:
        """Flush in one piece or two, out of order."""
        cut = self.dice.choice([0, len(outcomes) // 2])
        self.dice.shuffle(outcomes)
        for part in (outcomes[:cut], outcomes[cut:]):
            if part:
                await self._flush(part)

    async def _flush(self, outcomes: Sequence[Outcome]) -> None:
        flush = self.worker.next_flush()
        sent = time.monotonic()
        finished = await self._send(flush, outcomes)
        self.ledger.ended(self.worker.id, flush, outcomes, sent, finished.applied, finished.refused)
        if self.dice.random() < self.orders.twice:
            again = await self._send(flush, outcomes)
            assert again == Finished(repeated=len(outcomes)), f"flush {flush} sent again: {again}"

    async def _send(self, flush: int, outcomes: Sequence[Outcome]) -> Finished:
        """Until it is answered: the number makes sending it again harmless, so nothing is given up here."""
        finished = await patiently(lambda: self.store.finish(self.worker.id, flush, outcomes))
        assert finished is not None
        assert finished.applied + finished.repeated + len(finished.refused) == len(outcomes)
        return finished


async def main(given: Orders) -> None:
    """All claimers of the process, until standard input closes."""
    stop = stopped()
    with Ledger(Path(given.ledger)) as ledger:
        async with asyncio.TaskGroup() as group:
            for i in range(given.claimers):
                group.create_task(_claimer(given, ledger, given.seed * 100 + i, stop))


async def _claimer(given: Orders, ledger: Ledger, seed: int, stop: asyncio.Event) -> None:
    async with opened(given.dsn, pool_size=3, head_cache=1.0) as store:
        await Claimer(given, store, ledger, seed).run(stop)


if __name__ == "__main__":
    asyncio.run(main(orders(Orders)))
