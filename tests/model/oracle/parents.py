"""Parents and parts: splitting, looking at them, changing how many run, and running the failed ones again."""

from __future__ import annotations

from tests.model.oracle.base import atomic
from tests.model.oracle.family import Parent, advance, redrive
from tests.model.oracle.signals import Signals
from windlass.core.states import State
from windlass.store import unknown_tasks
from windlass.store.records import ClaimedJob, ParentRecord, PartRecord, Plan


class Parents(Signals):
    """What is done with a parent; how its parts are folded into it, `family` says [P9]."""

    @atomic
    async def split(self, worker: int, flush: int, job: ClaimedJob, plan: Plan) -> None:
        mine = self._tables.alive(worker)
        if job.options.part is not None:
            raise ValueError(
                f"job {job.id} is a part of job {job.options.part.parent}: a part cannot be split"
            )
        fence = (job.lane, job.claim, job.seq)
        if fence in mine.split:
            return
        running, now = self._own(mine, job), self._clock()
        mine.split.add(fence)
        if running.cancel_requested:
            self._tables.end(running, State.CANCELLED, now)
            return
        running.checkpoint = None
        running.options = unknown_tasks.since(running.options, None)
        parent = Parent.planned(running, plan, now)
        self._tables.parents[running.id] = parent
        self._tables.wait_for_parts(running, now)
        advance(self._tables, parent, now)

    @atomic
    async def parent(self, id: int) -> ParentRecord | None:
        known = self._tables.parents.get(id)
        return known.record() if known is not None else None

    @atomic
    async def parents(self, *, active: bool = False, limit: int = 50) -> list[ParentRecord]:
        found = [
            parent for parent in reversed(self._tables.parents.values()) if not (active and parent.ended)
        ]
        return [parent.record() for parent in found[:limit]]

    @atomic
    async def parts(self, parent: int, *, start: int = 0, limit: int = 1000) -> list[PartRecord]:
        known = self._tables.parents.get(parent)
        if known is None:
            return []
        return [known.part_record(part) for part in known.parts[start : start + limit]]

    @atomic
    async def part_states(self, parent: int) -> list[State]:
        known = self._tables.parents.get(parent)
        return [] if known is None else [known.part_record(part).state for part in known.parts]

    @atomic
    async def set_parent(self, id: int, *, parallel: int | None) -> ParentRecord | None:
        if parallel is not None and parallel < 1:
            raise ValueError(f"parallel of parent {id} cannot be {parallel}: write 1 or more")
        known = self._tables.parents.get(id)
        if known is None:
            return None
        known.parallel = parallel
        advance(self._tables, known, self._clock())
        return known.record()

    @atomic
    async def redrive(self, id: int) -> int:
        known = self._tables.parents.get(id)
        return redrive(self._tables, known, self._clock()) if known is not None else 0
