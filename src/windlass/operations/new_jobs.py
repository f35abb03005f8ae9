"""Enqueueing jobs, one or many. It is not in the timeline, since a job itself shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from windlass.errors import EnqueueError
from windlass.operations.bodies import Maker, NewJobBody
from windlass.operations.operation import MAX_AT_ONCE, Ops, Subject
from windlass.operations.refusals import Overloaded
from windlass.presentation.jobs import id_text
from windlass.store.records import EnqueueStatus, NewJob, Receipt

if TYPE_CHECKING:
    from windlass.app import Windlass

new_jobs: Final = Subject("jobs")
MAX_JOBS: Final = 10_000
"""Single jobs that may be without an answer of the store. Beyond that, callers are told to come back, before
the jobs fill this process's memory."""
MAX_SIZE: Final = 256 * 2**20
"""Characters of payload in them."""
SOON: Final = 2.0
"""Seconds after which to come back."""


class ReceiptShape(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of an enqueued job: its id, or the id of the unfinished job that holds its unique key; null
    where it was parked."""

    id: str | None
    status: EnqueueStatus
    pressure: float | None = None
    """How full its queue is, from 0.7 on: slow down [F4]."""

    @classmethod
    def of(cls, receipt: Receipt) -> ReceiptShape:
        """Return the view of a receipt."""
        return cls(id=id_text(receipt.id or None), status=receipt.status, pressure=receipt.pressure)


class Receipts(msgspec.Struct, frozen=True):
    """The receipt of each job, in the same order."""

    jobs: list[ReceiptShape]


@new_jobs.post("/jobs", 201)
async def enqueue_job(ops: Ops, job: NewJobBody) -> ReceiptShape:
    """Enqueue a job"""
    made = await ops.kept(Maker).make(job)
    with ops.kept(IntakeLimit).admit(made):
        (receipt,) = await ops.app._producer.asend([made])
    return ReceiptShape.of(receipt)


@new_jobs.post("/jobs/batch", 201)
async def enqueue_jobs(
    ops: Ops, jobs: Annotated[list[NewJobBody], msgspec.Meta(min_length=1, max_length=MAX_AT_ONCE)]
) -> Receipts:
    """Enqueue many jobs, all or none"""
    made = []
    for place, job in enumerate(jobs):
        try:
            made.append(await ops.kept(Maker).make(job))
        except EnqueueError as error:
            error.args = (f"jobs[{place}]: {error}",)
            raise
    return Receipts([ReceiptShape.of(receipt) for receipt in await ops.app._producer.asend(made)])


class IntakeLimit:
    """Counts the jobs that wait for the store's answer."""

    def __init__(self, app: Windlass | None = None) -> None:
        self._jobs = 0
        self._size = 0

    @contextmanager
    def admit(self, job: NewJob) -> Iterator[None]:
        """Count a job while the block lasts. Raises Overloaded where there is no room for it."""
        size = len(job.payload)
        if self._jobs and (self._jobs >= MAX_JOBS or self._size + size > MAX_SIZE):
            raise Overloaded("jobs arrive faster than the database takes them; try again", SOON)
        self._jobs += 1
        self._size += size
        try:
            yield
        finally:
            self._jobs -= 1
            self._size -= size
