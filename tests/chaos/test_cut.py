"""[fault 5] The connection is cut after COMMIT was sent: on enqueue, on flush, on claim. One job; each
outcome once; claimed jobs are found by `held` and offered again. The cut is made by `tests.chaos.proxy`, at a
known point.
"""

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import Worker, counts, depth_is_a_scan, job, lasting, opened, waiting
from tests.chaos.ledger import Balance, Ledger, read
from tests.chaos.program import patiently
from tests.chaos.proxy import Loses, Proxy
from tests.postgres import Server
from windlass.core.states import Kind
from windlass.errors import StoreUnavailable
from windlass.store.postgres import PostgresStore
from windlass.store.records import ClaimedJob, Finished, NewJob, Outcome

LOST: tuple[Loses, ...] = ("answer", "request")


@asynccontextmanager
async def through(server: Server, dsn: str) -> AsyncIterator[tuple[Proxy, PostgresStore]]:
    """A store that speaks to its database through a proxy."""
    async with (
        Proxy("127.0.0.1", server.port) as proxy,
        opened(dsn.replace(f":{server.port}/", f":{proxy.port}/"), pool_size=2) as store,
    ):
        yield proxy, store


@pytest.mark.parametrize("loses", LOST)
@pytest.mark.parametrize("n", [1, 20])
async def test_an_enqueue_cut_off_yields_one_job(
    pg_server: Server, pg_dsn: str, n: int, loses: Loses
) -> None:
    """[E7] Sent again with the same idempotency key. Several jobs of one call: all of them, or none yet."""
    jobs = [job(idempotency_key=secrets.token_hex(8)) for _ in range(n)]
    async with through(pg_server, pg_dsn) as (proxy, store):
        await store.enqueue([job(queue="other")])
        cut = proxy.cut("enqueue_mixed" if n > 1 else "enqueue_one", loses)
        with pytest.raises(StoreUnavailable):
            await store.enqueue(jobs)
        await cut.done.wait()
        assert (await counts(pg_dsn)) == {"ready": 1 + (n if loses == "answer" else 0)}
        receipts = await store.enqueue(jobs)
        assert {receipt.status for receipt in receipts} == {"repeated" if loses == "answer" else "enqueued"}
        assert await counts(pg_dsn) == {"ready": 1 + n}
        worker = await Worker.registered(store)
        assert sorted(await worker.drain()) == sorted(receipt.id for receipt in receipts)


@pytest.mark.parametrize("turned", [False, True], ids=["at once", "after a turn of the logs"])
@pytest.mark.parametrize("loses", LOST)
async def test_a_flush_cut_off_counts_once(
    pg_server: Server, pg_dsn: str, loses: Loses, turned: bool
) -> None:
    """[C5] Sent again under the same number: every outcome is recorded once, every job comes back once."""
    kinds = [Kind.SUCCEEDED, Kind.RETRY, Kind.RELEASED, Kind.SNOOZE, Kind.CANCELLED, Kind.DEAD]
    async with through(pg_server, pg_dsn) as (proxy, store):
        await store.enqueue([job()] * 12)
        worker = await Worker.registered(store)
        claimed = await worker.claim()
        outcomes = [
            Outcome(job=j, kind=kind) for j, kind in zip(claimed, itertools.cycle(kinds), strict=False)
        ]
        flush = worker.next_flush()
        cut = proxy.cut("finish", loses)
        with pytest.raises(StoreUnavailable):
            await store.finish(worker.id, flush, outcomes)
        await cut.done.wait()
        if turned:
            for _ in range(9):
                await store.rotate(force=True)
        sent = await store.finish(worker.id, flush, outcomes)
        assert sent == (Finished(repeated=12) if loses == "answer" else Finished(applied=12))
        assert await store.finish(worker.id, flush, outcomes) == Finished(repeated=12)
        again = await worker.claim()
        back = {Kind.RETRY, Kind.RELEASED, Kind.SNOOZE}
        assert sorted(j.id for j in again) == sorted(o.job.id for o in outcomes if o.kind in back)
        await worker.finish(again)
        assert (await counts(pg_dsn))["dead"] == 2
        await depth_is_a_scan(store, pg_dsn)


