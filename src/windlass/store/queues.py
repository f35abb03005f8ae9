"""What a queue's settings may be [K1]. Nothing is stored here. The stores written in Python share all of it;
PostgreSQL compares settings with each other itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from windlass.store.changes import merged
from windlass.store.records import QUEUE_SETTINGS, QueueRecord

_NEVER_ZERO: Final = frozenset({
    "max_workers", "window", "safety_bound", "cool_base", "cool_cap", "concurrency", "rate_max",
    "max_depth", "shed_depth", "shed_wait", "shed_latency",
})  # fmt: skip
"""Where 0 would stop the queue, or end every run at once; to stop a queue there is `paused`."""


def check(name: str, changes: Mapping[str, Any]) -> None:
    """Raises ValueError where a setting does not exist or makes no sense, whatever the others are."""
    merged("queue", name, QueueRecord(name=name), changes, QUEUE_SETTINGS, _check_number)


def changed(old: QueueRecord, changes: Mapping[str, Any]) -> QueueRecord:
    """The queue with these settings changed. Raises ValueError where one does not exist or makes no sense."""
    new = merged("queue", old.name, old, changes, QUEUE_SETTINGS, _check_number)
    if new.rate_min > new.rate_max:
        raise ValueError(f"rate_min of queue {old.name!r} cannot be above its rate_max, {new.rate_max:g}")
    return new


def _check_number(queue: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return  # its type is for `convert` to judge
    least = "more than 0" if name in _NEVER_ZERO else "0 or more"
    if not math.isfinite(value) or value < 0 or (value == 0 and name in _NEVER_ZERO):
        raise ValueError(f"{name} of queue {queue!r} cannot be {value!r}: write {least}")
