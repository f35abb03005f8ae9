"""Groups of jobs: what is in one, and how to close or cancel it [W4]."""

from __future__ import annotations

import msgspec

from windlass.core.states import State
from windlass.handles.group import cancel_group
from windlass.operations.principal import Principal, Role
from windlass.presentation.audit import AuditEntry
from windlass.presentation.groups import GroupShape, group_of
from windlass.store.protocol import Store
from windlass.web.http.problems import NotFound
from windlass.web.service.audit import Actions

MAX_LISTED = 1_000
MAX_LOOKED_UP = 100
"""Jobs of a group that its page looks up one by one; of more it gives the numbers."""
SHOWN = 20
_LAST = (State.DEAD, State.CANCELLED, State.RETRYING, State.RUNNING)
"""Those that an operator looks for, in this order, before others that have not succeeded."""


class GroupJob(msgspec.Struct, frozen=True):
    """A job of a group, as its page lists it."""

    id: str
    task: str
    state: str


class Groups(Actions):
    """What can be seen of groups and done to them."""

    async def get(self, principal: Principal, id: int) -> GroupShape:
        """A group and how its jobs stand. Raises NotFound."""
        principal.require(Role.READ)

        async def read(store: Store) -> GroupShape:
            end = await store.job(id)
            group = None if end is None else await group_of(store, end)
            if group is None:
                raise NotFound(f"there is no group {id}: no job of this id ends one, or it is gone")
            return group

        return await self._store.shared(("group", id), 1.0, read)

    async def jobs(self, principal: Principal, id: int, after: int = 0, limit: int = 100) -> list[str]:
        """Its jobs in the order in which they were added, those behind the job `after`."""
        principal.require(Role.READ)
        limit = max(1, min(limit, MAX_LISTED))
        return [str(job) for job in await self._store.ask(lambda store: store.group_jobs(id, after, limit))]

    async def left(self, principal: Principal, id: int) -> list[GroupJob]:
        """Some of its jobs that have not succeeded, the dead first; none of a group of very many."""
        principal.require(Role.READ)

        async def read(store: Store) -> list[GroupJob]:
            ids = await store.group_jobs(id, 0, MAX_LOOKED_UP + 1)
            if len(ids) > MAX_LOOKED_UP:
                return []
            found = [job for each in ids if (job := await store.job(each)) and job.state != State.SUCCEEDED]
            found.sort(key=lambda job: _LAST.index(job.state) if job.state in _LAST else len(_LAST))
            return [GroupJob(str(job.id), job.task, str(job.state)) for job in found[:SHOWN]]

        return await self._store.shared(("jobs left", id), 2.0, read)

    async def close(self, principal: Principal, id: int) -> bool:
        """Take no more jobs; whether it was open. Raises NotFound."""
        principal.require(Role.OPERATE)
        await self.get(principal, id)
        return await self._do(
            principal, lambda store: store.close_group(id), AuditEntry("closed its group", job=id)
        )

    async def cancel(self, principal: Principal, id: int) -> int:
        """Cancel the group and its jobs that have not ended; how many that were. Raises NotFound."""
        principal.require(Role.OPERATE)
        await self.get(principal, id)
        asked = await self._do(
            principal, lambda store: cancel_group(store, id), AuditEntry("cancelled its group", job=id)
        )
        return len(asked)
