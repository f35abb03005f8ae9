"""Changes of a waiting job [E8]. How it is read and checked, `windlass.tasks.changes` says: that
needs the tasks of the app."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypedDict

from windlass.core.durations import Duration
from windlass.core.states import Priority, PriorityName
from windlass.store.records import JobChange, JobRecord


class JobChanges(TypedDict, total=False):
    """The arguments of `job.change(...)`: options as `task.using(...)` has them, and arguments as a whole."""

    queue: str
    priority: Priority | PriorityName | int
    delay: Duration
    run_at: datetime | float
    max_attempts: int
    timeout: Duration
    needs: Iterable[str] | str
    """Abilities; none, as [], for any worker."""
    tags: Iterable[str]
    headers: Mapping[str, str]
    args: Sequence[Any]
    """Its positional arguments, in the place of all that it had."""
    kwargs: Mapping[str, Any]
    """Its named arguments, in the place of all that it had."""


ChangeReader: TypeAlias = Callable[[JobRecord, Mapping[str, Any]], JobChange]
"""Checks what is asked for of a job and reads it. Raises an EnqueueError."""
