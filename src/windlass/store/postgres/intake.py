"""Single enqueues of many callers, sent in batches: while one call is in flight, the next batch fills. A lone
caller waits for nobody. Thirty-two callers cost hardly more calls than one: after an answer the next call
waits a moment for callers that come again. This makes a web app's `await task.aenqueue(…)` cheap.

No caller waits long for another's job. A job that may have to wait for another transaction, because of its
keys or of what it comes after, is sent on its own. While a call has not answered soon, a few others may be
sent beside it.

Each caller gets its own answer. Where the store refuses a batch, nothing of it was written, so its jobs are
sent again: by queue and priority where the queue was full, else one by one. After any other error nobody
knows what was written: all callers get the error, and nothing is sent twice [E7]. A call whose callers have
all left is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from windlass.errors import EnqueueError, JobNotFound, Refused
from windlass.store.records import NewJob, Receipt

Send: TypeAlias = Callable[[Sequence[NewJob]], Awaitable[list[Receipt]]]
SendOwn: TypeAlias = Callable[[Sequence[NewJob], Any], Awaitable[list[Receipt]]]
Waiting: TypeAlias = tuple[NewJob, "asyncio.Future[Receipt]"]
MAX_JOBS: Final = 500
"""How many jobs are sent at once."""
MAX_SENT: Final = 8 * 2**20
"""Characters of payload that are sent at once, where a single job has not more."""
LINGER: Final = 0.003
"""Seconds that a call waits, at most, for as many jobs as the one before it had."""
PATIENCE: Final = 0.05
"""Seconds after which those who wait for the call in flight get one beside it."""
CALLS: Final = 4
"""Most calls of batches in flight: the store's connections serve others, too."""
ALONE: Final = 6
"""Most calls of jobs on their own. They may wait for each other's keys, and leave room for a batch."""