@pytest.mark.parametrize("loses", LOST)
async def test_a_claim_cut_off_is_found_and_offered_again(
    pg_server: Server, pg_dsn: str, loses: Loses
) -> None:
    """[C5] The worker lists what it holds, releases what it does not know, and another one gets it."""
    async with through(pg_server, pg_dsn) as (proxy, store):
        ids = {receipt.id for receipt in await store.enqueue([job()] * 10)}
        worker = await Worker.registered(store)
        cut = proxy.cut(".claim(", loses)
        with pytest.raises(StoreUnavailable):
            await worker.claims()
        await cut.done.wait()
        held = [j for claim in await store.unfinished(worker.id) for j in claim.jobs]
        assert {j.id for j in held} == (ids if loses == "answer" else set())
        if held:
            assert (await worker.finish(held, Kind.RELEASED)).applied == 10
        other = await Worker.registered(store)
        again = await other.claim()
        assert {j.id for j in again} == ids
        assert {j.attempt for j in again} == {1}
        await other.finish(again)
        assert await store.unfinished(worker.id) == []
        await depth_is_a_scan(store, pg_dsn)


class Harassed:
    """A producer and a worker that reach their store through a proxy that keeps cutting."""

    def __init__(self, store: PostgresStore, ledger: Ledger, ends: float) -> None:
        self.store = store
        self.ledger = ledger
        self.ends = ends
        self.produced = asyncio.Event()

    async def produce(self) -> None:
        while time.monotonic() < self.ends:
            await self._enqueue([job(idempotency_key=secrets.token_hex(8)) for _ in range(3)])
        self.produced.set()

    async def _enqueue(self, jobs: list[NewJob]) -> None:
        receipts = await patiently(lambda: self.store.enqueue(jobs))
        assert receipts is not None
        self.ledger.enqueued([receipt.id for receipt in receipts])

    async def work(self) -> None:
        worker = await Worker.registered(self.store)
        while not (self.produced.is_set() and await self._nothing_is_left()):
            try:
                claims = await worker.claims(limit=10)
            except StoreUnavailable:
                await self._hand_back(worker)
                continue
            if not claims:  # one may come about after its connection broke
                await self._hand_back(worker)
                continue
            self.ledger.claimed(worker.id, claims)
            await self._end(worker, [j for claim in claims for j in claim.jobs], Kind.SUCCEEDED)

    async def _hand_back(self, worker: Worker) -> None:
        claims = await patiently(lambda: self.store.unfinished(worker.id)) or []
        self.ledger.claimed(worker.id, claims)
        await self._end(worker, [j for claim in claims for j in claim.jobs], Kind.RELEASED)

    async def _nothing_is_left(self) -> bool:
        """An empty claim does not say so: its lane may have been busy."""
        depths = await patiently(lambda: self.store.depth(["default"]))
        return depths is not None and not any(waiting(depth) for depth in depths.values())

    async def _end(self, worker: Worker, jobs: Sequence[ClaimedJob], kind: Kind) -> None:
        if not jobs:
            return
        flush, sent = worker.next_flush(), time.monotonic()
        outcomes = [Outcome(job=j, kind=kind) for j in jobs]
        finished = await patiently(lambda: self.store.finish(worker.id, flush, outcomes))
        assert finished is not None
        self.ledger.ended(worker.id, flush, outcomes, sent, finished.applied, finished.refused)


async def harassed(server: Server, dsn: str, folder: Path, seconds: float, figure: Figure) -> None:
    """One statement in eight that changes something is cut, before or after it is done; the books balance."""
    async with through(server, dsn) as (proxy, store):
        await store.enqueue([NewJob(task="t", payload="{}", queue="other")])
        with Ledger(folder / "all.ledger") as ledger:
            run = Harassed(store, ledger, time.monotonic() + seconds)
            proxy.harass(1 / 8, "enqueue_one", "COMMIT;", "finish", ".claim(")
            async with asyncio.TaskGroup() as group:
                group.create_task(run.produce())
                for _ in range(2):
                    group.create_task(run.work())
            proxy.harass(0.0)
        balance = Balance(read(folder))
        balance.check()
        assert proxy.cuts > seconds, "there were hardly any cuts"
        figure("connections cut", proxy.cuts)
        figure("jobs committed = finished", len(balance.committed))
        await depth_is_a_scan(store, dsn)


@pytest.mark.slow
@lasting(3.0)
async def test_cuts_all_the_time(
    pg_server: Server, pg_dsn: str, tmp_path: Path, figure: Figure, seconds: float
) -> None:
    await harassed(pg_server, pg_dsn, tmp_path, seconds, figure)
