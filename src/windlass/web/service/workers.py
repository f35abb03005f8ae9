"""Workers: which there are, and how each is doing. Nothing here changes anything."""

from __future__ import annotations

from windlass.web.http.principal import Principal, Role
from windlass.web.service import views
from windlass.web.service.shapes import WorkerView
from windlass.web.service.store_access import StoreAccess


class Workers:
    """What can be seen of workers."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def all(self, principal: Principal) -> list[WorkerView]:
        """Every worker that is alive or still holds jobs."""
        principal.require(Role.READ)
        state = await self._store.state()
        return [views.worker_view(worker, state) for worker in state.workers]
