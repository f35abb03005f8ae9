"""A parent of the oracle, its parts, and what it does when one of them has ended [P9]. Which step that
is, `core.parents` decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from tests.model.oracle.job import Job
from windlass.core.parents import Standing, Step, next_step, why_dead
from windlass.core.states import FINISHED, State
from windlass.errors import AlreadyEnqueued, Finalizing
from windlass.store import records
from windlass.store.records import Checkpoint, NewJob, ParentRecord, PartOf, PartPlan, PartRecord, Plan

if TYPE_CHECKING:
    from tests.model.oracle.tables import Tables

FINAL = -1
"""The index of the finalizer."""


@dataclass(eq=False)
class Part:
    """A part: its plan, the job that runs it, and what the jobs before that one have saved."""

    index: int
    plan: PartPlan
    job: Job | None = None
    kept: Checkpoint | None = None
    steps: dict[str, records.Step] = field(default_factory=dict)
    claimed: bool = False
    """Whether its job was, since it was offered."""

    @property
    def state(self) -> State:
        """Waiting before it is offered, then the state of its job, also of one that was removed since."""
        return State.WAITING if self.job is None else self.job.shown

    @property
    def failed(self) -> bool:
        """Whether it has ended, and not well."""
        return self.state in (State.DEAD, State.CANCELLED)

    @property
    def saved(self) -> Checkpoint | None:
        """Its last checkpoint, which outlives its job here."""
        return self.kept if self.job is None or self.job.checkpoint is None else self.job.checkpoint

    @property
    def done(self) -> int:
        """How much of it is done; one that has succeeded is done as a whole."""
        if self.state is State.SUCCEEDED:
            return self.plan.size
        return (self.saved.done or 0) if self.saved is not None else 0

    @property
    def records(self) -> int:
        """The whole number `n` of what it saved, where it saved one."""
        data = msgspec.json.decode(self.saved.data) if self.saved is not None else None
        n = data.get("n") if isinstance(data, dict) else None
        return n if type(n) is int else 0

    def error(self) -> str | None:
        """What it died of."""
        return None if self.job is None else self.job.cause()


@dataclass(eq=False)
class Parent:
    """A job that was split, with its parts."""

    job: Job
    parts: list[Part]
    parallel: int | None
    tolerated: int
    finalizer: bool
    created_at: float
    final: Job | None = None

    @classmethod
    def planned(cls, job: Job, plan: Plan, now: float) -> Parent:
        """A parent whose parts are all still to be offered."""
        parts = [Part(index, part) for index, part in enumerate(plan.parts)]
        return cls(job, parts, plan.parallel, plan.tolerated, plan.finalizer, now)

    @property
    def ended(self) -> bool:
        return self.job.state in FINISHED

    def standing(self, wanted: int = 1) -> Standing:
        """How its parts stand."""
        counts = Counter(part.state for part in self.parts)
        pending = sum(part.job is None for part in self.parts)
        offered = [part for part in self.parts if part.job is not None and part.state not in FINISHED]
        return Standing(
            pending=pending,
            waiting=sum(not part.claimed for part in offered),
            wanted=wanted,
            out=len(self.parts) - pending - sum(counts[state] for state in FINISHED),
            dead=counts[State.DEAD],
            cancelled=counts[State.CANCELLED],
            parallel=self.parallel,
            tolerated=self.tolerated,
            cancelling=self.job.cancel_requested,
            finalizer=self.finalizer,
            final=self.final.state if self.final is not None else None,
        )

    def keep(self, job: Job, saved: Checkpoint | None) -> None:
        """A part has ended: what it saved stays with it, for its progress and its redrive."""
        assert job.options.part is not None
        if job.options.part.index != FINAL and saved is not None:
            self.parts[job.options.part.index].kept = saved

    def job_of(self, index: int, plan: PartPlan) -> NewJob:
        """The job of a part: the parent's own, but for what is the parent's alone [P4]."""
        of = PartOf(
            parent=self.job.id,
            index=index,
            total=len(self.parts),
            span=plan.span,
            size=plan.size,
            created_at=self.created_at,
        )
        return NewJob(
            task=self.job.task,
            payload=self.job.payload,
            queue=self.job.queue,
            priority=self.job.priority,
            options=self.job.options.of_part(of),
        )

    def record(self) -> ParentRecord:
        """The parent as callers see it."""
        standing = self.standing()
        return ParentRecord(
            id=self.job.id,
            task=self.job.task,
            queue=self.job.queue,
            state=self.job.state,
            total=len(self.parts),
            succeeded=sum(part.state is State.SUCCEEDED for part in self.parts),
            dead=standing.dead,
            cancelled=standing.cancelled,
            out=standing.out,
            parallel=self.parallel,
            tolerated=self.tolerated,
            size=sum(part.plan.size for part in self.parts),
            done=sum(part.done for part in self.parts),
            records=sum(part.records for part in self.parts),
            final=self.final.id if self.final is not None else None,
            cancel_requested=self.job.cancel_requested,
            reason=self.job.reason,
            created_at=self.created_at,
            finished_at=self.job.finished_at,
        )

    def part_record(self, part: Part) -> PartRecord:
        """One of its parts as callers see it."""
        return PartRecord(
            parent=self.job.id,
            index=part.index,
            total=len(self.parts),
            span=msgspec.json.decode(part.plan.span),
            size=part.plan.size,
            state=part.state,
            job=part.job.id if part.job is not None else None,
            attempt=part.job.attempt if part.job is not None else 0,
            done=part.done,
            records=part.records,
            error=part.error(),
            created_at=self.created_at,
        )


def claimed(tables: Tables, parent: Parent, indexes: Iterable[int], wanted: int, now: float) -> None:
    """Parts were claimed: others are offered until so many wait [P8]."""
    for index in indexes:
        parent.parts[index].claimed = True
    advance(tables, parent, now, wanted)


def advance(tables: Tables, parent: Parent, now: float, wanted: int = 1) -> None:
    """Take every step that a parent can take now. One that has ended takes none."""
    while not parent.ended:
        standing = parent.standing(wanted)
        match next_step(standing):
            case Step.WAIT:
                return
            case Step.OFFER:
                part = next(part for part in parent.parts if part.job is None)
                part.job, _ = tables.add(parent.job_of(part.index, part.plan), now)
                part.job.checkpoint, part.claimed = part.kept, False
                part.job.steps = part.steps
            case Step.FINALIZE:
                parent.final, _ = tables.add(parent.job_of(FINAL, PartPlan("null")), now)
            case Step.SUCCEED:
                parent.job.result = parent.final.result if parent.final is not None else None
                tables.end(parent.job, State.SUCCEEDED, now)
            case Step.DIE:
                cause = None if parent.final is None else parent.final.cause()
                tables.end(parent.job, State.DEAD, now, reason=why_dead(standing, cause))
            case Step.CANCEL:
                tables.end(parent.job, State.CANCELLED, now)


# -- going on: redrive, and the retry of a dead part [P9] ---------------------------------------------------


def redrive(tables: Tables, parent: Parent, now: float) -> int:
    """Let the failed parts wait for their turn again, and those that a cancel kept from theirs."""
    stopped = parent.job.cancel_requested
    again = [part for part in parent.parts if part.failed or (stopped and part.job is None)]
    final = parent.final is not None and parent.final.state in (State.DEAD, State.CANCELLED)
    if not again and not final:
        return 0
    _refuse_finalizing(parent)
    _reopen(tables, parent, now)
    for part in again:
        if part.job is not None:
            _bury(tables, part.job)
            part.steps, part.job = part.job.steps, None
    advance(tables, parent, now)
    return len(again) + final


def retry_part(tables: Tables, parent: Parent, job: Job, now: float) -> None:
    """Bring a dead part back, from its last checkpoint, and its parent with it."""
    _refuse_finalizing(parent)
    cancelled = parent.job.cancel_requested
    _reopen(tables, parent, now, but=job)
    parent.job.cancel_requested = cancelled  # one part comes back; the others stay where the cancel left them
    tables.revive(job, now)
    job.checkpoint = next((part.kept for part in parent.parts if part.job is job), None)


def _refuse_finalizing(parent: Parent) -> None:
    """The finalizer never runs beside parts: while it waits or runs, none of them comes back."""
    if parent.final is not None and parent.final.state not in FINISHED:
        raise Finalizing.of(parent.job.id, parent.final.id)


def _reopen(tables: Tables, parent: Parent, now: float, but: Job | None = None) -> None:
    """A parent waits for its parts again, with its key. A finalizer that did not succeed will run anew."""
    key = parent.job.options.unique_key
    if parent.ended and key is not None:
        if key in tables.unique:
            raise AlreadyEnqueued(
                f"unique key {key!r} of parent {parent.job.id} is held by job {tables.unique[key].id} now: "
                "cancel that one, or wait for its end",
                tables.unique[key].id,
            )
        tables.unique[key] = parent.job
    tables.wait_for_parts(parent.job, now)
    final = parent.final
    if final is not None and final is not but and final.state in (State.DEAD, State.CANCELLED):
        _bury(tables, final)
        parent.final = None


def _bury(tables: Tables, job: Job) -> None:
    """A dead job that another goes on for leaves the dead letters; a cancelled one stays as it is."""
    if job.state is State.DEAD:
        tables.jobs.pop(job.id, None)
