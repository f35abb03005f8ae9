"""What can be seen of schedules, budgets, gates, watermarks and tasks through the desk [F1] [F6] [K4].
Nothing here changes anything."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from windlass.core.names import check_name
from windlass.core.rollup import Sample
from windlass.store.flow import ScheduleRecord
from windlass.store.measures import TaskDepth
from windlass.store.protocol import Store
from windlass.store.records import TaskRecord
from windlass.web import views
from windlass.web.asking import Asking
from windlass.web.shapes import BudgetView, ScheduleView, TaskView
from windlass.web.who import Role, Who
from windlass.words.flow_shapes import GateShape, WatermarkShape, gate_shape, watermark_shape

MOST_LISTED: Final = 500


class Flowing(Asking):
    """What steers the flow of jobs."""

    async def schedules(self, who: Who) -> list[ScheduleView]:
        """Every schedule, by name."""
        who.must(Role.READ)

        async def ask(store: Store) -> list[ScheduleRecord]:
            return await store.schedules()

        found = await self.shared("schedules", 1.0, ask)
        now = await self.now()
        return [views.schedule_view(schedule, now) for schedule in found]

    async def budgets(self, who: Who) -> list[BudgetView]:
        """Every budget, by name."""
        who.must(Role.READ)
        found = await self.shared("budgets", 1.0, lambda store: store.budgets())
        return [views.budget_view(budget) for budget in found]

    async def gates(self, who: Who, limit: int = 100) -> list[GateShape]:
        """Gates that jobs wait at, the longest wait first."""
        who.must(Role.READ)
        limit = max(1, min(limit, MOST_LISTED))
        found = await self.shared(("gates", limit), 1.0, lambda store: store.gates(limit))
        return [gate_shape(gate) for gate in found]

    async def watermarks(
        self, who: Who, queue: str, key: str | None = None, limit: int = 100
    ) -> list[WatermarkShape]:
        """The ordering keys of a queue, by key."""
        who.must(Role.READ)
        check_name("queue", queue)
        limit = max(1, min(limit, MOST_LISTED))
        found = await self.ask(lambda store: store.watermarks(queue, key=key, limit=limit))
        return [watermark_shape(mark) for mark in found]

    async def tasks(self, who: Who) -> list[TaskView]:
        """Every task that the app, the store or the counters know, by name."""
        who.must(Role.READ)
        kept = await self.shared("tasks", 1.0, lambda store: store.tasks())
        totals = await self.shared("totals", 5.0, lambda store: store.totals())
        depths = await self.shared("task_depths", 5.0, lambda store: store.task_depths())
        return self._tasks({record.name: record for record in kept}, totals, depths)

    def _tasks(
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
        known = self.app.tasks
        views = []
        for name in sorted(kept.keys() | counts.keys() | ready.keys() | known.keys()):
            record = kept.get(name, TaskRecord(name=name))
            views.append(
                TaskView(
                    name=name,
                    known=name in known,
                    queue=known[name].queue if name in known else None,
                    batch=record.batch,
                    batch_timeout=record.batch_timeout,
                    parallel=record.parallel,
                    concurrency=record.concurrency,
                    key_concurrency=record.key_concurrency,
                    ready=ready[name],
                    estimate=name in estimates,
                    counts=dict(counts[name]),
                )
            )
        return views
