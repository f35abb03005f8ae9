"""Enqueue: idempotency keys, unique keys, and where a new job goes. See the protocol for the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.model.oracle.admission import judge
from tests.model.oracle.base import Base, atomic
from windlass.core.retry import FORGET_AFTER, parked_until
from windlass.core.states import State
from windlass.errors import AlreadyEnqueued, ConfigurationError, JobNotFound
from windlass.store.records import NewJob, Receipt


class Enqueueing(Base):
    """The producer's side of the store."""

    @atomic
    async def enqueue(self, jobs: Sequence[NewJob], *, connection: Any = None) -> list[Receipt]:
        if connection is not None:
            raise ConfigurationError("the oracle has no transaction to join: leave out connection=")
        now = self._clock()
        hints = judge(self._tables, self._judged(jobs, now), now)
        self._refuse_strangers(jobs)
        self._refuse_conflicts(jobs, now)
        receipts = [self._enqueue(_own(job), now) for job in jobs]
        return [
            msgspec.structs.replace(receipt, pressure=hints.get(job.queue))
            for receipt, job in zip(receipts, jobs, strict=True)
        ]

    def _judged(self, jobs: Sequence[NewJob], now: float) -> list[NewJob]:
        """The jobs of queues that this call has something new for [F4] [E7]."""
        new = {
            job.queue
            for job in jobs
            if job.idempotency_key is None or not self._first(job.idempotency_key, now)
        }
        return [job for job in jobs if job.queue in new]

    def _refuse_strangers(self, jobs: Sequence[NewJob]) -> None:
        """Raise where a job is to come after one that is not there [P12]."""
        for job in jobs:
            for other in job.options.after:
                if other not in self._tables.jobs:
                    raise JobNotFound(
                        f"{job.task} cannot come after job {other}: it never existed, was deleted, or its "
                        "retention has passed"
                    )

    def _refuse_conflicts(self, jobs: Sequence[NewJob], now: float) -> None:
        """Raise before anything is written. Nothing in one call frees a key, so looking ahead is enough."""
        repeated: set[str] = set()
        taken: set[str] = set()
        for job in jobs:
            idempotency, key = job.idempotency_key, job.options.unique_key
            if idempotency is not None:
                if idempotency in repeated or self._first(idempotency, now) is not None:
                    continue
                repeated.add(idempotency)
            if key is None or self._is_parked(job, now):
                continue
            twin = self._tables.unique.get(key)
            if job.on_conflict == "reject" and (twin is not None or key in taken):
                raise AlreadyEnqueued(
                    f"unique key {key!r} is held by an unfinished job", twin.id if twin else None
                )
            taken.add(key)

    def _first(self, idempotency_key: str, now: float) -> int | None:
        """The job that came first with this idempotency key, while the key is remembered [E7]."""
        job, at = self._tables.idempotency.get(idempotency_key, (None, 0.0))
        return job if at + self._settings.idempotency_retention > now else None

    def _enqueue(self, new: NewJob, now: float) -> Receipt:
        if new.idempotency_key is None:
            return self._enqueue_unique(new, now)
        first = self._first(new.idempotency_key, now)
        if first is not None:
            return Receipt(first, "repeated")
        receipt = self._enqueue_unique(new, now)
        if receipt.status != "parked":
            self._tables.idempotency[new.idempotency_key] = (receipt.id, now)
        return receipt

    def _enqueue_unique(self, new: NewJob, now: float) -> Receipt:
        tables, key = self._tables, new.options.unique_key
        if self._is_parked(new, now):
            return Receipt(0, "parked")
        twin = tables.unique.get(key) if key is not None else None
        if twin is None or key is None:
            job, status = tables.add(new, now)
            return Receipt(job.id, status)
        # A parent whose parts run has begun, too, and so has what is put off half-way.
        if twin.state in (State.RUNNING, State.WAITING) or twin.steps or twin.waits:
            tables.reruns[key] = new
            return Receipt(twin.id, "rerun")
        if new.on_conflict == "skip":
            return Receipt(twin.id, "skipped")
        tables.reruns.pop(key, None)  # this job is newer than a rerun remembered when the twin last ran
        tables.end(twin, State.CANCELLED, now, counted=False)
        del tables.jobs[twin.id]  # taken back, as if deleted: a debounced job leaves no trail
        job, _ = tables.add(new, now)
        return Receipt(job.id, "replaced")

    def _is_parked(self, new: NewJob, now: float) -> bool:
        """Whether a schedule or a reconciler asks for what has died too often of late [O7]."""
        deaths, last = self._tables.deaths.get(new.options.unique_key or "", (0, 0.0))
        if not new.automatic or now >= last + FORGET_AFTER:
            return False
        until = parked_until(deaths, last, self._settings.park_after)
        return until is not None and now < until


def _own(new: NewJob) -> NewJob:
    """The job as a producer may ask for it: whose part it is, only the store says."""
    if new.options.part is None:
        return new
    return msgspec.structs.replace(new, options=msgspec.structs.replace(new.options, part=None))
