"""What a queue's settings may be [K1]. The stores written in Python share it; nothing is stored here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass.store.records import QUEUE_SETTINGS, QueueRecord

_NEVER_ZERO: Final = frozenset({"max_workers", "window", "safety_bound", "cool_base", "cool_cap"})
"""Where 0 would stop the queue, or end every run at once; to stop a queue there is `paused`."""


def changed(old: QueueRecord, changes: Mapping[str, Any]) -> QueueRecord:
    """The queue with these settings changed. Raises ValueError where one does not exist or makes no sense."""
    unknown = set(changes) - QUEUE_SETTINGS
    if unknown:
        raise ValueError(
            f"a queue has no setting called {', '.join(sorted(unknown))}; there are "
            f"{', '.join(sorted(QUEUE_SETTINGS))}"
        )
    for name, value in changes.items():
        _check_number(old.name, name, value)
    try:
        return msgspec.convert({**msgspec.structs.asdict(old), **changes}, QueueRecord)
    except msgspec.ValidationError as error:
        raise ValueError(f"a setting of queue {old.name!r} is wrong: {error}") from error


def _check_number(queue: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return  # its type is for `convert` to judge
    least = "more than 0" if name in _NEVER_ZERO else "0 or more"
    if not math.isfinite(value) or value < 0 or (value == 0 and name in _NEVER_ZERO):
        raise ValueError(f"{name} of queue {queue!r} cannot be {value!r}: write {least}")
