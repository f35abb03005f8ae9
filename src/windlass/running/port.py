"""Calls of a context to the worker that runs its job, and the ways to the worker's loop.

The worker's state belongs to its loop. A handler may be on that loop, in a thread, or on a loop of its own in
that thread; from each of them there is one way here.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeVar

from windlass.errors import ConfigurationError, WorkerLost
from windlass.running.emitting import RunStream
from windlass.store.records import (
    Awaited,
    Checkpoint,
    ClaimedJob,
    KeptResult,
    Outcome,
    PartOf,
    Plan,
    Step,
    TaskRecord,
    Wait,
)

T = TypeVar("T")
LOOK_EVERY: Final = 1.0
_STOPPED: Final = "the worker that ran this job has stopped; the job goes on elsewhere"


class Port(Protocol):
    """The calls of a context to its worker. The coroutines are awaited on `loop`."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the worker lives on."""

    @property
    def worker(self) -> int:
        """The worker's id."""

    async def load(self, job: ClaimedJob) -> Checkpoint | None:
        """The job's last checkpoint."""

    async def results(self, jobs: Sequence[int]) -> dict[int, KeptResult]:
        """Return the results of these jobs, of those that are there [W4]."""

    async def group_jobs(self, group: int) -> tuple[int, ...]:
        """All jobs of a group, in the order in which they were added."""

    async def save(self, job: ClaimedJob, checkpoint: Checkpoint, connection: Any = None) -> None:
        """Make a checkpoint durable, or part of the caller's transaction. Raises WorkerLost or ClaimLost
        [C5], or StoreUnavailable."""

    def saving(
        self, job: ClaimedJob, checkpoint: Callable[[], Checkpoint]
    ) -> AbstractAsyncContextManager[Any]:
        """A transaction that makes a checkpoint together with other data; see `Store.saving`."""

    async def split(self, job: ClaimedJob, plan: Plan) -> None:
        """End the attempt by making the job a parent; see `Store.split`."""

    def span(self, task: str, part: PartOf) -> str:
        """Return the span of a part of this task, as JSON text."""

    async def settings(self, task: str, *, fresh: bool = False) -> TaskRecord:
        """The settings of a task as the store has them, seconds old at most [P6]; `fresh`: as of now."""

    async def save_step(self, job: ClaimedJob, step: Step) -> Step:
        """Make a step durable; see `Store.save_step`."""

    def saving_step(self, job: ClaimedJob, step: Callable[[], Step]) -> AbstractAsyncContextManager[Any]:
        """A transaction in which a step is done; see `Store.saving_step`."""

    async def steps(self, job: ClaimedJob) -> list[Step]:
        """The steps that the job has behind it."""

    async def wait_for_signal(self, job: ClaimedJob, wait: Wait) -> Awaited:
        """Return the end of a wait, or the seconds left; see `Store.wait_for_signal`."""

    async def spent(self, job: ClaimedJob, budget: str, tokens: int) -> None:
        """Say what this attempt really used of a budget; see `Store.spent`. Raises InvalidOption where its
        task takes nothing of it."""

    def stream(self, job: ClaimedJob) -> RunStream:
        """Where to put what the run emits [W3]; asked for once."""

    def transaction(
        self, job: ClaimedJob, outcome: Callable[[], Outcome]
    ) -> AbstractAsyncContextManager[Any]:
        """A transaction in which the job ends; see `Store.transaction`."""


def runs_on(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether the caller is on this loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


async def hop(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine on this loop, from whatever loop the caller is on."""
    if runs_on(loop):
        return await coroutine
    return await asyncio.wrap_future(_submit(loop, coroutine))


def wait(loop: asyncio.AbstractEventLoop, name: str, operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run an operation on this loop and wait for it, from any thread but the loop's own."""
    if runs_on(loop):
        awaited = name.removeprefix("blocking.") if name.startswith("blocking.") else f"a{name}"
        raise RuntimeError(
            f"ctx.{name}(...) would wait for the loop it is called on; await ctx.{awaited}(...) instead"
        )
    coroutine = operation()
    future = _submit(loop, coroutine)
    # A thread left behind must not wait for ever for a loop that will not turn again.
    while not concurrent.futures.wait([future], LOOK_EVERY).done:
        if loop.is_closed():
            coroutine.close()
            raise WorkerLost(_STOPPED)
    try:
        return future.result()
    except concurrent.futures.CancelledError:
        raise WorkerLost(_STOPPED) from None


def finish_here(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in this thread that waits for nothing: one that uses a blocking connection of the
    caller's, which no other thread may touch."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        value: T = finished.value
        return value
    coroutine.close()
    raise ConfigurationError(
        "the connection of a plain function must be a blocking one (psycopg, SQLAlchemy, Django); with "
        "asyncpg make the handler `async def`"
    )


def _submit(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]
) -> concurrent.futures.Future[T]:
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:  # the loop is closed
        coroutine.close()
        raise WorkerLost(_STOPPED) from None
