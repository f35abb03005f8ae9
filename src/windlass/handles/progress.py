"""How far a job is, as `job.progress()` tells: what its handler said last, or what its parts have
done together. It stays when the job has ended [P6]."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from windlass.store.records import JobRecord, ParentRecord


class JobProgress(msgspec.Struct, frozen=True):
    """How far a job is; `job.progress()` gives it."""

    done: int = 0
    """In the units of its handler; of a chunked job, in those of its splitter, or in parts."""
    total: int | None = None
    """How much there is to do; None where nobody has said so."""
    at: datetime | None = None
    """When its handler said so, in UTC; None where it has not, and for a chunked job."""

    @property
    def fraction(self) -> float | None:
        """From 0 to 1; None without a total."""
        return None if not self.total else min(max(self.done / self.total, 0.0), 1.0)


def progress_of(job: JobRecord, parent: ParentRecord | None) -> JobProgress:
    """How far a job is; `parent` is how far its parts are, where it was split."""
    if parent is not None:
        if parent.size > 0:
            return JobProgress(parent.done, parent.size)
        return JobProgress(parent.succeeded, parent.total)
    said = job.progress
    if said is None:
        return JobProgress()
    return JobProgress(said.done or 0, said.total, datetime.fromtimestamp(said.at, UTC))
