"""The promises of a store about everything around jobs: limits and budgets, schedules, what operators do and
see, what hosts agree on, measures and retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from windlass.core.flow.breaker import BreakerState
    from windlass.core.flow.governor import Governor
    from windlass.core.rollup import Sample
    from windlass.store import records
    from windlass.store.fields import NewBudget


class Management(Protocol):
    """The acts of operators: on jobs [O5] [O6], and to the settings of queues [K1] and tasks [P6]."""

    async def cancel(self, jobs: Sequence[int]) -> dict[int, records.CancelAnswer]:
        """Cancel jobs [O5]. A waiting one is `cancelled` now. For a running one cancel is `requested`: the
        host of its worker is woken, and at the latest hears of it with the worker's next heartbeat. One that
        has ended is `finished` and stays as it is."""

    async def delete(self, jobs: Sequence[int]) -> dict[int, records.DeleteAnswer]:
        """Remove jobs. A waiting or ended one is `deleted` and no longer found; for a running one its cancel
        is `requested`."""

    async def retry(self, jobs: Sequence[int]) -> dict[int, records.RetryAnswer]:
        """The operator's retry [O6]: a dead job is offered again with attempts and deaths reset and its
        failures kept; a scheduled or retrying one is offered now (retrying: attempts reset). Others are
        `unchanged`. A dead job whose unique key another holds now is `unchanged`, too."""

    async def change(self, job: int, change: records.JobChange) -> records.ChangeAnswer:
        """Change a waiting job in place: its queue, priority, time, arguments and options; its id stays, and
        so do its unique key and what it has behind it [E8]. `changed`; or, with nothing changed: `running`
        (so is a parent whose parts run), `ended`, `part` or `not_found`. Of a claim and a change of one job,
        one comes first: the job is given out once, as it was or as it is to be.

        A ready job goes to the back of its lane, or to where it has to wait now, and has been ready as long
        as before. One that waits at a gate which it has still keeps its place there, whatever its queue and
        priority become. A time that is yet to come makes it scheduled; a scheduled or retrying one whose new
        time has come is ready now. A queue is not asked whether it takes it: that was judged when the job
        was enqueued [F4]. A deadline that still runs counts from the new time on."""

    async def queues(self) -> list[records.QueueRecord]:
        """Every declared queue, by name."""

    async def set_queue(self, name: str, changes: Mapping[str, Any]) -> records.QueueRecord:
        """Declare a queue, or change its settings (see QueueSettings). An unknown setting, or a value that
        makes no sense (negative, 0 where something must be left), raises ValueError; nothing is changed."""

    async def throttle(self, queue: str, hint: float | None = None) -> float:
        """A handler was throttled: cool its whole queue, and answer with the seconds until it resumes [O3].

        Only the first call in a window counts: it raises `throttles` and sets the deadline. The delay is
        cool_base, or min(cool_base · 2^k, cool_cap) for the k-th throttle (from 0) where `backoff` is on; a
        `hint` is a floor, and cool_cap bounds all of it. While the queue cools, `claim` gives none of its
        jobs. An unknown queue is declared."""

    async def warm(self, queue: str, *, force: bool = False) -> bool:
        """A job of the queue succeeded: if its last cool-down ended at least 120 s ago, its `throttles` start
        from 0 again, and the answer is True. With `force` (an operator) the cool-down ends at once."""

    async def tasks(self) -> list[records.TaskRecord]:
        """Every task that has settings in the store, by name."""

    async def set_task(self, name: str, changes: Mapping[str, Any]) -> records.TaskRecord:
        """Change settings of a task (see TaskRecord); None goes back to what the code says. An unknown
        setting or a value that makes no sense raises ValueError; nothing is changed."""


class Listing(Protocol):
    """Looking jobs up. Nothing here writes."""

    async def job(self, job: int) -> records.JobRecord | None:
        """The job with this id in whatever state, or None."""

    async def jobs(
        self, where: records.JobFilter, limit: int = 50, cursor: str | None = None, within: float = 0.0
    ) -> records.Page:
        """A page of jobs, newest first by when they were enqueued, more or less: jobs that were put off or
        offered again may stand where they entered their lane. A page may be short or empty and still have a
        cursor: the search looks at a bounded number of jobs a call, or as many as it can `within` so many
        seconds, and `back_to` says how far it has come.
        It shows one moment: no job is missing because it moved while the page was put together [S5]. A cursor
        that no page gave raises ValueError."""

    async def matches(
        self, where: records.JobFilter, most: int, cursor: str | None = None, within: float | None = None
    ) -> records.Matches:
        """The ids of all jobs that a filter finds at one moment, whatever moves meanwhile [S5]; at most so
        many, and those that were found within so many seconds: a snapshot must not last."""

    async def wait_finished(self, job: int, timeout: float) -> records.JobRecord:
        """Wait until the job has ended for good. Raises ResultTimeout, or JobNotFound if it is gone."""

    async def depth(self, queues: Sequence[str] | None = None) -> dict[str, records.Depth]:
        """Counts per queue, without scanning logs; None asks for every queue."""


class Limits(Protocol):
    """Limits and order: gates that jobs wait at [F3], and how far ordering keys have come [F6]."""

    async def gates(self, limit: int = 100) -> list[records.GateRecord]:
        """Gates that jobs wait at, those where the first has waited longest first; cheap, also where a
        million jobs wait at one of them."""

    async def watermarks(
        self, queue: str, *, key: str | None = None, limit: int = 100
    ) -> list[records.Watermark]:
        """The ordering keys of a queue, by key; with `key` only that one [F6]. Kept for 30 days after the
        last job of a key has ended."""

    async def wait_aside(self, timeout: float) -> None:
        """Wait until there may be waiting jobs that no `promote` has looked at, at most so many seconds.
        Where admission happens with the commit, those are who have begun to wait for tokens."""


class Budgets(Protocol):
    """Budgets with their breakers [F1] [F7], and the governor of queues [F2]."""

    async def budgets(self) -> list[records.BudgetRecord]:
        """Every budget, by name."""

    async def declare_budget(self, budget: NewBudget) -> records.BudgetRecord:
        """Add a budget, full; where one of this name exists it stays as it is, whoever changed it [F1]."""

    async def set_budget(self, name: str, changes: Mapping[str, Any]) -> records.BudgetRecord:
        """Change a budget live (see NewBudget): what has grown so far counts by the old rate. A budget that
        does not exist is made, and needs a `rate` then (burst: the rate of a second, at least 1). ValueError
        for what makes no sense: a rate below 0, a burst below 1, an unknown setting; nothing is changed."""

    async def drop_budget(self, name: str) -> bool:
        """Remove a budget and its buckets. Who needs it waits from then on: an unknown budget grants
        nothing."""

    async def take(self, budget: str, n: int, key: str = "") -> records.Taken:
        """Take n tokens of one of its buckets, all or none. An unknown budget grants nothing; neither does
        one whose breaker is open, and half-open it grants one call: the probe [F7]. ValueError for n below 1
        or above the burst, which could never be granted."""

    async def lease(
        self,
        budget: str,
        needs: Sequence[int],
        key: str = "",
        *,
        extra: int = 0,
        rest: int = 0,
        leased_at: float = 0.0,
    ) -> records.Lease:
        """Take tokens for callers of one process, as `take` does for each in turn, and a block of `extra`
        tokens at most on top, which that process may hand out for `held_for` seconds; see Bucket.lease. First
        `rest` tokens are given back of a block that was leased at `leased_at`. An unknown budget serves
        nobody, and neither does any for what is more than its burst. ValueError for a need below 1."""

    async def give_back(self, budget: str, n: int, key: str = "", age: float = 0.0) -> None:
        """Give back tokens that were taken `age` seconds ago and not used. It never holds more than its
        burst; see `Bucket.give_back` for what the age does."""

    async def usage(self, budget: str, limit: int = 100) -> list[records.Usage]:
        """Which keys have used most of a budget in the present period of its cap, the first of them first;
        what came back is not counted. The bucket for all has the key ""."""

    async def settle(self, budget: str, more: int, key: str = "", age: float = 0.0) -> None:
        """Who took tokens by hand `age` seconds ago has used so many more, or less where it is negative; see
        `Bucket.settled`. Nothing happens where the budget is unknown."""

    async def spent(
        self,
        worker: int,
        job: records.ClaimedJob,
        budget: str,
        key: str,
        *,
        before: int,
        tokens: int,
        age: float = 0.0,
    ) -> None:
        """A run says how many tokens of a budget it really used, all in all; `before` is what it took with
        its claim, or said last. The bucket is corrected by the difference, as `settle` does. May be sent
        again: what this attempt said last is kept for an hour. Raises WorkerLost or ClaimLost [C5]."""

    async def drain(self, budget: str, pause: float, key: str | None = None) -> None:
        """An upstream has asked for a pause: the bucket (None: each of the budget's) is empty, and grants
        nothing for `pause` seconds. ValueError for an unknown budget."""

    async def report_calls(self, budget: str, succeeded: int, failed: int) -> BreakerState:
        """Report to its breaker how runs went that used it [F7]; the answer is how it stands then.
        "closed" for one that does not exist."""

    async def count_runs(self, runs: Mapping[str, records.Runs]) -> None:
        """Count by queue how runs went. Of queues without a governor nothing is kept."""

    async def governed(self, term: int) -> list[records.Governed]:
        """The queues that have a governor, each with what was reported since the last call, which is
        forgotten with this one. Raises TermLost [K3]."""

    async def govern(self, term: int, queue: str, governor: Governor) -> None:
        """Keep what a governor decided; claims of the queue give out no more than its rate, over the whole
        cluster, from then on. Raises TermLost [K3]."""

    async def observe(self, latency: float) -> None:
        """How long the store took to answer lately, as the coordinator sees it: a measure of `shed_latency`.
        Forgotten after 30 s without report."""


class Schedules(Protocol):
    """Schedules, which run by the clock [K4]."""

    async def schedules(self) -> list[records.ScheduleRecord]:
        """Every schedule, by name."""

    async def seed_schedule(
        self, schedule: records.NewSchedule, next_at: float | None, error: str | None = None
    ) -> records.ScheduleRecord:
        """Declare a schedule, as code does. A new one is due at `next_at`, never at once. One that exists
        takes the new definition; `next_at` and `error` too, but only where cron or tz have changed, or it was
        never due. Whether it is paused, and what it has done, stays. One that is `live` stays as it is: what
        code says is kept beside it, and once both say the same it is the code's again."""

    async def put_schedule(
        self, schedule: records.NewSchedule, next_at: float | None, *, new: bool
    ) -> records.ScheduleRecord | None:
        """Make a schedule at run time (`new`), or change one that is there; None, and nothing happens, where
        one of this name is there already, or is not. As `seed_schedule`, but it is `live` from then on,
        unless code declares the same."""

    async def set_schedule(
        self, name: str, *, paused: bool | None = None, next_at: float | None = None
    ) -> records.ScheduleRecord | None:
        """Pause or resume it; resuming passes the `next_at` from which on it is due again. None: there is
        none."""

    async def drop_schedule(self, name: str) -> bool:
        """Remove a schedule. Its jobs stay."""

    async def due(self, limit: int = 100) -> records.Due:
        """Schedules that are due and not paused, the one due longest first, the store's clock, and when the
        next one is due. Those are among them that fired at a time which is yet to come: the clock was set
        back since."""

    async def fire(
        self,
        term: int | None,
        name: str,
        expected: float | None,
        times: Sequence[float],
        *,
        next_at: float | None,
        skipped: int = 0,
        error: str | None = None,
    ) -> list[records.Receipt] | None:
        """Fire a schedule for these times: compare-and-swap and enqueue in one step [K4].

        Only if its `next_at` is still `expected` and it is not paused; else nothing happens and the answer is
        None. With a `term`, raises TermLost where that is over. `expected` None is an operator's "now":
        next_at and the pause do not matter and stay as they are, and neither does overlap: each time makes a
        job.

        Each time makes one job, with the headers `windlass-schedule` (its name) and `windlass-scheduled-for`
        (the time, ISO 8601, UTC), put off by a share of `jitter` that name and time decide. It is automatic
        [O7] and neither refused nor shed. Where the schedule's last job has not ended: overlap `skip` makes
        none and counts each as skipped, `cancel` cancels that one first (where it runs, the new job comes
        after it, however it ends), `queue` does not mind. With `skip` only the last of several times makes a
        job. Then `next_at`, `last_at`, `last_job`, `skipped` (added) and `error` are written; an operator's
        "now" leaves `next_at` and `error`."""


class Cluster(Protocol):
    """The cluster: who coordinates [K3], the slots of workers, turns, and the clock they go by."""

    async def now(self) -> float:
        """The store's clock."""

    async def cluster_view(self, workers: Sequence[int]) -> records.ClusterView:
        """Every queue as it stands, the slots assigned to these workers, and who serves what. Cheap: hosts
        ask once a second."""

    async def lead(self, candidate: int, length: float) -> int | None:
        """Stand for coordinator, or go on being it, for `length` seconds from now by the store's clock, five
        minutes at most [K3].

        Answers with the number of the term, or None where another holds one that has not run out. Whoever
        renews in time keeps the number; everybody else's term has a higher one."""

    async def resign(self, candidate: int) -> None:
        """Give the term up, so that another may lead at once. Does nothing for others."""

    async def assign(self, term: int, slots: Mapping[int, Mapping[str, int]]) -> None:
        """Replace the whole assignment of slots (worker → queue → slots). Raises TermLost, and nothing is
        changed, unless `term` is the present one and has not run out [K3]."""

    async def begin_chore(self, name: str, every: float) -> bool:
        """Begin a chore, unless somebody has begun it within the last `every` seconds by the store's
        clock. Of many who ask at once, one gets True."""


class Measures(Protocol):
    """Rollups [M1], timeline events [M2] and how the store is doing [M3]. No job waits for any of it."""

    async def report(self, source: int, number: int, report: records.Report) -> float:
        """Accept the report of one process, and answer with the store's clock. `source` is the id of a
        worker, or a random one; `number` counts its calls from 1 or higher: sending one again changes
        nothing. A source makes one call at a time: one that comes after a higher number is outdated, and is
        not counted. The vitals of a worker replace those it reported before; they show in `workers`.

        Events are kept for 7 days, at most 1,000,000 of them. It needs no lease: also a worker that was lost
        may report what it saw."""

    async def rollup(self, limit: int = 1000) -> records.Rolled:
        """One bounded step: fold reports into the rows of charts (see `core.rollup`), and remove rows
        and events that have outlived their time. What was folded is forgotten in the same step, so running
        it twice, or twice at once, changes nothing."""

    async def measured(
        self, span: int, since: float, until: float, *, queue: str = "", task: str = ""
    ) -> list[Sample]:
        """The rows of a span (MINUTE or HOUR) of one queue, task or everything, by time. Those without any
        job are left out. Reports that are not yet rolled up are not in them."""

    async def totals(self) -> list[Sample]:
        """Return the counts since the store was made, of every queue and task (and their "" for all)."""

    async def ended(self) -> list[Sample]:
        """How many jobs have ended since the store was made, of each task in each queue, as `succeeded`,
        `dead`, `cancelled`, or `expired` if none began it in time. It equals what the store holds of jobs,
        after any crash [M7].

        It counts ends: a dead job that an operator retries ends once more. Parents and parts are jobs. One
        that is deleted or replaced while it waits has not ended. What retention removes stays counted."""

    async def count_ends(self, limit: int = 1000) -> records.Counted:
        """One bounded step of counting what has ended, so that `ended` is quick; it is right without. Where
        ends are counted as they are written, there is nothing to do."""

    async def recount(self) -> list[records.Miscount]:
        """Count the ends that the store holds once more, correct what was counted of them, and answer with
        what was wrong. Not cheap: for an operator."""

    async def events(
        self, *, job: int | None = None, queue: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[records.EventRecord]:
        """Events, the latest first: of one job, or of one queue, or all; with `before`, those with a lower
        id."""

    async def task_depths(self, most: int = 100_000) -> list[records.TaskDepth]:
        """How many jobs of each task are ready, by queue: those in lanes, counted up to `most` a lane, and
        those aside, up to as many a queue. Not cheap: ask every few seconds at most."""

    async def causes(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        since: float | None = None,
        limit: int = 10_000,
    ) -> records.Causes:
        """Return the causes of death: the newest `limit` dead jobs (of a queue), by task and type of their
        last failure; with `task` or `since`, those among them of this task, that died at this time or
        later."""

    async def health(self) -> records.Health:
        """How the store is doing. Cheap: it reads statistics, and counts nothing."""

    async def diagnose(self) -> list[records.Finding]:
        """Return what an operator should know about this store, each with what to do: schema, clock,
        wake-ups, pooler, versions. Changes nothing."""


class Retention(Protocol):
    """Retention: what is old goes, and nothing unfinished ever does [K6]."""

    async def rotate(self, *, force: bool = False) -> records.Rotation:
        """Turn the logs when due (`force`: now): finished jobs past their retention go, nothing unfinished
        ever does [K6]. With `force` every finished job but the dead may go. Safe to call at any time from
        anywhere; several at once do the work of one."""

    async def expire(self, limit: int = 1000) -> records.Expired:
        """One bounded step of retention for dead jobs, idempotency keys, parents that have ended (with their
        parts; the dead after their queue's dead_retention, others after its retention or the store's), and
        workers long gone [K6]."""
