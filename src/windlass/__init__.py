"""Windlass: a durable job engine for Python, on an embedded SQLite file or on PostgreSQL.

    from windlass import Retry, Windlass

    app = Windlass()

    @app.task(queue="mail", retry=Retry(5, base="5s"), timeout="30s")
    async def send(to: str, template: str) -> None: ...

    send.enqueue("a@b.c", template="welcome")
    app.run_until_idle()

The names below are the public face. Exceptions live in `windlass.errors`, the kit for users' tests in
`windlass.testing`, tables that mirror a source in `windlass.sets`, what a splitter has to be in
`windlass.chunks`, what a codec has to be in `windlass.codec`, who may use Mission Control in `windlass.web`,
and what goes with other packages in `windlass.contrib.django`, `.encryption` and `.otel`. Of these,
`docs/reference/python.md` has every public name; everything else may change without notice.
"""

from windlass.app import Windlass
from windlass.budget import Budget
from windlass.chunks.items import Items, planner
from windlass.chunks.ndjson import NDJSON
from windlass.chunks.parts import Part
from windlass.chunks.ranges import Ranges, Shards
from windlass.context import Context, current_context
from windlass.core.states import Priority, State
from windlass.errors import WindlassError
from windlass.job import Job
from windlass.parent import Parent
from windlass.signals import Cancelled, Dead, Retry, Snooze, SourceGone, Throttled
from windlass.task import Task
from windlass.version import __version__
from windlass.worker.pool import WarmPool

__all__ = [
    "NDJSON",
    "Budget",
    "Cancelled",
    "Context",
    "Dead",
    "Items",
    "Job",
    "Parent",
    "Part",
    "Priority",
    "Ranges",
    "Retry",
    "Shards",
    "Snooze",
    "SourceGone",
    "State",
    "Task",
    "Throttled",
    "WarmPool",
    "Windlass",
    "WindlassError",
    "__version__",
    "current_context",
    "planner",
]
