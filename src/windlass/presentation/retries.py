"""Parts that are tried again, told on their parent: how many, how often, what the last one failed with [M4].

They are found among the retrying jobs of the parent's queue and task, of which a bounded number is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.core.counts import plural
from windlass.core.states import FINISHED, State
from windlass.store.protocol import Store
from windlass.store.records import JobFilter, JobRecord, ParentRecord

MAX_LOOKED: Final = 500
"""Retrying jobs of a task that are looked at."""
_WITHIN: Final = 0.1
"""Seconds that this may take."""


class RetryingShape(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a parent that failed and will be tried again."""

    parts: int
    tries: int
    """The tries of the part that was tried most often."""
    error: str | None
    """Type and message of the latest failure."""
    text: str
    """The tries in words: `2 parts retrying (3 tries)`."""

    @classmethod
    def of(cls, jobs: Sequence[JobRecord]) -> RetryingShape:
        """From the jobs of these parts."""
        tries = max(job.attempt for job in jobs) - 1
        last = max((job.errors[-1] for job in jobs if job.errors), key=lambda error: error.at, default=None)
        return cls(
            parts=len(jobs),
            tries=tries,
            error=None if last is None else f"{last.type}: {last.message}",
            text=f"{plural(len(jobs), 'part')} retrying ({plural(tries, 'try', 'tries')})",
        )


async def retrying_of(store: Store, parents: Sequence[ParentRecord]) -> dict[int, RetryingShape]:
    """By parent, those of its parts that will be tried again; nothing for one that has none."""
    found: defaultdict[int, list[JobRecord]] = defaultdict(list)
    unfinished = {parent.id: parent for parent in parents if parent.out and parent.state not in FINISHED}
    for queue, task in sorted({(parent.queue, parent.task) for parent in unfinished.values()}):
        where = JobFilter(queue=queue, task=task, state=State.RETRYING)
        for job in (await store.jobs(where, MAX_LOOKED, within=_WITHIN)).jobs:
            part = job.options.part
            if part is not None and part.parent in unfinished:
                found[part.parent].append(job)
    return {parent: RetryingShape.of(jobs) for parent, jobs in found.items()}
