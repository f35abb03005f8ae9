"""Steps of many jobs, sent in batches: while one call is in flight, the next batch fills. So jobs that run
side by side share a round trip and a commit, and a lone one waits for nobody.

Each caller gets its own answer. Where a batch fails and somebody else's step may be the reason, its steps are
sent again one by one: to send a step again changes nothing."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from windlass.errors import ClaimLost, StoreUnavailable, WorkerLost
from windlass.store.records import ClaimedJob, Step

Save: TypeAlias = Callable[[int, Sequence[tuple[ClaimedJob, Step]]], Awaitable[list[Step | ClaimLost]]]
Waiting: TypeAlias = tuple[ClaimedJob, Step, "asyncio.Future[Step]"]
MAX_STEPS: Final = 500
"""How many steps are sent at once. A call numbers its steps, see `step_no`."""
MAX_SENT: Final = 4 * 2**20
"""Characters of results that are sent at once, where a single step has not more."""
CALLS: Final = 2
"""Most calls in flight: a second one begins when the first has not answered soon."""
PATIENCE: Final = 0.02


class StepIntake:
    """Takes steps one by one and sends them in batches, on one event loop."""

    def __init__(self, save: Save) -> None:
        self._save = save
        self._waiting: dict[int, list[Waiting]] = {}
        """By worker."""
        self._calls: set[asyncio.Task[None]] = set()
        self._late = 0
        """Of them, those that have not answered soon."""

    async def save(self, worker: int, job: ClaimedJob, step: Step) -> Step:
        """Make a step durable together with those of others."""
        answer: asyncio.Future[Step] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(worker, []).append((job, step, answer))
        self._call()
        return await answer

    def _call(self) -> None:
        if self._waiting and len(self._calls) - self._late < 1 and len(self._calls) < CALLS:
            # In a context of its own: it works for many callers, not for the one that happens to start it.
            call = asyncio.get_running_loop().create_task(self._drain(), context=contextvars.Context())
            self._calls.add(call)

    async def _drain(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                late: list[None] = []
                timer = loop.call_later(PATIENCE, self._another, late)
                try:
                    await self._send(*self._next())
                finally:
                    timer.cancel()
                    self._late -= len(late)
                await asyncio.sleep(0)  # who was answered just now may have the next step
        finally:
            self._calls.discard(me)
            self._call()

    def _another(self, late: list[None]) -> None:
        late.append(None)
        self._late += 1
        self._call()

    def _next(self) -> tuple[int, list[Waiting]]:
        worker, waiting = next(iter(self._waiting.items()))
        size = 0
        for number, (_, step, _) in enumerate(waiting):
            size += len(step.result)
            if number == MAX_STEPS or (number and size > MAX_SENT):
                self._waiting[worker] = waiting[number:]
                return worker, waiting[:number]
        del self._waiting[worker]
        return worker, waiting

    async def _send(self, worker: int, batch: Sequence[Waiting]) -> None:
        batch = [each for each in batch if not each[2].done()]  # a caller that was cancelled has left
        if not batch:
            return
        try:
            kept = await self._save(worker, [(job, step) for job, step, _ in batch])
        except asyncio.CancelledError:
            for _, _, answer in batch:
                answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - the callers are told
            if len(batch) == 1 or isinstance(error, StoreUnavailable | WorkerLost):
                _answer(batch, [_own(error) for _ in batch])
                return
            for each in batch:
                await self._send(worker, [each])
        else:
            _answer(batch, kept)


def _answer(batch: Sequence[Waiting], found: Sequence[Step | Exception]) -> None:
    for (_, _, answer), each in zip(batch, found, strict=True):
        if answer.done():
            continue
        if isinstance(each, Exception):
            answer.set_exception(each)
        else:
            answer.set_result(each)


def _own(error: Exception) -> Exception:
    """A copy for one caller: what one of them adds to it must not show up at the others."""
    kind = type(error)
    own = kind.__new__(kind, *error.args)
    vars(own).update(vars(error))
    own.__cause__, own.__suppress_context__ = error.__cause__, error.__suppress_context__
    return own
