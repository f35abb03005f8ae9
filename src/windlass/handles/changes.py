"""Changes of a waiting job [E8]. `windlass.tasks.changes` reads and checks them: that needs the tasks of the
app."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from windlass.core.durations import Duration
from windlass.core.states import Priority, PriorityName


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
