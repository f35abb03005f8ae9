"""The handle of one job: look at it, await its result, manage it. It holds an id and asks the store each
time."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar, Unpack

from windlass.codec import Purpose, seal
from windlass.core import ids
from windlass.core.durations import Duration, seconds
from windlass.core.read_errors import READ_ERRORS
from windlass.core.states import State
from windlass.errors import JobFailed, JobNotFound, ResultInvalid, ResultTimeout
from windlass.handles.changes import JobChanges
from windlass.handles.details import JobDetails, StepDetails, job_details, steps_of
from windlass.handles.events import Events
from windlass.handles.handle import _Handle
from windlass.handles.progress import JobProgress, progress_of
from windlass.operations import jobs
from windlass.operations.operation import Ops
from windlass.operations.walks import Verb
from windlass.running.encoding import as_signal
from windlass.running.sending import NewSignal
from windlass.running.stopped_clock import UNTIL_RUN, StoppedClock
from windlass.store.protocol import Store
from windlass.store.records import (
    CancelAnswer,
    ChangeAnswer,
    DeleteAnswer,
    JobRecord,
    Once,
    Receipt,
    RetryAnswer,
)
from windlass.store.signal_rules import keyed

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.running.store_handle import StoreHandle

R_co = TypeVar("R_co", covariant=True)
SignalAnswer: TypeAlias = Literal["delivered", "kept", "repeated"]
_LONG: Final = 3600.0
WAITS_FOR_COMMIT: Final = (
    "a job that waits for a commit has no id yet; enqueue what comes after it once that is done, in a "
    "function passed to transaction.on_commit"
)
_ENDED: Final = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED})


def id_of(given: object) -> int:
    """The id of a job, from a number or its text, as JSON has it. Raises JobNotFound: no job has another."""
    if isinstance(given, int | str) and (found := ids.read(str(given))) is not None:
        return found
    raise JobNotFound(
        f"{given!r:.100} is not the id of a job: that is a whole number or its text, as in job.id or str(job)"
    )


class Job(_Handle, Generic[R_co]):
    """One durable unit of work.

    `id` is an int here and a string in JSON. `receipt` says what became of the enqueue: "enqueued",
    "scheduled", "held", or "skipped", "replaced", "rerun" and "repeated" where a key was involved, or
    "on_commit" where the job waits for a transaction of Django's and has no id yet; it is None for a handle
    made from an id alone. `str(job)` is the id, as JSON would have it.
    """

    __slots__ = ("_decode", "id", "pressure", "receipt", "task")

    def __init__(
        self,
        app: Windlass,
        id: int,
        decode: Callable[[JobRecord], Any],
        *,
        task: str | None = None,
        receipt: Receipt | None = None,
    ) -> None:
        super().__init__(app)
        self.id: Final = id
        """The job's id, an int; JSON has it as a string."""
        self.task: Final = task
        """The name of its task; None for a handle made from an id alone."""
        self.receipt: Final = None if receipt is None else receipt.status
        """The receipt of the enqueue; None for a handle made from an id alone."""
        self.pressure: Final = None if receipt is None else receipt.pressure
        """How full the queue is, from 0.7 on, where it has a max_depth; else None [F4]."""
        self._decode = decode

    def __repr__(self) -> str:
        return f"<Job {self.id}{f' of {self.task}' if self.task else ''}>"

    def __str__(self) -> str:
        return str(self.id)

    # -- looking ----------------------------------------------------------------------------------------

    def record(self) -> JobDetails:
        """Everything the store knows about the job. Raises JobNotFound."""
        return self._run(self._details)

    async def arecord(self) -> JobDetails:
        """Everything the store knows about the job. Raises JobNotFound."""
        return await self._arun(self._details)

    def status(self) -> State:
        """Where the job stands: scheduled, ready, running, retrying, succeeded, dead or cancelled; a chunked
        one also splitting or waiting."""
        return self._run(self._look).state

    async def astatus(self) -> State:
        """Where the job stands: scheduled, ready, running, retrying, succeeded, dead or cancelled; a chunked
        one also splitting or waiting."""
        return (await self._arun(self._look)).state

    def progress(self) -> JobProgress:
        """How far the job is: what its handler said last, or what its parts have done. It stays when the job
        has ended [P6]. Raises JobNotFound."""
        return self._run(self._progress)

    async def aprogress(self) -> JobProgress:
        """How far the job is; see `progress`."""
        return await self._arun(self._progress)

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the job to end and return what its task returned [O8].

        Raises ResultTimeout when it takes longer than `timeout` (None: wait for ever), JobFailed when it
        ended dead or cancelled, JobNotFound when there is no such job, ResultInvalid when the result does not
        fit the task's return annotation, CodecError when the app's codec cannot read it. On the loop of a
        worker of this process it raises RuntimeError for a job that has not ended: it would wait for itself.
        """
        if self._store_handle().on_a_workers_loop and self.status() not in _ENDED:
            raise RuntimeError(
                f"job {self.id} has not ended, and result() would block the event loop that a worker of this "
                "process runs on, so it could not end there: write `await job.aresult()` instead"
            )
        return self._value(self._store_handle().call(lambda store: self._finished(store, timeout)))

    async def aresult(self, timeout: Duration | None = None) -> R_co:
        """Wait for the job to end and return what its task returned; see `result`."""
        return self._value(await self._store_handle().acall(lambda store: self._finished(store, timeout)))

    def steps(self) -> list[StepDetails]:
        """Return what the job has done: its steps, sleeps and waits that are over, in the order in which they
        were kept [W1]. They stay when the job has ended. Raises JobNotFound."""
        return self._run(self._steps)

    async def asteps(self) -> list[StepDetails]:
        """Return what the job has done; see `steps`."""
        return await self._arun(self._steps)

    def events(self, after: int = 0, follow: bool = True) -> Events:
        """Read what the job emits, in order, for `async for event in job.events():` and for a plain `for`
        [W3].

        It begins after a position (0: with the first event), goes on while the job runs, also over its
        attempts and an outage of the store, and stops when the job has ended. With `follow=False` it stops
        with what is there. Whoever goes on from the position of the last event misses none and sees none
        twice. Raises InvalidOption at once for an `after` that is no position; the loop raises JobNotFound,
        and CodecError when the app's codec cannot read an event."""
        return Events(self, after, follow)

    # -- managing --------------------------------------------------------------------------------------

    def cancel(self) -> CancelAnswer:
        """Cancel the job: "cancelled" now if it waits, "requested" if it runs, "finished" if it is too
        late."""
        return self._run(self._act("cancel"))

    async def acancel(self) -> CancelAnswer:
        """Cancel the job; see `cancel`."""
        return await self._arun(self._act("cancel"))

    def retry(self) -> RetryAnswer:
        """Offer a dead, scheduled or retrying job again now, with its attempts reset."""
        return self._run(self._act("retry"))

    async def aretry(self) -> RetryAnswer:
        """Offer a dead, scheduled or retrying job again now, with its attempts reset."""
        return await self._arun(self._act("retry"))

    def change(self, **changes: Unpack[JobChanges]) -> ChangeAnswer:
        """Change the job where it waits: `job.change(priority="urgent", delay=0)`. Its id and its unique key
        stay. "changed"; or, with nothing changed, "running" or "ended": somebody was faster.

        Takes `queue`, `priority`, `delay` or `run_at`, `max_attempts`, `timeout`, `needs`, `tags` and
        `headers` as `using` does, and new arguments as `args=[…]` and `kwargs={…}`, in the place of all that
        it had. They are checked as at an enqueue. Raises JobNotFound, and EnqueueError for a part of a
        parent."""
        return self._run(lambda ops: jobs.change(ops, self.id, changes))

    async def achange(self, **changes: Unpack[JobChanges]) -> ChangeAnswer:
        """Change the job where it waits; see `change`."""
        return await self._arun(lambda ops: jobs.change(ops, self.id, changes))

    def replay(self) -> Job[R_co]:
        """Make a new job that does the same once more, ready now, and return its handle [O6].

        It has this one's task, arguments, queue, priority and options, except for the unique key, and says in
        `options.replay_of` whom it repeats. Raises EnqueueError where this one has not ended yet, or is
        a part of a parent."""
        return self._clone(*self._run(lambda ops: jobs.replay(ops, self.id)))

    async def areplay(self) -> Job[R_co]:
        """Make a new job that does the same once more; see `replay`."""
        return self._clone(*await self._arun(lambda ops: jobs.replay(ops, self.id)))

    def delete(self) -> DeleteAnswer:
        """Remove the job and its traces; while it runs, its cancel is requested instead."""
        return self._run(self._act("delete"))

    async def adelete(self) -> DeleteAnswer:
        """Remove the job and its traces; while it runs, its cancel is requested instead."""
        return await self._arun(self._act("delete"))

    def signal(
        self, name: str, value: Any = None, *, idempotency_key: str | None = None, connection: Any = None
    ) -> SignalAnswer:
        """Send the job a signal with a value, anything JSON can carry: "delivered" where it waits for it, or
        "kept" for a `ctx.wait(name)` to come [W2]. With `connection` the signal is part of that transaction.
        One with an `idempotency_key` that the job was sent one with before sends nothing and is "repeated":
        whoever lost the answer sends it again [E7].

        Raises SignalRefused where the job has ended, or has not taken a thousand that it was sent before;
        JobNotFound; InvalidPayload or PayloadTooLarge. A value that cannot be of the type that the job waits
        for is an InvalidPayload, and the wait goes on; in a transaction on PostgreSQL it is not checked."""
        text = as_signal(name, value)
        task = self.task
        if self._app.codec is not None and task is None:
            task = self._run(self._look).task
        signal = self._as_sent(name, text, task, keyed(self.id, idempotency_key))
        return _answer(self._app._producer.signal(signal, connection))

    async def asignal(
        self, name: str, value: Any = None, *, idempotency_key: str | None = None, connection: Any = None
    ) -> SignalAnswer:
        """Send the job a signal with a value; see `signal`."""
        return await self._asignal(name, as_signal(name, value), keyed(self.id, idempotency_key), connection)

    async def _asignal(self, name: str, text: str, once: Once | None, connection: Any = None) -> SignalAnswer:
        """Send a signal whose value is JSON already."""
        task = self.task
        if self._app.codec is not None and task is None:
            task = (await self._arun(self._look)).task
        return _answer(await self._app._producer.asignal(self._as_sent(name, text, task, once), connection))

    def _as_sent(self, name: str, text: str, task: str | None, once: Once | None) -> NewSignal:
        self._check_id()
        kept = seal(self._app.codec, text, Purpose("signal", task or ""))
        return NewSignal(self.id, name, text, kept, once)

    # -- how --------------------------------------------------------------------------------------------

    def _store_handle(self) -> StoreHandle:
        self._check_id()
        return super()._store_handle()

    def _check_id(self) -> None:
        if self.receipt == "on_commit":
            raise JobNotFound(WAITS_FOR_COMMIT)

    def _act(self, verb: Verb) -> Callable[[Ops], Awaitable[Any]]:
        async def act(ops: Ops) -> str:
            return (await jobs.act(ops, verb, [self.id]))[self.id]

        return act

    def _look(self, ops: Ops) -> Awaitable[JobRecord]:
        return jobs.find(ops.store, self.id)

    async def _details(self, ops: Ops) -> JobDetails:
        return await job_details(ops.store, await self._look(ops), self._app.codec)

    async def _steps(self, ops: Ops) -> list[StepDetails]:
        return await steps_of(ops.store, await self._look(ops), self._app.codec)

    async def _progress(self, ops: Ops) -> JobProgress:
        record = await self._look(ops)
        # Any job may be a parent: one enqueued by name does not know that its task is chunked.
        alone = record.progress is not None or record.options.part is not None
        return progress_of(record, None if alone else await ops.store.parent(self.id))

    def _clone(self, record: JobRecord, receipt: Receipt) -> Job[R_co]:
        return Job(self._app, receipt.id, self._decode, task=record.task, receipt=receipt)

    async def _finished(self, store: Store, timeout: Duration | None) -> JobRecord:
        limit = math.inf if timeout is None else seconds(timeout)
        deadline = time.monotonic() + limit
        stopped_clock = StoppedClock(self._store_handle().clock)
        while True:
            left = deadline - time.monotonic()
            try:
                return await store.wait_finished(self.id, min(left, stopped_clock.look_every, _LONG))
            except ResultTimeout:
                if deadline <= time.monotonic():
                    raise ResultTimeout(f"job {self.id} did not finish within {limit:g} s") from None
            if stopped_clock.clock is not None:
                await self._check_clock(store, stopped_clock)

    async def _check_clock(self, store: Store, stopped_clock: StoppedClock) -> None:
        """In a test, a job that waits for the clock, or for somebody to run it, may wait for ever."""
        record = await store.job(self.id)
        if record is not None and record.state in (State.SCHEDULED, State.RETRYING):
            stopped_clock.check(f"job {self.id} of task {record.task} is {record.state.value}")
        elif record is not None and record.state is State.READY:
            stopped_clock.check(f"job {self.id} of task {record.task} is ready and nobody runs it", UNTIL_RUN)

    def _value(self, record: JobRecord) -> R_co:
        if record.state is State.SUCCEEDED:
            try:
                value: R_co = self._decode(record)
            except READ_ERRORS as error:
                raise ResultInvalid(
                    f"job {self.id} of task {record.task} succeeded, but its result is not what the task's "
                    f"return annotation says: {error}; mend the annotation, or read job.record().result"
                ) from error
            return value
        last = record.errors[-1] if record.errors else None
        why = f": {last.type}: {last.message}" if last else f": {record.reason}" if record.reason else ""
        hint = f"; `windlass parent show {self.id}` tells of its parts" if record.options.chunked else ""
        raise JobFailed(f"job {self.id} of task {record.task} ended {record.state.value}{why}{hint}")


def _answer(said: str) -> SignalAnswer:
    return "delivered" if said == "delivered" else "repeated" if said == "repeated" else "kept"
