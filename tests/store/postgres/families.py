"""A parent with its parts, split by a worker of the test, and short ways to go on with it."""

from typing import Any

from tests.store.postgres.kit import Base
from windlass.store.postgres import PostgresStore
from windlass.store.records import ClaimedJob, NewJob, Options, ParentRecord, PartPlan, Plan


class Family:
    """A store, a worker, and a parent that it has split."""

    def __init__(self, base: Base, store: PostgresStore, worker: int, id: int) -> None:
        self.base = base
        self.store = store
        self.worker = worker
        self.id = id

    async def claim(self, n: int = 100) -> list[ClaimedJob]:
        """Parts that wait in the lane."""
        claims = await self.store.claim(self.worker, [self.base.queue], n)
        return [job for claim in claims for job in claim.jobs]

    async def look(self) -> ParentRecord:
        """The parent as it is now."""
        found = await self.store.parent(self.id)
        assert found is not None
        return found


def plan(parts: int, **fields: Any) -> Plan:
    """So many parts of size 10."""
    return Plan(parts=[PartPlan(f"[{index}]", 10) for index in range(parts)], **fields)


async def started(base: Base, **options: Any) -> tuple[PostgresStore, int, ClaimedJob]:
    """A job that is to be split, claimed."""
    store, worker = await base.store(), await base.worker()
    await store.enqueue(
        [NewJob(task="t", payload="{}", queue=base.queue, options=Options(chunked=True, **options))]
    )
    (claim,) = await store.claim(worker, [base.queue], 1)
    return store, worker, claim.jobs[0]


async def family(base: Base, parts: int, **fields: Any) -> Family:
    """A parent with parts that wait for a worker."""
    store, worker, job = await started(base)
    await store.split(worker, 1, job, plan(parts, **fields))
    return Family(base, store, worker, job.id)
