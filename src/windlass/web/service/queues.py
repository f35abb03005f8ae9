"""Queues: how each stands, its gates and ordering keys, and its settings [K1] [K2] [F6]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from windlass.core.names import check_name
from windlass.core.rollup import MINUTE
from windlass.core.states import State
from windlass.operations.principal import Principal, Role
from windlass.presentation import audit
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.flow import GateShape, WatermarkShape
from windlass.store.protocol import Store
from windlass.store.records import JobFilter
from windlass.web.http.problems import NotFound
from windlass.web.service import views
from windlass.web.service.audit import Actions
from windlass.web.service.measures import rate
from windlass.web.service.shapes import QueueView

MAX_LISTED: Final = 500
MAX_RATES: Final = 50
"""Queues whose rate is read: the busiest."""
MAX_HELD: Final = 5
"""Queues without a running job of which one job is asked what it waits for."""


class Queues(Actions):
    """What can be seen of queues and done to them."""

    # -- reads ------------------------------------------------------------------------------------------

    async def all(self, principal: Principal) -> list[QueueView]:
        """Every queue, by name."""
        principal.require(Role.READ)
        state = await self._store.state()
        per_minute, held = await self.rates(state), await self.held(state)
        return [views.queue_view(state, name, per_minute, held) for name in state.names()]

    async def get(self, principal: Principal, name: str) -> QueueView:
        """One queue. Raises NotFound."""
        principal.require(Role.READ)
        state = await self._store.state()
        if name not in state.names():
            self._store.cache.forget("state")  # it may have been declared a moment ago
            state = await self._store.state()
            if name not in state.names():
                raise _not_found(name)
        return views.queue_view(state, name, await self.rates(state), await self.held(state))

    async def gates(self, principal: Principal, limit: int = 100) -> list[GateShape]:
        """Gates that jobs wait at, the longest wait first."""
        principal.require(Role.READ)
        limit = max(1, min(limit, MAX_LISTED))
        found = await self._store.shared(("gates", limit), 1.0, lambda store: store.gates(limit))
        return [GateShape.of(gate) for gate in found]

    async def watermarks(
        self, principal: Principal, name: str, key: str | None = None, limit: int = 100
    ) -> list[WatermarkShape]:
        """The ordering keys of a queue, by key."""
        principal.require(Role.READ)
        check_name("queue", name)
        limit = max(1, min(limit, MAX_LISTED))
        found = await self._store.ask(lambda store: store.watermarks(name, key=key, limit=limit))
        return [WatermarkShape.of(mark) for mark in found]

    async def rates(self, state: ClusterState) -> dict[str, float]:
        """Jobs per minute that succeeded, of the busiest queues: one small read each, shared."""
        busiest = sorted(state.depth, key=lambda name: -state.depth[name].offered)[:MAX_RATES]
        now = await self._store.now()

        async def ask(store: Store) -> dict[str, float]:
            found = {}
            for name in busiest:
                rows = await store.measured(MINUTE, now - 180.0, now + MINUTE, queue=name)
                if rows:
                    found[name] = round(rate(rows, now) * 60, 1)
            return found

        return await self._store.shared("rates", 10.0, ask)

    async def held(self, state: ClusterState) -> dict[str, str]:
        """What the jobs of queues wait for in which some are ready and none runs. The newest job answers for
        all. Nothing is read while no gate has a waiting job."""
        names = views.standing(state)[:MAX_HELD] if state.gates else []

        async def ask(store: Store) -> dict[str, str]:
            found = {}
            for name in names:
                page = await store.jobs(JobFilter(queue=name, state=State.READY), 1)
                if page.jobs and page.jobs[0].reason:
                    found[name] = page.jobs[0].reason
            return found

        return await self._store.shared("held", 5.0, ask) if names else {}

    # -- actions ----------------------------------------------------------------------------------------

    async def pause(self, principal: Principal, name: str, paused: bool = True) -> QueueView:
        """Start no more jobs of a queue. Running jobs may finish [K2]."""
        principal.require(Role.OPERATE)
        await self._check_known(name)
        changes = {"paused": paused}
        await self._do(principal, lambda store: store.set_queue(name, changes), audit.paused(name, paused))
        return await self.get(principal, name)

    async def resume(self, principal: Principal, name: str) -> QueueView:
        """Start jobs of a queue again [K2]."""
        return await self.pause(principal, name, paused=False)

    async def warm(self, principal: Principal, name: str) -> QueueView:
        """End the cool-down of a throttled queue now [O3]."""
        principal.require(Role.OPERATE)
        await self._check_known(name)
        await self._do(principal, lambda store: store.warm(name, force=True), audit.warmed(name))
        return await self.get(principal, name)

    async def set(self, principal: Principal, name: str, changes: Mapping[str, Any]) -> QueueView:
        """Change settings of a queue, or declare it [K1]."""
        principal.require(Role.OPERATE)
        check_name("queue", name)
        await self._change(principal, name, changes, lambda store: store.set_queue, audit.set_queue)
        return await self.get(principal, name)

    async def _check_known(self, name: str) -> None:
        """A mistyped name must not declare a queue."""
        check_name("queue", name)
        known = await self._store.ask(lambda store: store.queues())
        if name not in {queue.name for queue in known}:
            raise _not_found(name)


def _not_found(name: str) -> NotFound:
    return NotFound(f"there is no queue {name[:64]!r}; see the list of queues")
