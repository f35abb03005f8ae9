"""The calls of handlers to the worker that runs them: checkpoints, and a transaction in which their job ends.

It is the `Port` of `windlass.running.port`. Every write is fenced by the worker and the claim, and a refused
one is counted [C5]. What handlers save is encoded and decoded by the app's codec here.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

from windlass.chunks.task import warn_of_long_batch
from windlass.codec import NULL, Codec, Purpose, seal, unseal
from windlass.core.counts import plural
from windlass.core.retry import Backoff
from windlass.errors import ClaimLost, InvalidOption, StoreError, StoreUnavailable, WorkerLost
from windlass.running.emitting import Emitter, RunStream
from windlass.running.outages import OutageLog
from windlass.store.protocol import Store
from windlass.store.records import (
    SIGNAL,
    Awaited,
    Checkpoint,
    ClaimedJob,
    Fence,
    KeptResult,
    KnownSteps,
    Outcome,
    PartOf,
    Plan,
    Step,
    TaskRecord,
    Wait,
)
from windlass.worker.handlers.spending import Spending
from windlass.worker.reports.recorder import Recorder

T = TypeVar("T")
logger: Final = logging.getLogger("windlass.worker")
PAUSES: Final = Backoff(0.05, 5.0, jitter=0.5)
SETTINGS_KEPT: Final = 2.0
"""Seconds that settings of tasks are used before they are read again [P6]."""


class Writes(Protocol):
    """The outcome log of the worker, as far as handlers write beside it."""

    @property
    def record(self) -> Recorder:
        """Return what the process reports."""

    def next_number(self) -> int:
        """Return the number of the worker's next write."""

    def refuse(self, job: ClaimedJob) -> None:
        """Count a write that the fence has refused [C5]."""


