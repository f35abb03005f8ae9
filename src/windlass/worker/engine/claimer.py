"""The claim loop of one worker: claim whenever there is room and work, put jobs into buffers or quarantine,
and wait for a wake-up where there is nothing to claim."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from windlass.core.abilities import NONE
from windlass.core.retry import Backoff
from windlass.core.states import Kind
from windlass.errors import StoreFull, StoreUnavailable
from windlass.running.outages import OutageLog
from windlass.store.protocol import NOTHING, Store
from windlass.store.records import Claim, ClaimedJob
from windlass.worker.engine.capacity import Capacity
from windlass.worker.engine.feedback import Feedback
from windlass.worker.engine.holdings import Holdings
from windlass.worker.engine.slots import Slots
from windlass.worker.engine.waiting import ChangeEvent
from windlass.worker.reports.recorder import Recorder
from windlass.worker.reports.status_memory import StatusMemory

logger: Final = logging.getLogger("windlass.worker")
IDLE: Final = 60.0
"""Seconds to wait for a wake-up at most; the store polls more often than that."""

LINGER: Final = 0.002
"""Seconds to wait after a claim that left room, so that a trickle is claimed in batches."""

GIVE_WAY: Final = 0.005
"""Seconds to wait, at most, for each other worker of the queue after wake-ups in vain, so that they claim
first."""

FORGET: Final = 1.0
"""Seconds without a wake-up after which earlier ones in vain no longer count."""

PASS_ON: Final = 0.5
"""Seconds that a crashed job waits here before it is passed on; see `Claimer._receive`."""

YIELD: Final = 0.3
"""Seconds without a claim after a crashed job was passed on, so that others claim it."""

SLACK: Final = 0.01
"""Seconds that a timer is set later than it is due: uvloop may call a millisecond too soon, and nothing would
call again."""

PAUSES: Final = Backoff(0.02, 5.0, jitter=0.5)
"""Between claims that fail."""


class Claimer:
    """Claims for one worker. `peers` is how many workers serve the queue that the fewest serve. `alone` says
    that there are no others to pass a crashed job on to. `memory` notes when the store last answered."""

    def __init__(  # noqa: PLR0913 - it is where the parts of a worker session meet
        self,
        store: Store,
        worker: int,
        slots: Slots,
        capacity: Capacity,
        holdings: Holdings,
        feedback: Feedback,
        record: Recorder,
        changed: ChangeEvent,
        *,
        alone: bool = False,
        memory: StatusMemory | None = None,
        abilities: frozenset[str] = NONE,
        lacking: Mapping[str, str] = NOTHING,
    ) -> None:
        self.closed = False
        """True if nothing more is claimed, and what comes in goes back."""
        self.answered: Final = asyncio.Event()
        """No claim is under way."""
        self.answered.set()
        self.peers = 1
        self._store = store
        self._worker = worker
        self._slots = slots
        self._quarantine = slots.quarantine
        self._capacity = capacity
        self._holdings = holdings
        self._unanswered = holdings.unanswered
        self._feedback = feedback
        self._record = record
        self._changed = changed
        self._alone = alone
        self._status_memory = memory
        self._abilities = abilities
        self._lacking = lacking
        self._loop = asyncio.get_running_loop()
        self._in_vain = 0
        self._woken_at = 0.0
        self._yielding = False
        self._outages = OutageLog(logger)

    async def run(self) -> None:
        """Claim whenever there is room and work. Raises WorkerLost."""
        try:
            await self._claim_for_ever()
        finally:
            self._answered()  # it has no answer from now on, for whatever reason

    async def claim(self, wants: dict[str, int] | None = None) -> int:
        """Claim once, as much as there is room for, and start it. Returns the number of jobs."""
        if self._unanswered.due:
            await self._holdings.compare()  # also without room: what it finds is nobody else's until then
        wants = self.wants() if wants is None else wants
        if not wants:
            return 0
        try:
            limit = 1 if self._quarantine.closed else self._capacity.limit(wants)
            peers = self._capacity.peers(wants)
            self.answered.clear()
            claims = await self._store.claim(
                self._worker, wants, limit, self._feedback.needs, peers, self._abilities
            )
        except BaseException:
            self._unanswered.lost()
            raise
        finally:
            self.answered.set()
        self._record.claimed(claims, wants)
        found = self.take(claims)
        if found:
            # A store in memory waits for nothing, and jobs that have ended by now make room for more.
            await asyncio.sleep(0)
        return found

    def wants(self) -> dict[str, int]:
        """How many jobs of each queue there is room for, those ahead of the slots included."""
        if self.closed or self._yielding:
            return {}
        if not self._quarantine.closed:
            return self._capacity.wants()
        if not self._quarantine.takes_more():
            return {}
        return {queue: 1 for queue in self._capacity.wants() if not self._capacity.is_full(queue)}

    async def _claim_for_ever(self) -> None:
        failures = 0
        woken = True
        while True:
            self._changed.clear()
            wants = self.wants()
            try:
                found = await self.claim(wants)
            except (StoreUnavailable, StoreFull) as error:
                failures += 1
                pause = PAUSES.delay(failures, random.random())
                self._outages.failed("claims", "cannot claim, next try in %.1f s: %s", pause, error)
                if isinstance(error, StoreFull):
                    self._answered()
                    if self._status_memory is not None:
                        self._status_memory.full()
                await asyncio.sleep(pause)
                continue
            failures = 0
            self._outages.recovered("claims")
            self._answered()
            if found:
                self._in_vain = 0
            if not wants:
                self._answered(room=False)
                await self._changed.wait()
                self._answered()
            elif not found:
                await self._wait(wants)
            elif found < sum(wants.values()):
                # A lone job: the worker it woke looks again at once, so that the next one wakes it, too.
                await asyncio.sleep(0 if woken else LINGER)
            woken = bool(wants) and not found

    def _answered(self, *, room: bool = True) -> None:
        if self._status_memory is not None:
            self._status_memory.answered(room=room)

    def take_flush_claims(self, claims: Sequence[Claim]) -> int:
        """Take claims that came with the answer to a flush: they may be runs of keys."""
        found = self.take(claims, self._capacity.put_runs)
        self._slots.run_watch.begin()
        return found

    def take(
        self, claims: Sequence[Claim], put: Callable[[str, Sequence[ClaimedJob]], None] | None = None
    ) -> int:
        """Start the jobs of these claims, or put them where they wait for a slot. Returns how many."""
        put = put or self._capacity.put
        found = sum(len(claim.jobs) for claim in claims)
        for claim in claims:
            self._feedback.claimed(claim.id)
            self._unanswered.answered(claim.id)
        for claim in [self._send_on(claim) for claim in claims] if self._lacking else claims:
            if not claim.jobs:
                continue
            if self.closed:
                for job in claim.jobs:
                    self._slots.hand_back(job)
            elif claim.jobs[0].deaths:
                self._receive(claim.jobs[0])
            else:
                self._quarantine.clean_job_claimed()
                put(claim.queue, claim.jobs)
        for queue in {claim.queue for claim in claims}:
            if ramp := self._capacity.ramp(queue):
                self._loop.call_later(ramp + SLACK, self._changed.set)
            self._slots.fill(queue)
        self._slots.admit()
        return found

    def _send_on(self, claim: Claim) -> Claim:
        """Return the claim without jobs that this worker is not able to run, as only their task says: their
        producer did not have its code. They go to workers that are, uncharged [K14]; what comes behind one of
        them in its run goes back."""
        kept: list[ClaimedJob] = []
        broken: set[int] = set()
        for job in claim.jobs:
            needs = self._lacking.get(job.task) if job.options.needs is None else None
            if job.run in broken:
                self._slots.withhold(job, None)
            elif needs is not None:
                self._slots.withhold(job, needs)
                broken |= {job.run} - {0}
            else:
                kept.append(job)
        return claim if len(kept) == len(claim.jobs) else msgspec.structs.replace(claim, jobs=kept)

    # -- jobs that crashed before -------------------------------------------------------------------------

    def _receive(self, job: ClaimedJob) -> None:
        """A job that has seen a worker die [C8]. Where others run, it waits for them; and now and then it is
        offered to workers that have nothing to do, like the one that was started in the dead one's place."""
        left = self._quarantine.receive(job)
        self._loop.call_later(left + SLACK, self._slots.admit)
        if left > PASS_ON and not self._alone:
            self._loop.call_later(PASS_ON, self._pass_on, job)

    def _pass_on(self, job: ClaimedJob) -> None:
        if self._quarantine.waiting is job:
            self._yielding = True
            self._loop.call_later(YIELD, self._claim_again)
            self._slots.withdraw(Kind.RELEASED)

    def _claim_again(self) -> None:
        self._yielding = False
        self._changed.set()

    # -- waiting ------------------------------------------------------------------------------------------

    async def _wait(self, wants: dict[str, int]) -> None:
        """Wait for work in queues that have room, or for room in others."""
        self._slots.asked = frozenset(wants)
        try:
            waiting = self._store.wait(list(wants), IDLE, self._abilities)
            if await self._changed.unless_set(waiting) is not None:
                await self._give_way()
        except Exception as error:  # noqa: BLE001 - whatever it is, polling goes on
            message = "cannot wait for a wake-up, polling: %s: %s"
            self._outages.failed("wake-ups", message, type(error).__name__, error)
            await asyncio.sleep(PAUSES.delay(3, random.random()))
        finally:
            self._slots.asked = frozenset()

    async def _give_way(self) -> None:
        """Wait after wake-ups that found nothing, longer with each (up to × peers), so that other workers
        claim first: a wake-up reaches all workers of a queue, and few of them find something."""
        now = time.monotonic()
        quiet, self._woken_at = now - self._woken_at > FORGET, now
        self._in_vain = 0 if quiet else self._in_vain + 1
        late = min(self._in_vain, self.peers) - 1
        if late > 0:
            await self._changed.unless_set(asyncio.sleep(GIVE_WAY * late * random.random()))
