"""What a store promises about flow: budgets [F1] [F7], limits and order [F3] [F6], the governor [F2] and
schedules [K4], with the values that go in and out. A part of the protocol in `windlass.store.protocol`.

Time is the store's own in all of it: a worker whose clock is wrong does no harm [fault 14].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from windlass.core.breaker import BreakerState
from windlass.core.cron import Missed, Overlap
from windlass.core.governor import Governor, Window
from windlass.core.states import Priority
from windlass.store.records import DEFAULT_OPTIONS, Options, Receipt


class Need(msgspec.Struct, frozen=True):
    """What each run of a task needs of a budget [F1]."""

    budget: str
    n: int = 1
    argument: str | None = None
    """The argument whose value is the key of the bucket; None: the budget has one bucket for all."""
    place: int | None = None
    """Where that argument stands among the positional ones, if it may be given so."""


Needs: TypeAlias = Mapping[str, Sequence[Need]]
"""By task: what a claimer must take for its jobs. Tasks that need nothing are left out."""


class NewBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A budget as code declares it, or as an operator sets it."""

    name: str
    rate: float
    """Tokens a second."""
    burst: int
    """The most that it holds, and so the most that can be taken at once."""
    key: str | None = None
    """For people: the argument by whose value tasks divide it into buckets."""
    breaker: int = 0
    """After so many failed runs in a row it opens; 0: it has no breaker [F7]."""
    breaker_pause: float = 30.0
    """Seconds for which it stays open the first time."""


class BudgetRecord(NewBudget, frozen=True, kw_only=True):
    """A budget as it stands. `tokens` and `blocked` are those of its bucket for all (key "")."""

    tokens: float = 0.0
    blocked: float = 0.0
    """Seconds until it may grant again, where it was drained or its breaker is open."""
    state: BreakerState = "closed"
    failures: int = 0
    """Failed runs in a row."""
    waiting: int = 0
    """Jobs that wait for its tokens, over all of its buckets; counted up to 10,000."""


BUDGET_SETTINGS = frozenset(NewBudget.__struct_fields__) - {"name"}
"""What `set_budget` may change."""


class Taken(msgspec.Struct, frozen=True):
    """Whether tokens were granted; if not, in how many seconds it makes sense to ask again."""

    granted: bool
    wait: float = 0.0


class Runs(msgspec.Struct, kw_only=True):
    """How runs of one queue went, as a worker tells the governor."""

    succeeded: int = 0
    failed: int = 0
    throttled: int = 0
    times: dict[int, int] = {}
    """See `core.histogram`."""


class Governed(msgspec.Struct, frozen=True):
    """A queue with a governor: what happened since the last look, and what its governor knew then."""

    queue: str
    window: Window
    least: float
    most: float
    governor: Governor | None


class GateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A gate that jobs wait at; its name says what it is (see `core.gates`)."""

    name: str
    passes: int
    """Jobs beyond it."""
    waiting: int
    """Jobs in its line, counted up to 10,000."""
    oldest: float
    """Seconds for which the first of them has waited."""


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """How far an ordering key has come [F6]. Its jobs are numbered from 1 as their turn comes."""

    queue: str
    key: str
    position: int
    """All up to this number have ended. It never falls."""
    at: float
    """When it last moved."""
    waiting: int
    """Jobs that have not ended, the one whose turn it is included; counted up to 10,000."""
    age: float
    """Seconds since the oldest of those was enqueued; 0 where there is none."""


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as code declares it."""

    name: str
    cron: str
    task: str
    tz: str = "UTC"
    payload: str = "{}"
    queue: str = "default"
    priority: int = Priority.NORMAL
    options: Options = DEFAULT_OPTIONS
    missed: Missed = "latest"
    overlap: Overlap = "skip"
    grace: float = 60.0
    """A fire that is later than this is missed."""
    jitter: float = 0.0
    """Its jobs are put off by up to so many seconds."""


class ScheduleRecord(NewSchedule, frozen=True, kw_only=True):
    """A schedule as it stands."""

    paused: bool = False
    next_at: float | None = None
    """When it is due; None where it never is, see `error`."""
    last_at: float | None = None
    """The time it fired for last."""
    last_job: int | None = None
    skipped: int = 0
    """Fires that were missed, or met a job of theirs that had not ended, since it was declared."""
    error: str | None = None
    """What is wrong with its expression or its last fire."""


class Due(msgspec.Struct, frozen=True):
    """The schedules that are due, and the store's clock."""

    now: float
    schedules: list[ScheduleRecord]


