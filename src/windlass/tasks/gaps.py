"""The reconciler: a task may say what is missing, and it is enqueued [K5].

    @embed.find_gaps(every="5m")
    def missing() -> Iterator[dict[str, str]]:
        for operation in catalog.without_vector():
            yield {"operation": operation}

`find_gaps` yields the arguments of jobs to enqueue, each as a tuple of positional or a mapping of named ones.
It runs when a worker starts and every [5 min], once for the whole cluster, as a job of the built-in task
`windlass.reconcile`: so it is retried, logged and seen like any other. Each job that it enqueues has a unique
key, by default made of its task and arguments; one that is under way is not enqueued again, and a key whose
runs keep dying is parked [O7].
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterable, Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from windlass.core.durations import Duration, seconds
from windlass.core.retry import GIVE_UP_AFTER
from windlass.endings import Snooze, SourceGone
from windlass.errors import ConfigurationError
from windlass.running.context import Context
from windlass.store.fields import MAX_KEY
from windlass.store.records import NewJob, Receipt

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.tasks.task import RegisteredTask

RECONCILE: Final = "windlass.reconcile"
EVERY: Final = 300.0
AT_A_TIME: Final = 500
ELSEWHERE: Final = 10.0

Key = Callable[..., str]


class Reconciled(msgspec.Struct, frozen=True):
    """The result of one pass: what it found missing, and did."""

    found: int = 0
    enqueued: int = 0
    under_way: int = 0
    """There was a job of this key already."""
    parked: int = 0
    """The last runs of this key have all died, so it waits a while [O7]."""


class Gaps:
    """How one task finds what is missing."""

    def __init__(self, task: RegisteredTask[..., Any], find: Any, every: Duration, key: Key | None) -> None:
        if not callable(find):
            raise ConfigurationError(f"task {task.name}: find_gaps({find!r}) needs a function")
        try:
            self.every: Final = seconds(every)
        except ValueError as error:
            raise ConfigurationError(f"task {task.name}: find_gaps(every={every!r}): {error}") from None
        if self.every < 1:
            raise ConfigurationError(f"task {task.name}: find_gaps(every={every!r}) must be at least 1 s")
        self._task = task
        self._find = find
        self._key = key

    async def fill(self) -> Reconciled:
        """Find what is missing and enqueue it, some hundreds at a time."""
        counts = {"found": 0, "enqueued": 0, "under_way": 0, "parked": 0}
        producer = self._task.app._producer

        async def send(calls: list[Any]) -> None:
            for receipt in await producer.asend([self._job(call) for call in calls]):
                counts["found"] += 1
                counts[_count(receipt)] += 1

        found = self._find() if _is_async(self._find) else await asyncio.to_thread(self._find)
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, AsyncIterable):
            batch: list[Any] = []
            async for call in found:
                batch.append(call)
                if len(batch) == AT_A_TIME:
                    await send(batch)
                    batch = []
            await send(batch)
        else:
            rest = iter(found)
            while calls := await asyncio.to_thread(_some, rest):
                await send(calls)
        return Reconciled(**counts)

    def _job(self, call: Any) -> NewJob:
        task = self._task
        if isinstance(call, Mapping):
            args, kwargs = (), dict(call)
        elif isinstance(call, tuple | list):
            args, kwargs = tuple(call), {}
        else:
            raise ConfigurationError(
                f"task {task.name}: find_gaps gave {call!r}; it gives the arguments of one job at a time, as "
                "a tuple or a mapping"
            )
        payload = task._encode(args, kwargs)
        job = task._job(payload)
        key = self._key(*args, **kwargs) if self._key is not None else job.options.unique_key
        key = key or default_key(task.name, payload, readable=task.app.codec is None)
        options = msgspec.structs.replace(job.options, unique_key=key)
        return msgspec.structs.replace(job, options=options, on_conflict="skip", automatic=True)


def default_key(task: str, payload: str, *, readable: bool = True) -> str:
    """The unique key of a job that has none of its own: its task and arguments, as a hash where they are too
    long or nobody should read them."""
    text = f"{task}:{payload}"
    if readable and len(text) <= MAX_KEY and text.isprintable():
        return text
    from hashlib import blake2b  # loads OpenSSL, and few apps ask for this

    return f"{task}:{blake2b(payload.encode(), digest_size=16).hexdigest()}"


def reconciler(app: Windlass) -> Callable[..., Any]:
    """The handler of `windlass.reconcile` for this app."""

    async def reconcile(ctx: Context, task: str) -> Reconciled:
        """Enqueue what this task's `find_gaps` says is missing."""
        known = app.tasks.get(task)
        if known is None or known.gaps is None:
            if time.time() - ctx.enqueued_at.timestamp() >= GIVE_UP_AFTER:
                raise SourceGone(f"for a day no worker has had a find_gaps function for task {task}")
            raise Snooze(ELSEWHERE)  # another worker's code knows it, or knew it
        return await known.gaps.fill()

    return reconcile


def _count(receipt: Receipt) -> str:
    match receipt.status:
        case "parked":
            return "parked"
        case "skipped" | "rerun" | "repeated":
            return "under_way"
        case _:
            return "enqueued"


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _some(rest: Iterator[Any]) -> list[Any]:
    return list(islice(rest, AT_A_TIME))
