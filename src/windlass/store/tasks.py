"""What a task's settings in the store may be [P6]. The stores written in Python share it; nothing is stored
here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.names import check_name
from windlass.store.changes import merged
from windlass.store.records import TaskRecord


def changed(old: TaskRecord, changes: Mapping[str, Any]) -> TaskRecord:
    """The task with these settings changed; None goes back to what the code says. Raises ValueError where one
    does not exist or makes no sense."""
    check_name("task", old.name)
    return merged("task", old.name, old, changes)


def is_empty(task: TaskRecord) -> bool:
    """Whether nothing is set, so that the store need not keep it."""
    return task == TaskRecord(name=task.name)