class Flow(Protocol):
    """The flow of jobs."""

    async def now(self) -> float:
        """The store's clock."""

    # -- budgets ----------------------------------------------------------------------------------------

    async def budgets(self) -> list[BudgetRecord]:
        """Every budget, by name."""

    async def declare_budget(self, budget: NewBudget) -> BudgetRecord:
        """Add a budget, full; where one of this name exists it stays as it is, whoever changed it [F1]."""

    async def set_budget(self, name: str, changes: Mapping[str, Any]) -> BudgetRecord:
        """Change a budget live (see BUDGET_SETTINGS): what has grown so far counts by the old rate. A budget
        that does not exist is made, and needs a `rate` then (burst: the rate of a second, at least 1).
        ValueError for what makes no sense: a rate below 0, a burst below 1, an unknown setting; nothing is
        changed."""

    async def drop_budget(self, name: str) -> bool:
        """Remove a budget and its buckets. Who needs it waits from then on: an unknown budget grants
        nothing."""

    async def take(self, budget: str, n: int, key: str = "") -> Taken:
        """Take n tokens of one of its buckets, all or none. An unknown budget grants nothing; neither does
        one whose breaker is open, and half-open it grants one call: the probe [F7]. ValueError for n below 1
        or above the burst, which could never be granted."""

    async def give_back(self, budget: str, n: int, key: str = "", age: float = 0.0) -> None:
        """Give back tokens that were taken `age` seconds ago and not used. It never holds more than its
        burst; see `Bucket.give_back` for what the age does."""

    async def drain(self, budget: str, pause: float, key: str | None = None) -> None:
        """An upstream has said that it is enough: the bucket (None: each of the budget's) is empty, and
        grants nothing for `pause` seconds. ValueError for an unknown budget."""

    async def tell_budget(self, budget: str, succeeded: int, failed: int) -> BreakerState:
        """Tell its breaker how runs went that used it [F7]; the answer is how it stands then. "closed" for
        one that does not exist."""

    # -- gates ------------------------------------------------------------------------------------------

    async def gates(self, limit: int = 100) -> list[GateRecord]:
        """Gates that jobs wait at, those where the first has waited longest first; cheap, also where a
        million jobs wait at one of them."""

    async def wait_aside(self, timeout: float) -> None:
        """Wait until jobs may stand aside that no `promote` has looked at, at most so long. Where admission
        happens with the commit, that is just a pause."""

    async def watermarks(self, queue: str, *, key: str | None = None, limit: int = 100) -> list[Watermark]:
        """The ordering keys of a queue, by key; with `key` only that one [F6]. Kept for 30 days after the
        last job of a key has ended."""

    # -- the governor -----------------------------------------------------------------------------------

    async def report(self, runs: Mapping[str, Runs]) -> None:
        """Tell by queue how runs went. Of queues without a governor nothing is kept."""

    async def governed(self, term: int) -> list[Governed]:
        """The queues that have a governor, each with what was reported since the last call, which is
        forgotten with this one. Raises TermLost [K3]."""

    async def govern(self, term: int, queue: str, governor: Governor) -> None:
        """Keep what a governor decided; claims of the queue give out no more than its rate, over the whole
        cluster, from then on. Raises TermLost [K3]."""

    async def observe(self, latency: float) -> None:
        """How long the store took to answer lately, as the coordinator sees it: a measure of `shed_latency`.
        Forgotten after 30 s without news."""

    # -- schedules --------------------------------------------------------------------------------------

    async def schedules(self) -> list[ScheduleRecord]:
        """Every schedule, by name."""

    async def seed_schedule(
        self, schedule: NewSchedule, next_at: float | None, error: str | None = None
    ) -> ScheduleRecord:
        """Declare a schedule. A new one is due at `next_at`, never at once. One that exists takes the new
        definition; `next_at` and `error` too, but only where cron or tz have changed, or it was never
        due. Whether it is paused, and what it has done, stays."""

    async def set_schedule(
        self, name: str, *, paused: bool | None = None, next_at: float | None = None
    ) -> ScheduleRecord | None:
        """Pause or resume it; resuming passes the `next_at` from which on it is due again. None: there is
        none."""

    async def drop_schedule(self, name: str) -> bool:
        """Remove a schedule. Its jobs stay."""

    async def due(self, limit: int = 100) -> Due:
        """Schedules that are due and not paused, the one due longest first, and the store's clock. Those are
        among them that fired at a time which is yet to come: the clock was set back since."""

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
    ) -> list[Receipt] | None:
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
