"""Tasks: their settings in the store, what the code of this app says, and their counts [P6]."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from windlass.core.names import check_name
from windlass.core.rollup import Sample, with_ends
from windlass.operations.operation import Name, Ops, Settings, Subject
from windlass.operations.refusals import check_bounds, refusing
from windlass.presentation.audit import changes_in_words
from windlass.presentation.text import shaped
from windlass.store.fields import TaskRecord
from windlass.store.protocol import Store

tasks: Final = Subject("tasks")


class TaskView(TaskRecord, frozen=True, kw_only=True):
    """A task: its settings in the store, its settings in this app's code, and its counts."""

    known: bool
    """True if the app that serves this API has its code."""
    queue: str | None
    ready: int
    estimate: bool
    """True if only the first jobs of a long queue were counted."""
    counts: dict[str, int]
    """Since the store was made."""


class Tasks(msgspec.Struct, frozen=True):
    """Every task, by name."""

    tasks: list[TaskView]


Changes: TypeAlias = Annotated[Mapping[str, Any], Settings(TaskRecord)]


@tasks.get("/tasks")
async def list_tasks(ops: Ops) -> Tasks:
    """List tasks: their settings and counts

    All that the app, the store or the counters know. What was not changed in the store is as their code
    says."""
    return Tasks(await _views(ops, await ops.shared("tasks", 1.0, lambda store: store.tasks())))


@tasks.put("/tasks/{name}")
async def set_task(ops: Ops, name: Name, changes: Changes) -> TaskView:
    """Change the settings of a task"""
    with refusing():
        record = await change(ops, name, changes)
    return next(task for task in await _views(ops, [record]) if task.name == name)


async def change(ops: Ops, name: str, changes: Mapping[str, Any]) -> TaskRecord:
    """Change the settings of a task; handles call it, too. Raises ValueError for what makes no sense."""
    check_name("task", name)
    check_bounds(changes)
    record = await ops.store.set_task(name, changes)
    ops.did(f"set: {changes_in_words(changes)}", task=name)
    return record


async def _totals(store: Store) -> list[Sample]:
    return with_ends(await store.totals(), await store.ended())


async def _views(ops: Ops, kept: Iterable[TaskRecord]) -> list[TaskView]:
    records = {record.name: record for record in kept}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in await ops.shared("totals", 5.0, _totals):
        if row.task:
            counts[row.task].update(row.counts)
    ready: Counter[str] = Counter()
    estimates = set()
    for depth in await ops.shared("task_depths", 5.0, lambda store: store.task_depths()):
        ready[depth.task] += depth.ready
        if depth.estimate:
            estimates.add(depth.task)
    known = ops.app.tasks
    return [
        shaped(
            TaskView,
            records.get(name, TaskRecord(name=name)),
            known=name in known,
            queue=known[name].queue if name in known else None,
            ready=ready[name],
            estimate=name in estimates,
            counts=dict(counts[name]),
        )
        for name in sorted(records.keys() | counts.keys() | ready.keys() | known.keys())
    ]
