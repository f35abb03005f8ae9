"""Groups of jobs [W4]: their ends come after all that was added, and after themselves while they are open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.model.oracle.base import atomic
from tests.model.oracle.enqueue import Enqueueing
from windlass.core.states import FINISHED, State
from windlass.errors import CircularWait, GroupClosed, JobNotFound
from windlass.store.records import NewJob, Receipt


class Groups(Enqueueing):
    """What is in a group is a list of ids."""

    async def enqueue_in_group(
        self, group: int, jobs: Sequence[NewJob], *, connection: Any = None
    ) -> list[Receipt]:
        end = self._tables.jobs.get(group)
        if end is None:
            raise JobNotFound(f"there is no group {group}")
        if end.state is not State.SCHEDULED or group not in end.after:
            raise GroupClosed(f"group {group} takes no more jobs")
        self._refuse_circle(group, [id for job in jobs for id in job.options.after])
        receipts = await self.enqueue(jobs, connection=connection)
        self._refuse_circle(group, [receipt.id for receipt in receipts])
        for job in dict.fromkeys(receipt.id for receipt in receipts if receipt.id):
            if job not in end.members:
                end.members.append(job)
                found = self._tables.jobs.get(job)
                if found is not None and found.state not in FINISHED:
                    end.after += (job,)
                elif found is not None and found.state is not State.SUCCEEDED:
                    end.failed.add(job)
        return receipts

    def _refuse_circle(self, group: int, jobs: Sequence[int]) -> None:
        if any(self._comes_after(job, group) for job in jobs):
            raise CircularWait(f"each would wait for the other: group {group} and a job that comes after it")

    def _comes_after(self, job: int, other: int) -> bool:
        known = self._tables.jobs.get(job)
        return job == other or any(
            self._comes_after(each, other) for each in (known.after if known else ()) if each != job
        )

    @atomic
    async def close_group(self, group: int) -> bool:
        end = self._tables.jobs.get(group)
        if end is None or end.state is not State.SCHEDULED or group not in end.after:
            return False
        end.after = tuple(id for id in end.after if id != group)
        end.reason = end.waits_for()
        return True

    @atomic
    async def group_jobs(self, group: int, after: int = 0, limit: int = 1000) -> list[int]:
        end = self._tables.jobs.get(group)
        members = [] if end is None else end.members
        first = members.index(after) + 1 if after in members else 0 if after == 0 else len(members)
        return members[first : first + limit]

    @atomic
    async def group_counts(self, group: int) -> Mapping[str, int]:
        end, found = self._tables.jobs.get(group), Counter[str]()
        for job in () if end is None else end.members:
            known = self._tables.jobs.get(job)
            gone = "deleted" if end is not None and job in end.failed else "gone"
            found[gone if known is None else str(known.shown)] += 1
        return found
