"""[fault 12] A producer's transaction stays open over a whole turn of the segment ring, and over more: its
jobs run, each once, and so do those of everybody else meanwhile. Its segment waits for it; the others go on
turning.
"""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import Worker, connected, depth_is_a_scan, job, opened
from tests.chaos.ledger import Balance, Ledger, read
from windlass.core.states import Kind
from windlass.store.postgres import PostgresStore
from windlass.store.records import Outcome, Rotation

SEGMENTS = 8


class Shift:
    """A worker that runs what there is and keeps the books."""

    def __init__(self, worker: Worker, ledger: Ledger) -> None:
        self.worker = worker
        self.ledger = ledger
        self.ran: set[int] = set()

    async def enqueue(self, n: int) -> None:
        receipts = await self.worker.store.enqueue([job()] * n)
        self.ledger.enqueued([receipt.id for receipt in receipts])

    async def work(self) -> None:
        """Everything that can be claimed. One in ten comes back first, so that there is some to carry."""
        while claims := await self.worker.claims(limit=50):
            self.ledger.claimed(self.worker.id, claims)
            outcomes = [
                Outcome(job=j, kind=Kind.RETRY if j.attempt == 1 and j.seq % 10 == 0 else Kind.SUCCEEDED)
                for claim in claims
                for j in claim.jobs
            ]
            self.ran.update(outcome.job.id for outcome in outcomes)
            flush, sent = self.worker.next_flush(), time.monotonic()
            finished = await self.worker.store.finish(self.worker.id, flush, outcomes)
            self.ledger.ended(self.worker.id, flush, outcomes, sent, finished.applied, finished.refused)


async def turns(store: PostgresStore, shift: Shift, rounds: int) -> list[Rotation]:
    """Turn the ring so often, with work before each turn."""
    made: list[Rotation] = []
    for _ in range(rounds):
        await shift.enqueue(20)
        await shift.work()
        await shift.enqueue(5)  # these wait, so the turn must carry them
        made.append(await store.rotate(force=True))
    return made


async def slept(dsn: str, folder: Path, isolation: str, early: bool, rounds: int, figure: Figure) -> None:
    """A producer that enqueues before the turns (early) or begins before and enqueues after them."""
    with Ledger(folder / "all.ledger") as ledger:
        async with opened(dsn) as store, connected(dsn) as connection:
            shift = Shift(await Worker.registered(store), ledger)
            await shift.enqueue(10)
            transaction: Any = connection.transaction(isolation=isolation)
            await transaction.start()
            await connection.execute("SELECT pg_current_xact_id(), pg_current_snapshot()")
            ids: list[int] = []
            if early:
                ids += [r.id for r in await store.enqueue([job()] * 30, connection=connection)]
            made = await turns(store, shift, rounds)
            ids += [r.id for r in await store.enqueue([job()] * 30, connection=connection)]
            made += await turns(store, shift, 2)
            assert not shift.ran & set(ids), "jobs ran before their transaction had committed"
            await transaction.commit()
            ledger.enqueued(ids)
            made += await turns(store, shift, SEGMENTS + 1)
            await shift.work()
            await depth_is_a_scan(store, dsn)
    reclaimed = sum(turn.reclaimed for turn in made)
    assert reclaimed >= rounds, f"the ring stood still: {[turn.blocked for turn in made]}"
    assert not sum(turn.offered_again for turn in made)
    balance = Balance(read(folder))
    balance.check()
    figure("turns while the producer slept", rounds)
    figure("segments reclaimed", reclaimed)
    figure("jobs committed = finished", len(balance.committed))


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read"])
@pytest.mark.parametrize("early", [True, False], ids=["enqueued before", "enqueued after"])
async def test_a_producer_sleeps_through_a_turn(
    pg_dsn: str, tmp_path: Path, figure: Figure, isolation: str, early: bool
) -> None:
    await slept(pg_dsn, tmp_path, isolation, early, SEGMENTS + 1, figure)


@pytest.mark.soak
@pytest.mark.parametrize("early", [True, False], ids=["enqueued before", "enqueued after"])
async def test_a_producer_sleeps_through_a_hundred_turns(
    pg_dsn: str, tmp_path: Path, figure: Figure, early: bool
) -> None:
    await slept(pg_dsn, tmp_path, "read_committed", early, 100 * SEGMENTS, figure)
