"""A context without a worker, for tests that call a task directly: `Context.for_test(...)`."""

from __future__ import annotations

import asyncio
import time
import typing
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypedDict

from msgspec.structs import replace

from windlass.chunks.batches import BATCH, BATCH_TIMEOUT, Work
from windlass.chunks.items import ItemReader
from windlass.chunks.parts import Part
from windlass.errors import ConfigurationError, InvalidOption
from windlass.running import loopthread
from windlass.running.context import Context
from windlass.running.encoding import decode, encode
from windlass.store.records import (
    SIGNAL,
    TIMEOUT,
    Awaited,
    Checkpoint,
    ClaimedJob,
    KeptResult,
    Options,
    Outcome,
    PartOf,
    PartPlan,
    Plan,
    Step,
    TaskRecord,
    Wait,
)


class TestFields(TypedDict, total=False):
    """The fields of `Context.for_test(...)` besides the task's name."""

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
    """The value that an earlier attempt has saved."""
    signals: Iterable[tuple[str, Any]]
    """The signals that it was sent, oldest first, each with its value. A wait for any other times out at
    once."""
    connection: Any
    """The connection that `async with ctx.transaction()` yields. Beginning and committing it is the test's
    own business."""


class TestPartFields(TestFields, total=False):
    """The fields of `Part.for_test(...)` besides the task's name."""

    parent: int
    index: int
    total: int
    span: Any
    """The span of the part, for handlers that look at it themselves."""
    records: Iterable[Any]
    """The records of its batches."""


class TestContext(Context):
    """A context that keeps in memory what its handler saves."""

    __test__ = False  # pytest collects classes called Test…
    __slots__ = ()
    _port: _Memory

    @property
    def written(self) -> list[tuple[Any, int | None, int | None]]:
        """Every checkpoint that was written, oldest first, as (data, done, total)."""
        return self._port.decoded()

    @property
    def emitted(self) -> list[Any]:
        """Everything that was emitted, in order, as a reader will have it."""
        return [decode(text) for text in self._port.emitted.texts]

    def cancel(self) -> None:
        """Ask the handler to stop, as `job.cancel()` would."""
        self._cancel()

    def __init__(self, task: str, fields: TestFields) -> None:
        _check(fields, TestFields)
        super().__init__(_claimed(task, fields), _Memory(fields))


class TestPart(Part):
    """A part that keeps in memory what its handler saves, and whose records are given."""

    __test__ = False
    __slots__ = ()
    _port: _Memory

    def __init__(self, task: str, fields: TestPartFields) -> None:
        _check(fields, TestPartFields)
        if not isinstance(task, str):
            raise InvalidOption(f"{task!r} is no name of a task; write Part.for_test(records=[…])")
        records = list(fields.get("records", ()))
        part = PartOf(
            parent=fields.get("parent", 1),
            index=fields.get("index", 0),
            total=fields.get("total", 1),
            span=encode(fields.get("span")),
            size=len(records),
            created_at=fields.get("enqueued_at", time.time()),
        )
        super().__init__(_claimed(task, fields, part), _Memory(fields))
        self._work = Work(self, _Given(records), {}, batch=BATCH, timeout=BATCH_TIMEOUT)

    @property
    def written(self) -> list[tuple[Any, int | None, int | None]]:
        """Every checkpoint that was written, oldest first, as (data, done, total)."""
        return self._port.decoded()

    @property
    def emitted(self) -> list[Any]:
        """Everything that was emitted, in order, as a reader will have it."""
        return [decode(text) for text in self._port.emitted.texts]

    def cancel(self) -> None:
        """Ask the handler to stop, as `job.cancel()` would."""
        self._cancel()


class _Given:
    """A splitter of one part, whose records are there as they are."""

    unit = "items"

    def __init__(self, records: list[Any]) -> None:
        self._records = records

    def plan(self, arguments: Mapping[str, Any]) -> list[PartPlan]:
        return [PartPlan("null", len(self._records))]

    def read(self, span: Any, arguments: Mapping[str, Any], cursor: Any) -> ItemReader:
        return ItemReader(self._records, cursor)


def _check(fields: Mapping[str, Any], kind: type[TestFields]) -> None:
    names = typing.get_type_hints(kind)
    unknown = fields.keys() - names.keys()
    if unknown:
        known = ", ".join(names)
        raise InvalidOption(f"a context has no field {', '.join(sorted(unknown))}; known: {known}")


