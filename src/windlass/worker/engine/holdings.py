"""The jobs that a worker holds: those that wait for a slot, a crashed one in quarantine, and what runs. Every
few seconds it is compared with what the store believes [S4], and differences are settled; see
`unanswered_claims`."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from windlass.core.counts import plural
from windlass.core.states import Kind
from windlass.store.records import Fence, Outcome
from windlass.worker.engine.capacity import Capacity
from windlass.worker.engine.outcomes import OutcomeLog
from windlass.worker.engine.slots import Slots
from windlass.worker.engine.unanswered_claims import UnansweredClaims
from windlass.worker.handlers.run import Run, Why

logger: Final = logging.getLogger("windlass.worker")


class Holdings:
    """The jobs of one worker. `changed` is set when it is time to compare: a worker that is full claims
    nothing by itself, and has to be reminded."""

    def __init__(
        self,
        unanswered: UnansweredClaims,
        slots: Slots,
        capacity: Capacity,
        log: OutcomeLog,
        changed: asyncio.Event,
    ) -> None:
        self.unanswered = unanswered
        self._slots = slots
        self._capacity = capacity
        self._log = log
        self._changed = changed
        self._remind()

    @property
    def none(self) -> bool:
        """Return whether nothing is held: nothing runs, nothing waits for a slot, every outcome is
        written."""
        waits = self._slots.quarantine.waiting is not None or any(self._capacity.buffers.values())
        return not self._slots.running and not waits and self._log.settled

    async def compare(self) -> None:
        """Make the store and this worker agree on what it holds."""
        async with self._log.no_flush_claims():
            await self._compare()

    async def _compare(self) -> None:
        held = {job.fence for job in self._capacity.waiting()}
        if self._slots.quarantine.waiting is not None:
            held.add(self._slots.quarantine.waiting.fence)
        running = self._running()
        known = held | running.keys() | self._log.unwritten
        # One that ends with a write of its own may have ended in the store before it has the answer.
        held |= {fence for fence, run in running.items() if run.context._writable}
        unknown, lost = await self.unanswered.compare(known, held)
        for job in unknown:  # its tokens stay spent: it may have run [F1]
            self._slots.settle(Outcome(job=job, kind=Kind.RELEASED))
        if unknown and not self.unanswered.any:
            message = "handed back %s that the store believed to be running here; the first: %d"
            logger.warning(message, plural(len(unknown), "job"), unknown[0].id)
        if lost:
            self._drop(lost)
        self._remind()

    def _drop(self, lost: set[Fence]) -> None:
        """The store does not know of these, so they belong to others or soon will: stop those that run.
        Nothing is written for them [C5]."""
        runs = [run for fence, run in self._running().items() if fence in lost]
        logger.warning(
            "%s not this worker's in the store, which may have lost the claim; %s stopped",
            plural(len(lost), "job is", "jobs are"),
            plural(len(runs), "handler"),
        )
        for job in self._capacity.waiting():
            if job.fence in lost:
                rest = self._capacity.runs.rest_of(job) if job.run else ()
                self._capacity.remove(job)
                for other in rest:  # it must not come before one that may be running elsewhere [F6]
                    if other.fence not in lost:
                        self._slots.hand_back(other)
        waiting = self._slots.quarantine.waiting
        if waiting is not None and waiting.fence in lost:
            self._slots.withdraw(None)
        for run in runs:
            self._slots.stop(run, Why.LOST)
        self._changed.set()

    def _running(self) -> dict[Fence, Run]:
        return {run.job.fence: run for run in self._slots.running}

    def _remind(self) -> None:
        pause = max(0.0, self.unanswered.pause) + 0.01
        asyncio.get_running_loop().call_later(pause, self._changed.set)
