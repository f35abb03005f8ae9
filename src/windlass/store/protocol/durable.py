"""The promises of a store to jobs that go on where they stopped [W1], that wait for signals [W2], that tell
how they go [W3], and that are in groups [W4]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from windlass.store import records


class Durable(Protocol):
    """Steps of jobs: written once, found by every later attempt. Signals: taken once. Streams: added to."""

    async def save_step(self, worker: int, job: records.ClaimedJob, step: records.Step) -> records.Step:
        """Make a step durable, and answer with it as it stands: where one of this name is there already, that
        one. A sleep begins with this call. Raises WorkerLost or ClaimLost [C5]. May be sent again."""

    def saving_step(
        self, worker: int, job: records.ClaimedJob, step: Callable[[], records.Step]
    ) -> AbstractAsyncContextManager[Any]:
        """A transaction of the handler's own in which a step is done: as `Store.saving`, with a step instead
        of a checkpoint. Where the step is there already, it raises ClaimLost and nothing is committed."""

    async def steps(self, job: int) -> list[records.Step]:
        """The steps of a job, in the order in which they were written. They stay when the job has ended, for
        as long as the store shows the job."""

    async def signal(
        self,
        job: int,
        name: str,
        value: str,
        *,
        once: records.Once | None = None,
        connection: Any = None,
        fits: Callable[[str], None] | None = None,
    ) -> str:
        """Send a signal with a value, JSON text, to a job: "delivered" where it waits for it, which ends the
        oldest of its waits for it, or "kept" for a wait to come. A wait that has ended is a step. With a
        connection it is part of the caller's transaction, and a job goes on once that has committed. `once`:
        refused where the same token has sent one; an idempotency key is answered with "repeated" then, and
        sends nothing, also where the job has ended since. `fits` is handed the shape of value that the job
        waits for, where it names one, and raises where the value is of another; on PostgreSQL not with a
        connection.

        Raises JobNotFound; SignalRefused where the job has ended, keeps 1,000 already, or `once` is used up;
        InvalidOption, InvalidPayload or PayloadTooLarge. Nothing is written then."""

    async def wait_for_signal(
        self, worker: int, job: records.ClaimedJob, wait: records.Wait
    ) -> records.Awaited:
        """Return the end of a wait: the oldest signal of that name, which no other wait gets; or a timeout,
        once its time is over, counted from when it was first asked. Either is a step from then on, and what
        a later call answers. Else the seconds that are left: where the run ends as SNOOZE now, the job waits,
        and is offered when the signal comes, or the time is over. Raises WorkerLost or ClaimLost [C5]. May be
        sent again."""

    async def waits(
        self,
        limit: int = 100,
        *,
        before: int | None = None,
        job: int | None = None,
        signal: str | None = None,
    ) -> list[records.WaitRecord]:
        """Return what jobs wait for now, the newest first, or those behind the place `before`; of one job, or
        for one signal."""

    async def emit(self, worker: int, emits: Sequence[records.Emits]) -> list[int | None]:
        """Append events to the streams of jobs, for each job once, and answer with the position of the last
        event of each; None: the worker does not hold the job under this claim, and nothing of it was written
        [C5]. Raises WorkerLost where it holds none. Sent again, the same emits change nothing.

        A job's positions begin at 1 and have no gap, but where a server has lost what it acknowledged and
        the run goes on: behind what it was told [S3]. Of a stream that grows beyond `stream_limit` the oldest
        are removed, in pieces. Those who wait in `wait_stream` for these jobs are woken [W3]."""

    async def wait_stream(self, job: int, after: int, timeout: float) -> records.StreamPage:
        """Return what a job emitted after this position, in order and bounded. Waits until there is
        something, or the job has ended or is not there, at most so many seconds. With a timeout of 0 the
        state is always there; of a job that is gone nothing is given then. All that a job emitted is there
        before it ends, and stays for as long as the store shows the job [W3]."""


class Groups(Protocol):
    """Groups of jobs of any tasks and queues [W4]. A group is known by the job that ends it, which has
    `options.group_end`: it comes after every job that was added, and waits also while the group is open."""

    async def enqueue_in_group(
        self, group: int, jobs: Sequence[records.NewJob], *, connection: Any = None
    ) -> list[records.Receipt]:
        """Enqueue jobs, as `enqueue` does, and add them to a group, all or none. The twin that stands for a
        job is added in its place. Raises GroupClosed, or JobNotFound where there is no such job."""

    async def close_group(self, group: int) -> bool:
        """Let a group take no more jobs. Its end is offered when the last of those it has have ended, now if
        they have. False: it was not open."""

    async def group_jobs(self, group: int, after: int = 0, limit: int = 1000) -> list[int]:
        """The jobs of a group in the order in which they were added, those behind the job `after`."""

    async def group_counts(self, group: int) -> Mapping[str, int]:
        """How many jobs of a group there are in each state. Those that are not there any more are `deleted`
        where they had not succeeded, else `gone`: their retention has passed."""
