"""Tasks: their settings in the store, what the code of this app says, and their counters [P6]."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from windlass.core.names import check_name
from windlass.core.rollup import Sample, with_ends
from windlass.operations.principal import Principal, Role
from windlass.presentation import audit
from windlass.presentation.text import shaped
from windlass.store.fields import TaskRecord
from windlass.store.protocol import Store
from windlass.store.records import TaskDepth
from windlass.web.service.audit import Actions, Audit
from windlass.web.service.shapes import TaskView
from windlass.web.service.store_access import StoreAccess

if TYPE_CHECKING:
    from windlass.app import Windlass


async def _totals(store: Store) -> list[Sample]:
    return with_ends(await store.totals(), await store.ended())


class Tasks(Actions):
    """What can be seen of tasks and done to them."""

    def __init__(self, app: Windlass, store: StoreAccess, audit: Audit) -> None:
        super().__init__(store, audit)
        self._app = app

    async def all(self, principal: Principal) -> list[TaskView]:
        """Every task that the app, the store or the counters know, by name."""
        principal.require(Role.READ)
        kept = await self._store.shared("tasks", 1.0, lambda store: store.tasks())
        totals = await self._store.shared("totals", 5.0, _totals)
        depths = await self._store.shared("task_depths", 5.0, lambda store: store.task_depths())
        return self._views({record.name: record for record in kept}, totals, depths)

    async def set(self, principal: Principal, name: str, changes: Mapping[str, Any]) -> TaskView:
        """Change settings of a task. None restores what its code says [P6]."""
        principal.require(Role.OPERATE)
        check_name("task", name)
        record = await self._change(principal, name, changes, lambda store: store.set_task, audit.set_task)
        return next(task for task in self._views({name: record}) if task.name == name)

    def _views(
        self,
        kept: Mapping[str, TaskRecord],
        totals: Iterable[Sample] = (),
        depths: Iterable[TaskDepth] = (),
    ) -> list[TaskView]:
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for row in totals:
            if row.task:
                counts[row.task].update(row.counts)
        ready: Counter[str] = Counter()
        estimates = set()
        for depth in depths:
            ready[depth.task] += depth.ready
            if depth.estimate:
                estimates.add(depth.task)
        known = self._app.tasks
        return [
            shaped(
                TaskView,
                kept.get(name, TaskRecord(name=name)),
                known=name in known,
                queue=known[name].queue if name in known else None,
                ready=ready[name],
                estimate=name in estimates,
                counts=dict(counts[name]),
            )
            for name in sorted(kept.keys() | counts.keys() | ready.keys() | known.keys())
        ]
