"""What a task's settings in the store may be [P6]. The stores written in Python share it; nothing is stored
here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from windlass.core.names import check_name
from windlass.store.changes import merged
from windlass.store.records import TASK_SETTINGS, TaskRecord


def changed(old: TaskRecord, changes: Mapping[str, Any]) -> TaskRecord:
    """The task with these settings changed; None goes back to what the code says. Raises ValueError where one
    does not exist or makes no sense."""
    check_name("task", old.name)
    return merged("task", old.name, old, changes, TASK_SETTINGS, _check)


def is_empty(task: TaskRecord) -> bool:
    """Whether nothing is set, so that the store need not keep it."""
    return task == TaskRecord(name=task.name)


def _check(task: str, name: str, value: Any) -> None:
    if value is None:
        return
    if name == "batch_timeout":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value <= 0:
            raise ValueError(f"{name} of task {task!r} cannot be {value!r}: write seconds, more than 0")
    elif type(value) is not int or value < 1:
        raise ValueError(f"{name} of task {task!r} cannot be {value!r}: write a whole number from 1")
