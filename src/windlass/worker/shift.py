"""The work of one worker identity: claim, run, write back. From its registration until it retires or is lost.

    claims ──▶ buffer (a little ahead) ──▶ slots (running) ──▶ outcome log ──▶ store

A job in the buffer is claimed and not started; it is handed back uncharged when the worker stops, when its
queue closes, or when the slots stay full. A shift never decides to end: it raises WorkerLost when the store
says that its identity is dead, and otherwise works until it is told to stop. What is in its slots, from the
start of a job to its outcome, is the business of `windlass.worker.slots`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

from windlass.complaints import Complaints
from windlass.core.retry import Backoff
from windlass.core.states import Kind
from windlass.errors import StoreError, StoreFull, StoreUnavailable
from windlass.store.protocol import Store
from windlass.store.records import Claim, ClaimedJob, Fence, Outcome
from windlass.words.text import plural
from windlass.worker.board import Board
from windlass.worker.doubt import Doubt
from windlass.worker.recorder import Recorder
from windlass.worker.runner import Runner
from windlass.worker.running import Why
from windlass.worker.slots import Slots
from windlass.worker.view import View
from windlass.worker.waiting import first

logger = logging.getLogger("windlass.worker")
IDLE: Final = 60.0
"""Seconds to wait for a wake-up at most; the store polls more often than that."""

LINGER: Final = 0.002
"""Seconds between claims that find less than they have room for again: so that a trickle comes in batches."""

GIVE_WAY: Final = 0.005
"""Seconds that a worker waits for each of the others, at most, where it was woken in vain."""

FORGET: Final = 1.0
"""Seconds without a word after which it was not."""

STALE: Final = 1.0
"""Seconds until claimed jobs that wait for slots go back to where others can take them, unless they are
started at such a pace that all of them will be soon."""

SOON: Final = 2
"""How many more times as long as that the jobs that wait may take at their pace."""

PASS_ON: Final = 0.5
"""Seconds that a suspect waits here before it is passed on; see `Shift._receive`."""

YIELD: Final = 0.3
"""Seconds that nothing is claimed after that, so that the others come first."""

UNWIND: Final = 10.0
"""Seconds that handlers have to unwind once they were told to stop."""

TROUBLE: Final = Backoff(0.02, 5.0, jitter=0.5)


class Shift(Slots):
    """One worker at work. `total` bounds what runs over all queues; `board` is told of every start."""

    def __init__(
        self,
        store: Store,
        worker: int,
        runner: Runner,
        view: View,
        *,
        total: int | None = None,
        board: Board | None = None,
        ended: Callable[[Outcome], None] | None = None,
        record: Recorder | None = None,
    ) -> None:
        super().__init__(store, worker, runner, view, total=total, board=board, ended=ended, record=record)
        self._in_vain = 0
        self._woken_at = 0.0
        self._yielding = False
        self._closed = False
        self._doubt = Doubt(store, worker, runner.lease)
        self._came: Counter[str] = Counter()
        self._stuck: dict[str, tuple[int, float]] = {}
        self._complaints = Complaints(logger)
        self._remind()

    # -- steering ---------------------------------------------------------------------------------------

    def steer(self, view: View) -> None:
        """Take a new view: start what there is room for, hand back what is not to be started any more."""
        if view != self.view:
            self.changed.set()
        self._look_at(view)
        now = time.monotonic()
        for queue, buffer in self._buffers.items():
            slots = view.slots.get(queue, 0)
            self._pump(queue)
            if not buffer or (self._busy[queue] < slots and not self._ward.closed):
                self._stuck.pop(queue, None)
                continue
            begun = self._came[queue] - len(buffer)
            before, since = self._stuck.setdefault(queue, (begun, now))
            if slots and now - since < STALE:
                continue
            self._stuck[queue] = begun, now
            if not slots or len(buffer) > SOON * (begun - before):  # else others would not be sooner
                del self._stuck[queue]
                self._room.stuck(queue)
                self._give_back(buffer)
                self.changed.set()
        self._admit()
        waits = self._ward.waiting
        if waits is not None and not view.slots.get(waits.queue, 0):
            self._end_waiting(Kind.RELEASED)

    def cancel(self, jobs: frozenset[int] | set[int]) -> None:
        """Somebody wants these jobs cancelled [O5]."""
        for run in [run for run in self.running.values() if run.job.id in jobs]:
            self._stop(run, Why.CANCELLED)
        for buffer in self._buffers.values():
            for job in [job for job in buffer if job.id in jobs]:
                buffer.remove(job)
                self._tally.unused(job)
                self._settle(Outcome(job=job, kind=Kind.CANCELLED))
        if self._ward.waiting is not None and self._ward.waiting.id in jobs:
            self._end_waiting(Kind.CANCELLED)

    @property
    def settled(self) -> bool:
        """Whether nothing is held: nothing runs, nothing waits for a slot, every outcome is written."""
        waits = self._ward.waiting is not None or any(self._buffers.values())
        return not self.running and not waits and self.log.settled

    @property
    def has_room(self) -> bool:
        """Whether a claim would have room for anything."""
        return bool(self._wants())

    async def warm(self) -> None:
        """Tell the store of queues that went well after a cool-down, so that their throttles are
        forgotten, and of all that breakers and governors want to know."""
        await self._tally.tell()
        succeeded, self._succeeded = self._succeeded, set()
        for queue in succeeded:
            if self.view.queue(queue).throttles and not self.view.queue(queue).cooling:
                with contextlib.suppress(StoreError):  # the next success says it again
                    await self._store.warm(queue)

    # -- claiming ---------------------------------------------------------------------------------------

    async def claim_for_ever(self) -> None:
        """Claim whenever there is room and work. Raises WorkerLost."""
        try:
            await self._claim_for_ever()
        finally:
            self._answered()  # it has no answer from now on, for whatever reason

    async def _claim_for_ever(self) -> None:
        troubles = 0
        woken = True
        while True:
            self.changed.clear()
            wants = self._wants()
            try:
                found = await self.claim(wants)
            except (StoreUnavailable, StoreFull) as error:
                troubles += 1
                pause = TROUBLE.delay(troubles, random.random())
                self._complaints.told("claims", "cannot claim, next try in %.1f s: %s", pause, error)
                if isinstance(error, StoreFull):
                    self._answered()
                await asyncio.sleep(pause)
                continue
            troubles = 0
            self._complaints.over("claims")
            self._answered()
            if found:
                self._in_vain = 0
            if not wants:
                self._answered(room=False)
                await self.changed.wait()
                self._answered()
            elif not found:
                await self._wait(wants)
            elif found < sum(wants.values()):
                # A lone job: whom it woke looks again at once, so that the next one wakes them, too.
                await asyncio.sleep(0 if woken else LINGER)
            woken = bool(wants) and not found

    def _answered(self, *, room: bool = True) -> None:
        if self._board is not None:
            self._board.answered(room=room)

    async def claim(self, wants: dict[str, int] | None = None) -> int:
        """Claim once, as much as there is room for, and start it. The answer is the number of jobs."""
        if self._doubt.due:
            await self._compare()  # also without room: what it finds is nobody else's until then
        wants = self._wants() if wants is None else wants
        if not wants:
            return 0
        try:
            limit = 1 if self._ward.closed else self._room.limit(wants)
            claims = await self._store.claim(self.worker, wants, limit, self._needs)
        except BaseException:
            self._doubt.begin()
            raise
        self.log.record.claimed(claims, wants)
        return self._take(claims)

    def _wants(self) -> dict[str, int]:
        """How many jobs of each queue there is room for, those ahead of the slots included."""
        if self._closed or self._yielding:
            return {}
        if not self._ward.closed:
            return self._room.wants(self.view.slots)
        if not self._ward.takes_more():
            return {}
        wants = self._room.wants(self.view.slots)
        return {queue: 1 for queue in wants if self._busy[queue] < self.view.slots[queue]}

    async def let_go_of_the_unknown(self) -> None:
        """Where a claim's answer was lost, what it gave us that we do not know of goes back [C5]."""
        if self._doubt.open:
            await self._compare()

    async def _compare(self) -> None:
        """See to it that the store and this worker agree on what it holds [S4]."""
        held = {job.fence for buffer in self._buffers.values() for job in buffer}
        if self._ward.waiting is not None:
            held.add(self._ward.waiting.fence)
        known = held | self.running.keys() | self.log.unwritten
        # One that ends with a write of its own may have ended in the store before it has heard of that.
        held |= {fence for fence, run in self.running.items() if run.context._writable}
        unknown, lost = await self._doubt.compare(known, held)
        for job in unknown:  # its tokens stay spent: it may have run [F1]
            self._settle(Outcome(job=job, kind=Kind.RELEASED))
        if unknown and not self._doubt.open:
            told = "%d jobs that the store takes for running here are handed back; the first: %d"
            logger.warning(told, len(unknown), unknown[0].id)
        if lost:
            self._drop(lost)
        self._remind()

    def _drop(self, lost: set[Fence]) -> None:
        """The store does not know of these, so that they are others' or will be: stop those that run. Nothing
        is written for them [C5]."""
        runs = [self.running[fence] for fence in lost & self.running.keys()]
        logger.warning(
            "%d jobs are not this worker's in the store, which may have lost their claims; %s stopped",
            len(lost),
            plural(len(runs), "handler"),
        )
        for buffer in self._buffers.values():
            for job in [job for job in buffer if job.fence in lost]:
                buffer.remove(job)
        if self._ward.waiting is not None and self._ward.waiting.fence in lost:
            self._end_waiting(None)
        for run in runs:
            self._stop(run, Why.LOST)
        self.changed.set()

    def _remind(self) -> None:
        """Look up when the next comparison is due: a worker that is full claims nothing by itself."""
        self.loop.call_later(max(0.0, self._doubt.pause) + 0.01, self.changed.set)

    def _take(self, claims: Sequence[Claim]) -> int:
        found = 0
        for claim in claims:
            found += len(claim.jobs)
            self._tally.claimed(claim.id)
            self._doubt.claimed(claim.id)
            if self._closed:
                self._give_back(deque(claim.jobs))
            elif claim.jobs[0].deaths:
                self._receive(claim.jobs[0])
            else:
                self._ward.innocent_came()
                self._buffers[claim.queue].extend(claim.jobs)
                self._came[claim.queue] += len(claim.jobs)
        for queue in {claim.queue for claim in claims}:
            self._pump(queue)
        self._admit()
        return found

    def _receive(self, job: ClaimedJob) -> None:
        """A job that has seen a worker die [C8]. Where others run, it waits for them; and now and then it is
        offered to workers that have nothing to do, like the one that was started in the dead one's place."""
        left = self._ward.receive(job)
        self.loop.call_later(left + 0.01, self._admit)  # uvloop may call a little too soon
        if left > PASS_ON and self._total is None:  # a drain has no others
            self.loop.call_later(PASS_ON, self._pass_on, job)

    def _pass_on(self, job: ClaimedJob) -> None:
        if self._ward.waiting is job:
            self._yielding = True
            self.loop.call_later(YIELD, self._claim_again)
            self._end_waiting(Kind.RELEASED)

    def _claim_again(self) -> None:
        self._yielding = False
        self.changed.set()

    async def _wait(self, wants: dict[str, int]) -> None:
        """Wait for work in queues that have room, or for room in others."""
        self._asked = frozenset(wants)
        word = asyncio.ensure_future(self._store.wait(list(wants), IDLE))
        try:
            await first(word, self.changed.wait())
            if word.done():
                await self._give_way()
        finally:
            self._asked = frozenset()
            word.cancel()
            (trouble,) = await asyncio.gather(word, return_exceptions=True)
        if isinstance(trouble, Exception):
            told = "cannot wait for a wake-up, polling: %s: %s"
            self._complaints.told("wake-ups", told, type(trouble).__name__, trouble)
            await asyncio.sleep(TROUBLE.delay(3, random.random()))

    async def _give_way(self) -> None:
        """A word wakes all workers of a queue, and few of them find something. One that found nothing again
        and again lets others come first: the more there are, and the more often that was so, the longer."""
        now = time.monotonic()
        quiet, self._woken_at = now - self._woken_at > FORGET, now
        self._in_vain = 0 if quiet else self._in_vain + 1
        late = min(self._in_vain, self.view.crowd) - 1
        if late > 0:
            await first(asyncio.sleep(GIVE_WAY * late * random.random()), self.changed.wait())

    # -- the end ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Claim and start nothing any more; what was claimed and not started goes back."""
        self._closed = self.log.leaving = True
        for buffer in self._buffers.values():
            self._give_back(buffer)
        self._end_waiting(Kind.RELEASED)
        self.changed.set()

    async def finish(self, timeout: float) -> None:
        """Let what runs come to its end, for at most so long."""
        tasks = [run.task for run in self.running.values() if run.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)

    async def stop(self, why: Why) -> None:
        """End what runs: release it uncharged, or, where it is lost, drop it."""
        self.close()
        tasks = [run.task for run in self.running.values() if run.task is not None]
        for run in list(self.running.values()):
            self._stop(run, why)
        if tasks:
            await asyncio.wait(tasks, timeout=UNWIND)
        self._deadlines.close()

    def _give_back(self, jobs: deque[ClaimedJob]) -> None:
        while jobs:
            self._hand_back(jobs.popleft())

    def _hand_back(self, job: ClaimedJob) -> None:
        """A job that was claimed and not started goes back uncharged, and so do its tokens [F1]."""
        self._tally.unused(job)
        self._settle(Outcome(job=job, kind=Kind.RELEASED))