class HandlerPort:
    """The port that the contexts of one worker's handlers talk to."""

    def __init__(
        self,
        store: Store,
        worker: int,
        log: Writes,
        loop: asyncio.AbstractEventLoop,
        lease: float,
        codec: Codec | None = None,
        spending: Spending | None = None,
    ) -> None:
        self._store = store
        self._codec = codec
        self._spending = spending
        self._log = log
        self._outages = OutageLog(logger)
        self._split: set[Fence] = set()
        self._settings: dict[str, TaskRecord] = {}
        self._settings_at = float("-inf")
        self._lease = lease
        self._long_batches: dict[str, float] = {}
        """The batch timeouts beyond the lease that were warned of."""
        self.worker = worker
        self.loop = loop
        self._emitter = Emitter(store, worker, loop, codec, log.refuse)

    async def load(self, job: ClaimedJob) -> Checkpoint | None:
        """The job's last checkpoint."""
        found = (await self._insist(lambda: self._store.checkpoints([job.id]))).get(job.id)
        if found is None:
            return None
        data = unseal(self._codec, found.data, Purpose("checkpoint", job.task))
        return found if data is found.data else msgspec.structs.replace(found, data=data)

    async def results(self, jobs: Sequence[int]) -> dict[int, KeptResult]:
        """Return the results of these jobs, readable, in one round trip [W4]."""
        found = await self._insist(lambda: self._store.results(jobs))
        return {
            id: each
            if each.result is None
            else msgspec.structs.replace(
                each, result=unseal(self._codec, each.result, Purpose("result", each.task))
            )
            for id, each in found.items()
        }

    async def group_jobs(self, group: int) -> tuple[int, ...]:
        """All jobs of a group, in the order in which they were added."""
        found = [0]
        while page := await self._insist(partial(self._store.group_jobs, group, found[-1])):
            found += page
        return tuple(found[1:])

    async def save(self, job: ClaimedJob, checkpoint: Checkpoint, connection: Any = None) -> None:
        """Write a checkpoint. Raises WorkerLost or ClaimLost [C5]."""
        sealed = self._sealed(job, checkpoint)
        try:
            if connection is None:
                await self._insist(lambda: self._store.checkpoint(self.worker, job, sealed))
            else:  # the caller's transaction cannot be tried again from here
                await self._store.checkpoint(self.worker, job, sealed, connection=connection)
        except (ClaimLost, WorkerLost):
            self._log.refuse(job)
            raise

    def saving(
        self, job: ClaimedJob, checkpoint: Callable[[], Checkpoint]
    ) -> AbstractAsyncContextManager[Any]:
        """A transaction that makes a checkpoint together with the handler's own data."""
        inner = self._store.saving(self.worker, job, lambda: self._sealed(job, checkpoint()))
        return self._emitter.hold_up(job, self._counted(job, inner))

    async def save_step(self, job: ClaimedJob, step: Step) -> Step:
        """Write a step, after what it emitted: no later attempt would emit that again [W3]. Raises WorkerLost
        or ClaimLost [C5]."""
        await self._emitter.settle(job)
        sealed = self._sealed_step(job, step)
        try:
            kept = await self._insist(lambda: self._store.save_step(self.worker, job, sealed))
        except (ClaimLost, WorkerLost):
            self._log.refuse(job)
            raise
        return self._opened_step(job, kept)

    def saving_step(self, job: ClaimedJob, step: Callable[[], Step]) -> AbstractAsyncContextManager[Any]:
        """A transaction in which a step is done together with the handler's own data."""
        inner = self._store.saving_step(self.worker, job, lambda: self._sealed_step(job, step()))
        return self._emitter.hold_up(job, self._counted(job, inner))

    async def steps(self, job: ClaimedJob) -> list[Step]:
        """The steps that the job has behind it: as its claim said, or else as the store says now."""
        if job.known_steps is not None:
            return [self._opened_step(job, step) for step in _known(job.known_steps)]
        found = await self._insist(lambda: self._store.steps(job.id))
        return [self._opened_step(job, step) for step in found]

    async def wait_for_signal(self, job: ClaimedJob, wait: Wait) -> Awaited:
        """Return the end of a wait, or the seconds left. Raises WorkerLost or ClaimLost [C5]."""
        try:
            found = await self._insist(lambda: self._store.wait_for_signal(self.worker, job, wait))
        except (ClaimLost, WorkerLost):
            self._log.refuse(job)
            raise
        return found if found.step is None else Awaited(self._opened_step(job, found.step))

    def _sealed_step(self, job: ClaimedJob, step: Step) -> Step:
        if self._codec is None or step.result == NULL:
            return step
        return msgspec.structs.replace(step, result=seal(self._codec, step.result, Purpose("step", job.task)))

    def _opened_step(self, job: ClaimedJob, step: Step) -> Step:
        kind: Literal["signal", "step"] = "signal" if step.code == SIGNAL else "step"
        result = unseal(self._codec, step.result, Purpose(kind, job.task))
        return step if result is step.result else msgspec.structs.replace(step, result=result)

    async def spent(self, job: ClaimedJob, budget: str, tokens: int) -> None:
        """Say what this attempt really used of a budget. Raises WorkerLost or ClaimLost [C5]."""
        if self._spending is None:
            raise InvalidOption(f"job {job.id} of task {job.task} takes nothing of budget {budget}")
        said = self._spending.said(job, budget, tokens)
        try:
            await self._insist(lambda: self._store.spent(self.worker, job, budget, **said))
        except (ClaimLost, WorkerLost):
            self._log.refuse(job)
            raise
        self._spending.note(job, budget, tokens)

    def stream(self, job: ClaimedJob) -> RunStream:
        """The stream of a run."""
        return self._emitter.stream(job)

    async def split(self, job: ClaimedJob, plan: Plan) -> None:
        """Make the job a parent. Sent again until it is answered: the store knows it by its claim [P4]."""
        await self._emitter.settle(job)
        number = self._log.next_number()
        if self._codec is not None:
            purpose = Purpose("span", job.task)
            parts = [
                msgspec.structs.replace(part, span=seal(self._codec, part.span, purpose))
                for part in plan.parts
            ]
            plan = msgspec.structs.replace(plan, parts=parts)
        try:
            await self._insist(lambda: self._store.split(self.worker, number, job, plan))
        except (ClaimLost, WorkerLost):
            self._log.refuse(job)
            raise
        self._split.add(job.fence)
        self._log.record.note("split", f"split into {plural(len(plan.parts), 'part')}", job=job)

    def span(self, task: str, part: PartOf) -> str:
        """Return the span of a part."""
        return unseal(self._codec, part.span, Purpose("span", task))

    def ended(self, outcome: Outcome) -> None:
        """A run ended with a write of its own. Where that made it a parent, the job has not ended."""
        if outcome.job.fence in self._split:
            self._split.discard(outcome.job.fence)
        else:
            self._log.record.flushed([outcome], monotonic())

    async def settings(self, task: str, *, fresh: bool = False) -> TaskRecord:
        """The settings of a task; while the store is away, the last ones that were read."""
        if fresh or monotonic() - self._settings_at > SETTINGS_KEPT:
            self._settings_at = monotonic()
            try:
                self._settings = {each.name: each for each in await self._store.tasks()}
                self._outages.recovered("settings")
            except StoreError as error:
                self._outages.failed("settings", "cannot read the settings of tasks: %s", error)
        found = self._settings.get(task) or TaskRecord(name=task)
        timeout = found.batch_timeout or 0.0
        if timeout >= self._lease and self._long_batches.get(task) != timeout:
            self._long_batches[task] = timeout
            warn_of_long_batch(task, timeout, self._lease)
        return found

    def transaction(
        self, job: ClaimedJob, outcome: Callable[[], Outcome]
    ) -> AbstractAsyncContextManager[Any]:
        """A transaction in which the job ends with the handler's own data."""

        def sealed() -> Outcome:
            ended = outcome()
            if self._codec is None or ended.result is None:
                return ended
            result = seal(self._codec, ended.result, Purpose("result", job.task))
            return msgspec.structs.replace(ended, result=result)

        return self._counted(job, self._store.transaction(self.worker, self._log.next_number(), sealed))

    @asynccontextmanager
    async def _counted(self, job: ClaimedJob, inner: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """A transaction of the handler's own; where the store refuses it, that is counted."""
        inside = False
        try:
            async with inner as connection:
                inside = True
                yield connection
                inside = False
        except (ClaimLost, WorkerLost):
            if not inside:
                self._log.refuse(job)
            raise

    def _sealed(self, job: ClaimedJob, checkpoint: Checkpoint) -> Checkpoint:
        if self._codec is None or checkpoint.data == NULL:
            return checkpoint
        purpose = Purpose("checkpoint", job.task)
        beside = _records(checkpoint.data) if job.options.part is not None else None
        return msgspec.structs.replace(checkpoint, data=seal(self._codec, checkpoint.data, purpose, beside))

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """A store that is away for a moment must not cost a job its attempt: try again, until this worker
        loses its lease and its handlers are stopped [C9]."""
        failures = 0
        while True:
            try:
                answer = await call()
                self._outages.recovered("checkpoints")
                return answer
            except StoreUnavailable as error:
                failures += 1
                pause = PAUSES.delay(failures, random.random())
                message = "a checkpoint waits for the store, next try in %.1f s: %s"
                self._outages.failed("checkpoints", message, pause, error)
            await asyncio.sleep(pause)


def _known(claimed: KnownSteps) -> Sequence[Step]:
    """Steps as they stand now: less is left of a sleep than when the claim was answered."""
    passed = monotonic() - claimed.at
    return [
        step if step.left is None else msgspec.structs.replace(step, left=step.left - passed)
        for step in claimed.steps
    ]


def _records(data: str) -> dict[str, int] | None:
    """How many records a part has done, which the store adds up for its parent [P9]."""
    found = msgspec.json.decode(data)
    n = found.get("n") if isinstance(found, dict) else None
    return {"n": n} if type(n) is int else None