def _claimed(task: str, fields: TestFields, part: PartOf | None = None) -> ClaimedJob:
    options = Options(
        max_attempts=fields.get("max_attempts", 5),
        tags=tuple(fields.get("tags", ())),
        headers=dict(fields.get("headers", {})),
        trace=fields.get("trace"),
        part=part,
    )
    return ClaimedJob(
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


class _Emitted:
    """A stream that keeps everything."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def put(self, text: str) -> bool:
        self.texts.append(text)
        return False

    async def room(self) -> None: ...

    async def settle(self) -> None: ...

    async def close(self) -> None: ...


class _Memory:
    """A port to nowhere."""

    def __init__(self, fields: TestFields) -> None:
        self.worker = fields.get("worker", 1)
        self.written: list[Checkpoint] = []
        self.steps_done: dict[str, Step] = {}
        self.emitted = _Emitted()
        self._first = Checkpoint(encode(fields["saved"])) if "saved" in fields else None
        self._fields = fields
        self._signals = [(name, encode(value)) for name, value in fields.get("signals", ())]

    def decoded(self) -> list[tuple[Any, int | None, int | None]]:
        return [(decode(each.data), each.done, each.total) for each in self.written]

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop thread's where no loop runs, so that plain handlers can wait for it."""
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            return loopthread.current().loop

    async def load(self, job: ClaimedJob) -> Checkpoint | None:
        return self.written[-1] if self.written else self._first

    async def results(self, jobs: Sequence[int]) -> dict[int, KeptResult]:
        raise ConfigurationError("memory has no jobs whose results could be read; call the handler with them")

    async def group_jobs(self, group: int) -> tuple[int, ...]:
        raise ConfigurationError("memory has no groups; call the handler with the results of their jobs")

    async def save(self, job: ClaimedJob, checkpoint: Checkpoint, connection: Any = None) -> None:
        self.written.append(checkpoint)

    async def save_step(self, job: ClaimedJob, step: Step) -> Step:
        kept = self.steps_done.setdefault(step.name, step)
        return kept if kept.sleep is None else replace(kept, sleep=None, left=0.0)  # nobody waits in a test

    @asynccontextmanager
    async def saving_step(self, job: ClaimedJob, step: Callable[[], Step]) -> AsyncIterator[Any]:
        yield self._connection
        await self.save_step(job, step())

    async def spent(self, job: ClaimedJob, budget: str, tokens: int) -> None:
        """Nothing was taken, so nothing is settled."""

    async def steps(self, job: ClaimedJob) -> list[Step]:
        return [await self.save_step(job, step) for step in list(self.steps_done.values())]

    async def wait_for_signal(self, job: ClaimedJob, wait: Wait) -> Awaited:
        for sent in self._signals:
            if sent[0] == wait.signal:
                self._signals.remove(sent)
                return Awaited(await self.save_step(job, Step(name=wait.name, result=sent[1], code=SIGNAL)))
        if wait.timeout is None:
            raise ConfigurationError(
                f"nobody sends signal {wait.signal!r} in this test, and the handler waits for ever: write "
                f"Context.for_test(signals=[({wait.signal!r}, …)])"
            )
        return Awaited(await self.save_step(job, Step(name=wait.name, code=TIMEOUT)))

    def stream(self, job: ClaimedJob) -> _Emitted:
        return self.emitted

    async def split(self, job: ClaimedJob, plan: Plan) -> None:
        raise ConfigurationError("memory has no store that could split a job; call the handler with a part")

    def span(self, task: str, part: PartOf) -> str:
        return part.span

    async def settings(self, task: str, *, fresh: bool = False) -> TaskRecord:
        return TaskRecord(name=task)

    @asynccontextmanager
    async def saving(self, job: ClaimedJob, checkpoint: Callable[[], Checkpoint]) -> AsyncIterator[Any]:
        yield self._connection
        self.written.append(checkpoint())

    @property
    def _connection(self) -> Any:
        if "connection" not in self._fields:
            raise ConfigurationError(
                "memory has no transactions; pass the connection to yield: for_test(connection=…)"
            )
        return self._fields["connection"]

    def transaction(
        self, job: ClaimedJob, outcome: Callable[[], Outcome]
    ) -> AbstractAsyncContextManager[Any]:
        return self._transaction(self._connection, outcome)

    @asynccontextmanager
    async def _transaction(self, connection: Any, outcome: Callable[[], Outcome]) -> AsyncIterator[Any]:
        yield connection
        outcome()
