"""Workers: which there are, how each is doing, and how they did. Nothing here changes anything."""

from __future__ import annotations

from typing import Final

from windlass.core.rollup import HOUR
from windlass.operations.principal import Principal, Role
from windlass.presentation.text import iso, rounded
from windlass.store.measures import label_text
from windlass.web.http.problems import Invalid
from windlass.web.service import views
from windlass.web.service.measures import Shown, history
from windlass.web.service.shapes import WorkerPoint, WorkerView
from windlass.web.service.store_access import StoreAccess

_MACHINE: Final = ("machine_cpu", "machine_memory", "machine_total")


class Workers:
    """What can be seen of workers."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def all(self, principal: Principal) -> list[WorkerView]:
        """Every worker that is alive or still holds jobs."""
        principal.require(Role.READ)
        state = await self._store.state()
        return [views.worker_view(worker, state) for worker in state.workers]

    async def history(
        self, principal: Principal, worker: str = "", host: str = "", last: float = HOUR
    ) -> list[WorkerPoint]:
        """What gauges showed: those of a worker, by its label, those of a host, or those of all workers. One
        that is gone has its history, too."""
        principal.require(Role.READ)
        if worker and host:
            raise Invalid("name a worker or a host, not both", "host")
        rows = await history(self._store, last, "host" if host else "worker", label_text(host or worker))
        return [_point(each, alone=bool(worker)) for each in rows]


def _point(each: Shown, alone: bool) -> WorkerPoint:
    of = each.mean if alone else each.together
    return WorkerPoint(
        at=iso(each.at) or "",
        workers=rounded(each.workers()),
        **{name: rounded(of(name)) for name in ("cpu", "memory", "running", "slots")},
        **{name: rounded(each.mean(name)) for name in ("lag", *_MACHINE)},
        **{f"{name}_most": rounded(each.most(name)) for name in ("cpu", "memory", "lag")},
        **each.latency(),
    )
