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

A name is imported when it is first used: the command and the test plugin need few of them.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.chunks.items import Items, planner
    from windlass.chunks.ndjson import NDJSON
    from windlass.chunks.parts import Part
    from windlass.chunks.ranges import Ranges, Shards
    from windlass.core.states import Priority, State
    from windlass.endings import Cancelled, Dead, Retry, Snooze, SourceGone, Throttled
    from windlass.errors import WindlassError
    from windlass.handles.budget import Budget
    from windlass.handles.events import StreamEvent
    from windlass.handles.group import Group
    from windlass.handles.job import Job
    from windlass.handles.parent import Parent
    from windlass.handles.progress import JobProgress
    from windlass.handles.queue import Queue
    from windlass.handles.results import result_of, results_of
    from windlass.running.context import Context, current_context
    from windlass.tasks.costs import Cost
    from windlass.tasks.task import Task
    from windlass.worker.handlers.pool import WarmPool

__version__ = "0.1.0"

__all__ = [
    "NDJSON",
    "Budget",
    "Cancelled",
    "Context",
    "Cost",
    "Dead",
    "Group",
    "Items",
    "Job",
    "JobProgress",
    "Parent",
    "Part",
    "Priority",
    "Queue",
    "Ranges",
    "Retry",
    "Shards",
    "Snooze",
    "SourceGone",
    "State",
    "StreamEvent",
    "Task",
    "Throttled",
    "WarmPool",
    "Windlass",
    "WindlassError",
    "__version__",
    "current_context",
    "planner",
    "result_of",
    "results_of",
]

_HOMES: Final = {
    "app": ("Windlass",),
    "chunks.items": ("Items", "planner"),
    "chunks.ndjson": ("NDJSON",),
    "chunks.parts": ("Part",),
    "chunks.ranges": ("Ranges", "Shards"),
    "core.states": ("Priority", "State"),
    "errors": ("WindlassError",),
    "handles.budget": ("Budget",),
    "handles.events": ("StreamEvent",),
    "handles.group": ("Group",),
    "handles.job": ("Job",),
    "handles.parent": ("Parent",),
    "handles.progress": ("JobProgress",),
    "handles.queue": ("Queue",),
    "handles.results": ("result_of", "results_of"),
    "running.context": ("Context", "current_context"),
    "endings": ("Cancelled", "Dead", "Retry", "Snooze", "SourceGone", "Throttled"),
    "tasks.costs": ("Cost",),
    "tasks.task": ("Task",),
    "worker.handlers.pool": ("WarmPool",),
}
"""The homes of the names imported above, for the running program; tests/house compares both."""

_MODULES: Final = ("app", "codec", "endings", "errors", "settings")
"""Modules that `import windlass` gives access to besides."""

if not TYPE_CHECKING:  # type checkers would take any name for one of ours

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"windlass.{name}")
        for home, names in _HOMES.items():
            if name in names:
                globals()[name] = value = getattr(import_module(f"windlass.{home}"), name)
                return value
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
