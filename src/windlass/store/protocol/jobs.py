"""The promises of a store about the way of a job: from its enqueue through claims to its outcome, the workers
that run it, and the parts that it may be split into."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from windlass.core.abilities import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set
    from contextlib import AbstractAsyncContextManager

    from windlass.core.retry import DeathPolicy
    from windlass.core.states import State
    from windlass.store import records

NOTHING: Mapping[str, Any] = MappingProxyType({})
"""No task needs anything of a budget; no queue is shared with others."""


class Enqueue(Protocol):
    """How jobs come in [E1], with their unique and idempotency keys [E6] [E7]."""

    async def enqueue(
        self, jobs: Sequence[records.NewJob], *, connection: Any = None
    ) -> list[records.Receipt]:
        """Add jobs, all or none, and answer with one receipt per job in the same order [E1].

        With `connection` (a driver's connection inside its own transaction) the jobs exist if and only if
        that transaction commits; without it they are durable when this returns.

        - `idempotency_key` seen within its retention [24 h]: nothing is added, the receipt is `repeated` and
          names the first job [E7].
        - `options.unique_key` held by an unfinished job [E6]: `skip` answers `skipped` with the twin's id;
          `replace` takes a waiting twin back and adds this one (`replaced`); `reject` raises AlreadyEnqueued.
          Where the twin is running, `skip` and `replace` both remember this job as the rerun to be enqueued
          when the twin ends for good, and answer `rerun` with the twin's id; a later one overwrites it.
          Keys count within one call too. A key is freed when its job ends for good, however it ends. A
          replaced twin is gone, as if deleted, with any rerun it remembered. A rerun is enqueued as it was
          asked for: its delay counts from when it is enqueued, its run_at stands. An idempotency key is
          remembered for `skipped` and `rerun`, too, and not for a rejected call.
        - `delay` or `run_at` in the future: the job is `scheduled` until `promote` finds it due.
        - `options.fair_key`: the job is `held` aside (its state is ready) until it is admitted [C3].
        - `options.after` names jobs: this one is `scheduled` (without a run_at, its `reason` says what it
          waits for) until all of them have succeeded. The end of the last one offers it in the same step, or
          `promote` does where very many wait [W4]. Where one has ended in another way, or was deleted before
          it ended, it is dead or cancelled, or ready all the same, as `options.otherwise` says [P12]. With
          `run_only` it is ready at once then, and cancelled where all of them have succeeded. An id that is
          no job's raises JobNotFound. The operator's `retry` offers it without waiting any longer.
        - `automatic` and `options.unique_key`: where the last [3] or more runs of that key have all died and
          the last death is less than 30 min ago (60 min after 4, and so on, at most 6 h), nothing is added
          and the receipt is `parked` with id 0 [O7]. A success of the key, or 7 days without a death, forget
          its deaths. Jobs that are not automatic are never parked, but their deaths count. It is judged
          before the key itself and after the idempotency key.
        - `options.ordering_key`, `options.concurrency_key`, or a limit of its task (`options.task_limit` or
          the setting `concurrency`): the job waits aside at its gates (see `core.flow.gates`) until there is
          room for it [F3] [F6]; `held`, its state is ready, its `reason` says what it waits for. Where there
          is room at once it may be `enqueued`. A gate lets jobs through in the order of their commits, as
          they become visible.
        - a queue with limits on its load is judged first, once for each queue and priority of the call, as it
          stands before the call: Shed [F5], then QueueFull [F4], see `core.flow.admission`. Nothing is added
          then, and it is counted. A queue under pressure says so in the receipts. Jobs that the store makes
          itself (parts, retries, reruns, fires of schedules) are not judged. An `idempotency_key` that was
          seen is not, either, where all of the call's jobs of that queue have such a one.
        - otherwise it is `enqueued` at the back of its lane, ready to be claimed.

        With `connection` a job for a queue never seen before, or one that replaces a twin, may become
        claimable only with the next `promote`.
        """


class Claims(Protocol):
    """How jobs are given out to workers [C1]."""

    async def claim(
        self,
        worker: int,
        queues: Sequence[str] | Mapping[str, int],
        limit: int,
        needs: records.Needs = NOTHING,
        peers: Mapping[str, int] = NOTHING,
        abilities: Set[str] = NONE,
    ) -> list[records.Claim]:
        """Lease up to `limit` ready jobs of these queues, each to this worker alone [C1]; with a mapping, at
        most that many of each queue (0: none). `peers` says how many workers serve a queue, this one
        included: of such a queue it takes no more than its share of what waits there, parts that are not
        offered yet included [K10]. Jobs that need more than these `abilities`, which are those it has
        registered with, are not looked at [K14].

        Lanes are served by priority with ageing [C2]; within a lane the order is the enqueue order among
        visible jobs. Paused, cooling and unknown queues give nothing. A job that has seen a worker die is
        claimed alone: its claim holds nothing else and is the last of the answer.

        A queue with `concurrency` gives no more than are free of it, counted from the claims that are
        unfinished [F3]; one with a governor no more than its rate allows [F2]. For jobs of tasks in `needs`
        tokens are taken in the claim's own transaction [F1]: a job whose tokens are not there is not given
        out but goes to the waiting list of the bucket that lacks them (`budget:…`, see `core.flow.gates`).
        While any job is on that list, others that come through the lane go to its end. `promote` admits as
        many of them as the bucket has tokens, and their claims take these. Tokens of jobs that a worker hands
        back without having started them are its to hand back. Raises WorkerLost when the worker
        is not alive and there was something to claim; an empty answer does not prove that it is."""

    async def unfinished(self, worker: int) -> list[records.Claim]:
        """The worker's unfinished claims, each with its unfinished jobs. After a claim whose answer was lost
        the worker finishes, as RELEASED, what it finds here and does not know."""

    async def fences(self, worker: int, since: int = 0) -> set[records.Fence]:
        """Return the fences of the worker's claims alone, from number `since` on: for a worker that compares
        every few seconds what it runs with what it holds [S4]. It reads no job and waits for no lock."""

    async def wait(self, queues: Sequence[str], timeout: float, abilities: Set[str] = NONE) -> bool:
        """Wait until one of these queues may have work for a worker with these abilities, at most `timeout`
        seconds. True: look now. A wake-up
        may be spurious and may be missed, so callers poll as well."""

    async def forward_wakeups(self, queues: Sequence[str], forward: Callable[[records.WakeUp], None]) -> None:
        """Listen for other processes until cancelled. Call `forward` with every wake-up for these queues
        and for hosts (see FOR_HOSTS), and with how the listener stands whenever that changes. The caller
        forwards wake-ups of queues to `on_wakeup` of the stores of other processes. Where listening costs the
        store nothing, each process listens for itself, and only wake-ups for hosts are forwarded."""

    def on_wakeup(self, wake_up: records.WakeUp | None) -> None:
        """Take a wake-up that another store of this host received. From the first such call on this store
        does not listen itself; None: no more wake-ups are forwarded to it."""

    async def polling(self, queues: Sequence[str]) -> records.Polling:
        """How often an idle process that serves these queues looks for work, and what that costs: a few
        looks are timed [K12]."""


class Outcomes(Protocol):
    """How runs end [C5], and the progress they save on the way."""

    async def finish(
        self,
        worker: int,
        flush: int,
        outcomes: Sequence[records.Outcome],
        room: records.Room | None = None,
    ) -> records.Finished:
        """Record how claimed attempts ended, in one step [C5].

        - SUCCEEDED, CANCELLED: the job ends so. `result` (JSON text) is kept with it [O8]. With `forget`
          its earlier failures are no longer shown [O1].
        - DEAD: the job goes to the dead letters with its payload and its last 32 failures [O4].
        - RETRY: `error` is kept, and the job is offered again after `delay` as the next attempt. Where the
          attempt was its last (options.max_attempts) it is dead instead.
        - SNOOZE, THROTTLED, UNKNOWN: offered again after `delay`, the same attempt.
        - RELEASED: offered again at once, the same attempt. With `needs` the job needs that from now on, and
          is offered in that lane, by `promote` [K14].

        UNKNOWN is remembered in `options.unknown_since` from the first time on, until the job ends in any
        other way; while it waits so, its `reason` is "no worker knows this task" [O4].
        A job put off by SNOOZE, THROTTLED or UNKNOWN shows as scheduled, by RETRY as retrying. The kinds that
        are not a worker's to say (DELETED, REPLACED, LOST; SPLIT is `split`'s) raise ValueError and nothing
        is applied.

        A delay of 0 offers at once. `flush` counts this worker's flushes from 1: sending one again with the
        same number and outcomes changes nothing and counts as `repeated`, also after a rotation. Raises
        WorkerLost when the worker is not alive; outcomes of claims that are not the worker's are `refused`,
        by job id, while the rest is applied, and so is a second outcome for an attempt that has ended.

        Jobs that waited for the ones that end here, behind a key or a limit of their task, may be claimed for
        this worker in the same transaction, as far as `room` goes: the answer's `claims` are these. A store
        may claim none. It claims only what `claim` could give out, and only where no other job of that queue
        waits to be claimed, so none is overtaken for ever [C2] [F3] [F6]. A flush sent again claims nothing.

        Where `room.runs` says so, such a job may be the first of a run of its key: the next of the same
        waiting list follow it, in order, under the same claim, and the worker starts each when the one before
        it has ended. All of them have passes of their gate, which together take one place there for as long
        as any of them is unfinished. It is the only gate of each, none is a part or is to be split, and none
        needs tokens or has seen a worker die.

        A job of a run that is not started ends as RELEASED, as any other does, and waits again at its turn
        [F3]. Of an ordering key all are RELEASED, in the same flush, that come after one which did not end
        for good; that one keeps its place [F6]. So it is where the jobs of a worker are handed back or
        rescued."""

    def transaction(
        self, worker: int, flush: int, outcome: Callable[[], records.Outcome]
    ) -> AbstractAsyncContextManager[Any]:
        """A transaction of the handler's own, in which its job ends: yields a driver's connection inside an
        open transaction (asyncpg on PostgreSQL, apsw on SQLite). When the block ends well, the outcome is
        asked for and written as flush number `flush` in that very transaction, which is then committed: data
        and outcome exist together or not at all. Raises ClaimLost or WorkerLost, and nothing is committed,
        where the outcome is refused [C5]. A block that raises rolls back. A store in memory raises
        ConfigurationError."""

    async def checkpoint(
        self, worker: int, job: records.ClaimedJob, checkpoint: records.Checkpoint, *, connection: Any = None
    ) -> None:
        """Make progress durable; the next attempt finds it. Raises WorkerLost or ClaimLost [C5].

        With `connection` (as for `enqueue`) the progress exists if and only if that transaction commits; a
        store in memory raises ConfigurationError."""

    def saving(
        self, worker: int, job: records.ClaimedJob, checkpoint: Callable[[], records.Checkpoint]
    ) -> AbstractAsyncContextManager[Any]:
        """A transaction of the handler's own that makes progress: as `transaction`, but when the block ends
        well the checkpoint is asked for and written in it, and the job goes on."""

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, records.Checkpoint]:
        """The checkpoints of these jobs, for those that have one. They go when the job ends for good."""

    async def results(self, jobs: Sequence[int]) -> dict[int, records.KeptResult]:
        """How these jobs stand and what they returned, for those that are there, in one round trip [W4]."""


class Workers(Protocol):
    """The life of workers: they register, send heartbeats, retire, and are rescued where they do not [C8]."""

    async def register(self, worker: records.WorkerInfo) -> None:
        """Make a worker known and alive. Its id is random; one that was ever used raises ValueError."""

    async def rehearse(self, worker: int, queues: Sequence[str]) -> None:
        """Do once, to no effect, what this worker is about to do all the time, so that it need not wait for
        what a first time takes; and again with each connection that is opened while nobody waits for it."""

    async def retire(self, worker: int) -> int:
        """A worker leaves in good order: what it still holds is offered again, without charging an attempt,
        and counted in the answer; from then on it is not alive. Jobs whose cancel was requested are
        cancelled. Retiring a lost or unknown worker does nothing and answers 0."""

    async def heartbeat(self, worker: int) -> records.Heartbeat:
        """Count one heartbeat and learn which of the worker's jobs should be cancelled. Raises WorkerLost
        when the worker is not alive."""

    async def workers(self) -> list[records.WorkerRecord]:
        """Every worker that is alive or still has unfinished claims."""

    async def published_queue(self, task: str) -> str | None:
        """The queue that live workers say a task of this name goes to; None where none of them knows it [E5].
        Of those who do not agree, see `core.routing.choose_published`."""

    async def published_tasks(self) -> list[str]:
        """The names of the tasks that live workers know, in order."""

    async def rescue(self, worker: int, heartbeat: int, policy: DeathPolicy) -> records.Rescued | None:
        """Take the jobs of a dead worker back [C8]. The caller has watched its heartbeat counter stand at
        `heartbeat` for a whole lease, or knows that its process is gone; if it has moved since, or the worker
        is in the middle of a write, nothing happens and the answer is None. Otherwise the worker is dead from
        this moment (its writes raise WorkerLost) and each of its unfinished jobs gets one death more: below
        the policy's second death it is offered again at once, from then on after the policy's delay, at the
        `poison`-th it is dead. Attempts are not charged, checkpoints stay. A job whose cancel was requested
        is cancelled instead. Calling it again for a worker already dead takes back what is left, whatever its
        heartbeat."""


class Deferred(Protocol):
    """Jobs that are not in a lane yet: due later, after others, or waiting aside."""

    async def promote(self, limit: int = 1000) -> records.Promoted:
        """One bounded step: offer deferred jobs that are due, earliest first, and admit held jobs while their
        lane holds fewer than the queue's `window` jobs, one of each fair key in turn [C3]. `limit` bounds
        each of the two. A due job with a fair key takes a new turn, behind its key's others. How long a job
        has waited counts from when it became ready; admission does not start that anew. It also brings
        parents up to date with their parts, and jobs with those they come after [P9] [P12]. It lets jobs
        through gates that have room, and a due job with gates goes to the end of the waiting list of the
        first it has not passed; `next_in` says when the next token comes for jobs that wait for one [F1]
        [F3]."""


class Parents(Protocol):
    """Parents and their parts [P4] [P9]."""

    async def split(self, worker: int, flush: int, job: records.ClaimedJob, plan: records.Plan) -> None:
        """A claimed attempt ends by becoming a parent: its parts, its new state and the offer of the first
        of them are one step [P4]. Its checkpoint goes, its unique key stays with it.

        The parent is `waiting` and holds no lease. One of its parts at a time waits to be claimed, the lowest
        index first. A claim that takes it offers others, to the back of the lane: as many as it has room
        for, and then one more. So parents of one lane take turns. Never are more than `parallel` out at a
        time, where that is given [P8]. The job of a part
        has the parent's task, payload, queue, priority and options (but `unique_key`, `ordering_key`,
        `after`, `chunked`, `replay_of`, `unknown_since`) and `options.part`. How a part ends is folded into
        its parent by the store, within a moment (`promote` at the latest), however it ended: finish, cancel,
        delete, rescue.

        A parent ends only through its parts [P9]: when none is left to offer or to wait for,
        - if more of them are dead or cancelled than `tolerated`, it is dead;
        - else, with a `finalizer`, the job of part -1 is offered, and the parent ends as that one ends,
          with its result; without one it has succeeded.
        See `core.parents` for the decision. Until it ends, `job` shows it as `waiting`, `wait_finished` waits
        for it and `options.after` may name it. Its unique key is freed when it ends.

        Progress is what parts save: `done` of their checkpoints, and as records the whole number `n` where
        their data is an object that has one; a part that has succeeded is done as a whole. A part that ends
        otherwise keeps its checkpoint, for its redrive.

        A cancel that was requested before makes it cancelled instead, without parts. Sent again for the same
        claim it changes nothing. Raises WorkerLost, or ClaimLost where the claim is not the worker's or the
        attempt has ended otherwise [C5]; ValueError for the job of a part."""

    async def parent(self, id: int) -> records.ParentRecord | None:
        """The parent with this id, from when it was split until its retention has passed."""

    async def parents(self, *, active: bool = False, limit: int = 50) -> list[records.ParentRecord]:
        """Parents, the one split last first; with `active` only those that have not ended."""

    async def parts(self, parent: int, *, start: int = 0, limit: int = 1000) -> list[records.PartRecord]:
        """Its parts by index, from `start` on. The finalizer is not among them."""

    async def part_states(self, parent: int) -> list[State]:
        """The state of each of its parts by index, as `parts` has it; cheap where most have succeeded or were
        not offered yet, also where they are a hundred thousand [P10]. Empty where there is no such parent."""

    async def set_parent(self, id: int, *, parallel: int | None) -> records.ParentRecord | None:
        """Change how many of its parts may run at a time, while it runs [P8]; `parallel` None: any number.
        ValueError below 1; None for no parent."""

    async def redrive(self, id: int) -> int:
        """Run again those parts of a parent that are dead or cancelled, each from its last checkpoint, and
        go on offering where a cancel had stopped that [P9]. Answers with how many parts that are (those
        never offered included, and a finalizer that did not succeed as one); 0 where there is none or no
        such parent: nothing has changed then.

        Their dead jobs leave the dead letters, and each part goes on as a new job when its turn comes. A
        finalizer that did not succeed runs again after them. A parent that had ended waits again; if another
        job holds its unique key by now, AlreadyEnqueued is raised and nothing is changed. Its turn in the
        order of its ordering key was over when it ended and does not come again: its parts run beside the
        later jobs of that key [F6].

        A finalizer never runs beside parts: while it waits or runs, Finalizing is raised, `retry` of a part
        leaves it `unchanged`, and nothing is changed.

        `cancel` of a parent offers no more parts and cancels those that are out; it is `requested` until
        the last of these has ended, then the parent is cancelled. `delete` of one that has not ended does the
        same. `retry` of a dead parent is its redrive; of a dead part it brings that part back, and its parent
        waits again; one that was cancelled is so once more when that part has ended."""
