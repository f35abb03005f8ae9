"""The work of one worker identity: claim, run, write back. From its registration until it retires or is lost.

    claimer ──▶ buffers (a little ahead) ──▶ slots (running) ──▶ outcome log ──▶ store

A job in a buffer is claimed and not started; it is handed back uncharged when the worker stops, when its
queue closes, or when the slots stay full. A worker session never decides to end: it raises WorkerLost when
the store says that its identity is dead, and otherwise works until it is told to stop. It is made of parts,
and passes on to them what comes from outside; each says in its own file what it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from windlass.core.abilities import NONE, can_run
from windlass.core.states import Kind
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Outcome
from windlass.worker.engine.assignment import Assignment
from windlass.worker.engine.capacity import Capacity
from windlass.worker.engine.claimer import Claimer
from windlass.worker.engine.feedback import Feedback
from windlass.worker.engine.flush_claims import FlushClaims
from windlass.worker.engine.holdings import Holdings
from windlass.worker.engine.outcomes import OutcomeLog
from windlass.worker.engine.slots import Slots
from windlass.worker.engine.unanswered_claims import UnansweredClaims
from windlass.worker.engine.waiting import ChangeEvent
from windlass.worker.handlers.handler_port import HandlerPort
from windlass.worker.handlers.run import Why
from windlass.worker.handlers.runner import Runner
from windlass.worker.handlers.spending import Spending
from windlass.worker.reports.recorder import Recorder
from windlass.worker.reports.status_memory import StatusMemory

UNWIND: Final = 10.0
"""Seconds that handlers have to unwind once they were told to stop."""


class WorkerSession:
    """One worker at work. `total` bounds what runs over all queues; `memory` notes every start, and
    `ended` is called with every outcome."""

    def __init__(  # noqa: PLR0913 - as much as a worker is made of
        self,
        store: Store,
        worker: int,
        runner: Runner,
        assignment: Assignment,
        *,
        total: int | None = None,
        memory: StatusMemory | None = None,
        ended: Callable[[Outcome], None] | None = None,
        record: Recorder | None = None,
        abilities: frozenset[str] = NONE,
    ) -> None:
        self.worker = worker
        self.changed: Final = ChangeEvent()
        """There may be something to do: room to claim for, a new assignment, or an outcome written."""
        self.assignment: Assignment = assignment
        self.log: Final = OutcomeLog(
            store,
            worker,
            flushed=self.changed.set if total is not None else lambda: None,
            record=record,
            tasks=runner.tasks,
            more=lambda: bool(self.running),
            memory=memory,
        )
        self.capacity: Final = Capacity(total, runner.batches())
        self.feedback: Final = Feedback(store, runner.needs)
        port = HandlerPort(
            store,
            worker,
            self.log,
            asyncio.get_running_loop(),
            runner.lease,
            runner.codec,
            Spending(self.feedback.needs, self.feedback.claimed_at),
        )
        self.slots: Slots = Slots(
            runner, port, self.log, self.capacity, self.feedback, self.changed, memory=memory, ended=ended
        )
        self.running: Final = self.slots.running
        unanswered = UnansweredClaims(store, worker, runner.lease)
        self.holdings: Final = Holdings(unanswered, self.slots, self.capacity, self.log, self.changed)
        self.claimer: Final = Claimer(
            store,
            worker,
            self.slots,
            self.capacity,
            self.holdings,
            self.feedback,
            self.log.record,
            self.changed,
            alone=total is not None,  # run_until_idle has no others
            memory=memory,
            abilities=abilities,
            lacking={
                name: needs
                for name, task in runner.tasks.items()
                if (needs := task.abilities) and not can_run(needs, abilities)
            },
        )
        if total is None:  # else queues share the slots, and the next of a key would overtake other queues
            self.log.flush_claims = FlushClaims(
                self.capacity,
                self.feedback,
                self.log.record,
                self.changed,
                take=self.claimer.take_flush_claims,
                lost=unanswered.lost,
            )
        self._look_at(assignment)

    # -- what it is told --------------------------------------------------------------------------------

    def assign(self, assignment: Assignment) -> None:
        """Start what there is room for now, and hand back what is not to be started any more."""
        if assignment != self.assignment:
            self.changed.set()
        self._look_at(assignment)
        for queue in self.capacity.buffers:
            self.slots.fill(queue)
            if self.capacity.is_stale(queue):
                self._empty(queue)
                self.changed.set()
        self.slots.admit()
        waiting = self.slots.quarantine.waiting
        if waiting is not None and not assignment.slots.get(waiting.queue, 0):
            self.slots.withdraw(Kind.RELEASED)

    def cancel(self, jobs: frozenset[int] | set[int]) -> None:
        """Cancel these jobs, as was asked for [O5]; of a parent, its parts and its finalizer [P9]."""
        for run in [run for run in self.running if _is_meant(run.job, jobs)]:
            self.slots.stop(run, Why.CANCELLED)
        for job in self.capacity.waiting():
            if _is_meant(job, jobs):
                self.capacity.remove(job)
                self.slots.hand_back(job, Kind.CANCELLED)
        waiting = self.slots.quarantine.waiting
        if waiting is not None and _is_meant(waiting, jobs):
            self.slots.withdraw(Kind.CANCELLED)

    def _look_at(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.capacity.slots = assignment.slots
        self.capacity.serving = assignment.serving
        self.claimer.peers = assignment.peers
        self.slots.assign(assignment)
        self.feedback.set_queues(assignment.queues)

    # -- the end ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Claim and start nothing any more; what was claimed and not started goes back."""
        self.claimer.closed = self.log.leaving = True
        if self.log.flush_claims is not None:
            self.log.flush_claims.closed = True
        for queue in self.capacity.buffers:
            self._empty(queue)
        self.slots.withdraw(Kind.RELEASED)
        self.changed.set()

    async def finish(self, timeout: float) -> None:
        """Let what runs come to its end, for at most so long."""
        await self.slots.all_ended(timeout)

    async def stop(self, why: Why) -> None:
        """End what runs: hand it back uncharged, or, where it is lost, drop it."""
        self.close()
        for run in list(self.running):
            self.slots.stop(run, why)
        await self.slots.all_ended(UNWIND)
        self.slots.deadlines.close()

    def _empty(self, queue: str) -> None:
        for job in self.capacity.empty(queue):
            self.slots.hand_back(job)


def _is_meant(job: ClaimedJob, jobs: frozenset[int] | set[int]) -> bool:
    part = job.options.part
    return job.id in jobs or (part is not None and part.parent in jobs)