class Intake:
    """Takes jobs one by one and sends them in batches, on one event loop. `send_own` is for those that a
    caller has put together, or that belong to a transaction of the caller's own."""

    def __init__(self, send: Send, send_own: SendOwn) -> None:
        self._send = send
        self._send_own = send_own
        self._waiting: dict[asyncio.Future[Receipt], NewJob] = {}
        self._calls: set[asyncio.Task[Any]] = set()
        self._taker: asyncio.Task[Any] | None = None
        """The one of them that takes what waits, next."""
        self._wanted = 1
        self._enough = asyncio.Event()
        self._slots = asyncio.Semaphore(ALONE)
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def enqueue(self, jobs: Sequence[NewJob], *, connection: Any = None) -> list[Receipt]:
        """See Store.enqueue. A single job goes together with those of other callers."""
        if connection is None and len(jobs) == 1:
            return [await self.add(jobs[0])]
        return await self._send_own(jobs, connection) if jobs else []

    async def add(self, job: NewJob) -> Receipt:
        """Enqueue a job; returns its receipt, or raises the error that is about it."""
        if _may_wait(job):
            return await self._alone(job)
        if self._calls or self._waiting:
            return await self._together(job)
        return await self._first(job)

    async def _alone(self, job: NewJob) -> Receipt:
        """Send a job on its own. Of those with the same key one is sent at a time: where another transaction
        holds the key, each of them would keep a call waiting."""
        key = job.options.unique_key or job.idempotency_key
        turn = (self._turns.get(key) if key else None) or asyncio.Lock()
        if key:
            self._turns[key] = turn
        async with turn, self._slots:
            return (await self._send([job]))[0]

    async def _first(self, job: NewJob) -> Receipt:
        """Nothing is in flight: send it in the caller's own task. Callers that come meanwhile wait for it."""
        me = asyncio.current_task()
        assert me is not None
        self._calls.add(me)
        self._taker = me
        late = asyncio.get_running_loop().call_later(PATIENCE, self._call_another, me)
        try:
            return (await self._send([job]))[0]
        finally:
            late.cancel()
            self._calls.discard(me)
            if self._taker is me:
                self._taker = None
            self._call()

    async def _together(self, job: NewJob) -> Receipt:
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._waiting[answer] = job
        if len(self._waiting) >= self._wanted:
            self._enough.set()
        self._call()
        try:
            return await answer
        finally:
            self._waiting.pop(answer, None)  # a caller that was cancelled does not want it any more

    def _call(self) -> None:
        if self._waiting and self._taker is None and len(self._calls) < CALLS:
            # In a context of its own: it works for many callers, not for the one that happens to start it.
            self._taker = asyncio.get_running_loop().create_task(self._drain(), context=contextvars.Context())
            self._calls.add(self._taker)

    async def _drain(self) -> None:
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        assert me is not None
        try:
            while self._waiting and self._taker in (None, me):
                self._taker = me
                batch = self._next()
                late = loop.call_later(PATIENCE, self._call_another, me)
                try:
                    await self._send_all(batch)
                finally:
                    late.cancel()
                if len(batch) > 1 and self._taker is me:
                    await self._linger(len(batch))
        finally:
            self._calls.discard(me)
            if self._taker is me:
                self._taker = None
            self._call()  # where somebody has cancelled this call, others wait behind it

    def _call_another(self, late: asyncio.Task[Any]) -> None:
        """A call has not answered yet; it may be waiting for what nobody else needs."""
        if self._taker is late:
            self._taker = None
            self._call()

    def _next(self) -> list[Waiting]:
        batch: list[Waiting] = []
        left: list[asyncio.Future[Receipt]] = []
        room = MAX_SENT
        for answer, job in self._waiting.items():
            if answer.done():
                left.append(answer)  # its caller has
                continue
            room -= len(job.payload)
            if len(batch) == MAX_JOBS or (batch and room < 0):
                break
            batch.append((job, answer))
        for answer in [*left, *(answer for _, answer in batch)]:
            del self._waiting[answer]
        return batch

    async def _linger(self, wanted: int) -> None:
        """Callers that were answered just now may come again: a call for the first of them alone would make
        all others wait for it."""
        self._wanted, self._enough = wanted, asyncio.Event()
        if len(self._waiting) < wanted:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    await self._enough.wait()
        self._wanted = 1

    async def _send_all(self, batch: Sequence[Waiting]) -> None:
        batch = [each for each in batch if not each[1].done()]
        if not batch:
            return
        sending = asyncio.ensure_future(self._send([job for job, _ in batch]))  # noqa: RUF006 - awaited below

        def left(_: object) -> None:
            if all(answer.cancelled() for _, answer in batch):
                sending.cancel()

        for _, answer in batch:
            answer.add_done_callback(left)
        try:
            receipts = await sending
        except asyncio.CancelledError:
            if all(answer.cancelled() for _, answer in batch):
                return
            for _, answer in batch:
                answer.cancel()
            raise
        except (EnqueueError, JobNotFound) as error:
            groups = _apart(batch, error)
            if len(groups) == 1:
                _fail(batch, error)
                return
            for group in groups:
                await self._send_all(group)
        except Exception as error:  # noqa: BLE001 - all of the callers are told
            _fail(batch, error)
        else:
            for (_, answer), receipt in zip(batch, receipts, strict=True):
                if not answer.done():
                    answer.set_result(receipt)


def _may_wait(job: NewJob) -> bool:
    """Return whether the store may have to wait for others before it can answer: for one who holds a key of
    this job, or lets jobs through its gate."""
    options = job.options
    return (
        job.idempotency_key is not None
        or options.unique_key is not None
        or options.ordering_key is not None
        or options.concurrency_key is not None
        or options.task_limit is not None
        or bool(options.after)
        or options.group_end
    )


def _apart(batch: Sequence[Waiting], error: EnqueueError | JobNotFound) -> list[list[Waiting]]:
    """The jobs of a refused batch in groups that may get different answers; one group where all get the
    same."""
    if not isinstance(error, Refused):
        return [[each] for each in batch]
    # The load of a queue is judged once for each priority, and a call is refused as a whole.
    groups: dict[object, list[Waiting]] = {}
    for each in batch:
        groups.setdefault((each[0].queue, each[0].priority), []).append(each)
    return list(groups.values())


def _fail(batch: Sequence[Waiting], error: Exception) -> None:
    for _, answer in batch:
        if not answer.done():
            answer.set_exception(_own(error))


def _own(error: Exception) -> Exception:
    """A copy of the error for one caller: what a caller adds to it, or was handling when it was raised, must
    not show up at the others."""
    kind = type(error)
    own = kind.__new__(kind, *error.args)  # not by its __init__, which may take other arguments
    vars(own).update(vars(error))
    own.__cause__, own.__suppress_context__ = error.__cause__, error.__suppress_context__
    return own.with_traceback(error.__traceback__)
