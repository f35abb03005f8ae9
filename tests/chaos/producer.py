"""A process with several producers. Each enqueues in its own style until told to stop, and writes down what
it was told: `single` and `bulk` through the store, `transaction` in a transaction of its own, `holder`
likewise but left open for seconds. One in five transactions of every style is rolled back.

Started by `tests.chaos.program`, which says how it gets its orders.
"""

import asyncio
import random
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.kit import connected, job, opened
from tests.chaos.ledger import Ledger
from tests.chaos.program import orders, patiently, stopped
from windlass.core.states import Priority
from windlass.errors import StoreUnavailable
from windlass.store.postgres import PostgresStore
from windlass.store.records import NewJob

ROLLED_BACK = 0.2
CROWDED = 4000
"""Waiting jobs at which producers pause, so that the run ends soon after them."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is told to do."""

    dsn: str
    ledger: str
    seed: int
    styles: list[str]
    queues: list[str]
    keyed: bool = False
    """Every job bears an idempotency key and an enqueue without an answer is sent again: for crashes."""
    bulk: int = 200
    pause: float = 0.03
    hold: float = 3.0


class Producer:
    """One producer with its own dice and its own connection."""

    def __init__(self, orders: Orders, store: PostgresStore, ledger: Ledger, style: str, seed: int) -> None:
        self.orders = orders
        self.store = store
        self.ledger = ledger
        self.style = style
        self.dice = random.Random(seed)

    async def run(self, stop: asyncio.Event) -> None:
        async with connected(self.orders.dsn) as connection:
            while not stop.is_set():
                undo = self.dice.random() < ROLLED_BACK
                if self.orders.keyed:
                    await self._keyed()
                elif self.style in ("single", "bulk") and not undo:
                    jobs = self._jobs(1 if self.style == "single" else self.orders.bulk)
                    self.ledger.enqueued([receipt.id for receipt in await self.store.enqueue(jobs)])
                else:
                    await self._transaction(connection, undo, stop)
                await self._breathe(stop)

    def _jobs(self, most: int) -> list[NewJob]:
        """Up to `most` jobs, some of them for other lanes than the rest, some delayed."""
        made: list[NewJob] = []
        queue = self.dice.choice(self.orders.queues)
        for _ in range(self.dice.randint(1, most)):
            priority = Priority.HIGH if self.dice.random() < 0.1 else Priority.NORMAL
            key = secrets.token_hex(8) if self.orders.keyed else None
            delay = 0.2 if self.dice.random() < 0.01 else None
            made.append(job(queue=queue, priority=priority, idempotency_key=key, delay=delay))
        return made

    async def _keyed(self) -> None:
        """Once a call was sent it is sent until it is answered; the answer then names each job once [E7]."""
        jobs = self._jobs(1 if self.style == "single" else 10)
        receipts = await patiently(lambda: self.store.enqueue(jobs))
        assert receipts is not None
        self.ledger.enqueued([receipt.id for receipt in receipts])

    async def _transaction(self, connection: Any, undo: bool, stop: asyncio.Event) -> None:
        """In a transaction of the caller's own, in one or more calls, some of them inside a savepoint."""
        transaction = connection.transaction()
        await transaction.start()
        ids: list[int] = []
        for _ in range(self.dice.randint(1, 3)):
            ids += await self._part(connection)
        if self.style == "holder":
            await _pass(self.dice.uniform(0.3, 1.0) * self.orders.hold, stop)
        if undo:
            await transaction.rollback()
            self.ledger.undone(ids)
        else:
            await transaction.commit()
            self.ledger.enqueued(ids)

    async def _part(self, connection: Any) -> Sequence[int]:
        jobs = self._jobs(self.orders.bulk if self.style == "bulk" else 3)
        savepoint = connection.transaction()
        await savepoint.start()
        ids = [receipt.id for receipt in await self.store.enqueue(jobs, connection=connection)]
        if self.dice.random() < 0.1:
            await savepoint.rollback()
            self.ledger.undone(ids)
            return ()
        await savepoint.commit()
        return ids

    async def _breathe(self, stop: asyncio.Event) -> None:
        await _pass(self.dice.uniform(0, 2) * self.orders.pause, stop)
        if self.dice.random() < 0.1:
            try:
                crowd = sum(depth.ready for depth in (await self.store.depth()).values())
            except StoreUnavailable:
                return
            if crowd > CROWDED:
                await _pass(0.5, stop)


async def _pass(seconds: float, stop: asyncio.Event) -> None:
    """Let time pass, but not after the end."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


async def main(given: Orders) -> None:
    """All producers of the process, until standard input closes."""
    stop = stopped()
    with Ledger(Path(given.ledger)) as ledger:
        async with opened(given.dsn) as store, asyncio.TaskGroup() as group:
            for i, style in enumerate(given.styles):
                producer = Producer(given, store, ledger, style, given.seed * 100 + i)
                group.create_task(producer.run(stop))


if __name__ == "__main__":
    asyncio.run(main(orders(Orders)))
