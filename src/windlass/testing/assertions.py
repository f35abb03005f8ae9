"""Assertions about what was enqueued, and what was not. Plain functions that work in sync and async tests
alike.

Arguments are compared as they were stored, with defaults where nothing was passed, and only those that are
named: `assert_enqueued(app, send, "a@b.c")` holds whatever the template was. `queue`, `tag` and `count` are
filters; where a task has a parameter of such a name, pass it in `arguments={...}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windlass.core.counts import plural
from windlass.handles.details import JobDetails, details_of
from windlass.running.encoding import decode, encode
from windlass.store.records import JobFilter, JobRecord
from windlass.tasks.payload import POSITIONALS
from windlass.tasks.task import RegisteredTask, Task
from windlass.testing.draining import every

if TYPE_CHECKING:
    from windlass.app import Windlass


def enqueued(
    app: Windlass,
    task: Task[..., Any] | str | None = None,
    *args: Any,
    queue: str | None = None,
    tag: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> list[JobDetails]:
    """The jobs that fit, oldest first, in whatever state they are."""
    known = app.named(task) if isinstance(task, str) else task
    where = JobFilter(queue=queue, task=known.name if known else None, tag=tag)
    wanted = _wanted(known, args, {**kwargs, **(arguments or {})})
    found = [details_of(job, app.codec) for job in _all(app, where)]
    return [job for job in found if _fits(known, job.payload, wanted)]


def assert_enqueued(
    app: Windlass,
    task: Task[..., Any] | str,
    *args: Any,
    queue: str | None = None,
    tag: str | None = None,
    count: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> JobDetails:
    """Assert that a job fits (with `count`: exactly so many) and return the newest that does."""
    __tracebackhide__ = True
    found = enqueued(app, task, *args, queue=queue, tag=tag, arguments=arguments, **kwargs)
    if not found or (count is not None and len(found) != count):
        wish = _call(task, args, {**kwargs, **(arguments or {})})
        wish += f" on queue {queue}" if queue else ""
        wish += f" with tag {tag}" if tag else ""
        number = "one job" if count is None else plural(count, "job")
        raise AssertionError(f"expected {number} of {wish}, found {len(found)}; enqueued: {_listing(app)}")
    return found[-1]


def assert_not_enqueued(
    app: Windlass,
    task: Task[..., Any] | str | None = None,
    *args: Any,
    queue: str | None = None,
    tag: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Assert that no job fits; without a task: that nothing was enqueued at all."""
    __tracebackhide__ = True
    found = enqueued(app, task, *args, queue=queue, tag=tag, arguments=arguments, **kwargs)
    if found:
        wish = "anything" if task is None else _call(task, args, {**kwargs, **(arguments or {})})
        raise AssertionError(f"expected no job of {wish}, found {len(found)}; enqueued: {_listing(app)}")


def _all(app: Windlass, where: JobFilter) -> list[JobRecord]:
    handle = app._store_handle()
    call = handle.call if handle.clock is None else handle.call_here
    return call(lambda store: every(store, where))[::-1]


def _wanted(task: Task[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments to look for, by name (or place, where names are unknown), as JSON would have them."""
    if isinstance(task, RegisteredTask):
        named = task.signature.partial(args, kwargs)
    else:
        named = {**dict(zip(map(str, range(len(args))), args, strict=True)), **kwargs}
    plain: dict[str, Any] = decode(encode(named))
    return plain


def _fits(task: Task[..., Any] | None, payload: Any, wanted: dict[str, Any]) -> bool:
    args = payload if isinstance(payload, list) else payload.pop(POSITIONALS, [])
    kwargs = {} if isinstance(payload, list) else payload
    if isinstance(task, RegisteredTask):
        named = {**task.signature.defaults, **task.signature.partial(args, kwargs)}
        named = decode(encode({name: named[name] for name in wanted if name in named}))
    else:
        named = {**dict(zip(map(str, range(len(args))), args, strict=True)), **kwargs}
    return all(name in named and named[name] == value for name, value in wanted.items())


def _call(task: Task[..., Any] | str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    name = task if isinstance(task, str) else task.name
    shown = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
    return f"{name}({', '.join(shown)})"


def _listing(app: Windlass, most: int = 20) -> str:
    jobs = _all(app, JobFilter())
    shown = [(job, encode(details_of(job, app.codec).payload)) for job in jobs[:most]]
    lines = [f"\n  {job.task} {payload} on {job.queue}, {job.state.value}" for job, payload in shown]
    more = f"\n  and {len(jobs) - most} more" if len(jobs) > most else ""
    return "".join(lines) + more or "nothing"
