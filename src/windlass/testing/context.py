"""A context without a worker, for tests that call a task directly: `Context.for_test(...)`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypedDict

from windlass import loopthread
from windlass.context import Context
from windlass.encoding import decode, encode
from windlass.errors import ConfigurationError, InvalidOption
from windlass.store.records import Checkpoint, ClaimedJob, Options, Outcome


class TestFields(TypedDict, total=False):
    """What `Context.for_test(...)` takes besides the task's name."""

    id: int
    queue: str
    attempt: int
    max_attempts: int
    deaths: int
    fence: int
    worker: int
    tags: Iterable[str]
    headers: Mapping[str, str]
    trace: str
    enqueued_at: float
    """Seconds since the epoch; now by default."""
    saved: Any
    """What an earlier attempt has saved."""
    connection: Any
    """What `async with ctx.transaction()` yields. Beginning and committing it is the test's own business."""


class TestContext(Context):
    """A context that keeps in memory what its handler saves."""

    __test__ = False  # pytest collects classes called Test…
    __slots__ = ("_memory",)

    def __init__(self, task: str, fields: TestFields) -> None:
        unknown = fields.keys() - TestFields.__annotations__.keys()
        if unknown:
            known = ", ".join(TestFields.__annotations__)
            raise InvalidOption(f"a context has no field {', '.join(sorted(unknown))}; known: {known}")
        options = Options(
            max_attempts=fields.get("max_attempts", 5),
            tags=tuple(fields.get("tags", ())),
            headers=dict(fields.get("headers", {})),
            trace=fields.get("trace"),
        )
        job = ClaimedJob(
            id=fields.get("id", 1),
            lane=0,
            claim=fields.get("fence", 1),
            seq=1,
            task=task,
            payload="{}",
            queue=fields.get("queue", "default"),
            priority=0,
            attempt=fields.get("attempt", 1),
            deaths=fields.get("deaths", 0),
            options=options,
            enqueued_at=fields.get("enqueued_at", time.time()),
        )
        self._memory = _Memory(fields)
        super().__init__(job, self._memory)

    @property
    def written(self) -> list[tuple[Any, int | None, int | None]]:
        """Every checkpoint that was written, oldest first, as (data, done, total)."""
        return [(decode(each.data), each.done, each.total) for each in self._memory.written]

    def cancel(self) -> None:
        """Ask the handler to stop, as `job.cancel()` would."""
        self._cancel()


class _Memory:
    """A port to nowhere."""

    def __init__(self, fields: TestFields) -> None:
        self.worker = fields.get("worker", 1)
        self.written: list[Checkpoint] = []
        self._first = Checkpoint(encode(fields["saved"])) if "saved" in fields else None
        self._fields = fields

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop thread's where no loop runs, so that plain handlers can wait for it."""
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            return loopthread.current().loop

    async def load(self, job: ClaimedJob) -> Checkpoint | None:
        return self.written[-1] if self.written else self._first

    async def save(self, job: ClaimedJob, checkpoint: Checkpoint) -> None:
        self.written.append(checkpoint)

    def transaction(
        self, job: ClaimedJob, outcome: Callable[[], Outcome]
    ) -> AbstractAsyncContextManager[Any]:
        if "connection" not in self._fields:
            raise ConfigurationError(
                "memory has no transactions; pass the connection to yield: Context.for_test(connection=…)"
            )
        return self._transaction(outcome)

    @asynccontextmanager
    async def _transaction(self, outcome: Callable[[], Outcome]) -> AsyncIterator[Any]:
        yield self._fields["connection"]
        outcome()
