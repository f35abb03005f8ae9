"""What a queue's settings may be [K1], beside what each field says for itself. Nothing is stored here. The
stores written in Python share all of it; PostgreSQL compares settings with each other itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.store.changes import merged
from windlass.store.records import QueueRecord


def check(name: str, changes: Mapping[str, Any]) -> None:
    """Raises ValueError where a setting does not exist or makes no sense, whatever the others are."""
    merged("queue", name, QueueRecord(name=name), changes)


def changed(old: QueueRecord, changes: Mapping[str, Any]) -> QueueRecord:
    """The queue with these settings changed. Raises ValueError where one does not exist or makes no sense."""
    new = merged("queue", old.name, old, changes)
    if new.rate_min > new.rate_max:
        raise ValueError(f"rate_min of queue {old.name!r} cannot be above its rate_max, {new.rate_max:g}")
    return new
