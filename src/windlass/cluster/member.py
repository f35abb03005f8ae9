"""One host in the cluster: it beats for its workers, tells them what to do, and stands for coordinator.

Beats come from here and not from the workers, so that a handler that holds the interpreter for minutes does
not lose its lease [C4]. When no beat could be delivered for most of a lease, the workers are told to stop:
others may have their jobs soon [C9].
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from windlass.cluster.coordinator import TERM, Coordinator
from windlass.complaints import Complaints
from windlass.core.retry import Backoff, DeathPolicy
from windlass.errors import SchemaMissing, StoreError, WorkerLost
from windlass.settings import Settings
from windlass.store.protocol import Store
from windlass.store.records import Steering
from windlass.worker.recorder import recorder_for
from windlass.worker.teller import Teller
from windlass.worker.view import View, steer
from windlass.worker.waiting import cancelled_from_outside

logger = logging.getLogger("windlass.cluster")
STEER_EVERY: Final = 1.0
START_TIME: Final = 10.0
"""Seconds that those who came up first leave room for the others that are started with them."""

FENCE: Final = 0.9
"""The part of a lease after which a worker without a beat is given up. Others wait for the whole."""

UNHEARD: Final = 3.0
"""Seconds without a word of the store after which it is out of reach."""


class Local(Protocol):
    """A worker of this host, as its member sees it. Called on the member's loop; must not block."""

    def steer(self, view: View) -> None:
        """New slots and settings of queues."""

    def cancel(self, jobs: frozenset[int]) -> None:
        """These of its jobs should be cancelled."""

    def lose(self, worker: int) -> None:
        """This identity is dead, or must be taken for dead."""

    def breathes(self) -> bool:
        """Whether its process can run at all; for one that was stopped by a signal nobody beats."""


class Seat:
    """What a member remembers of one identity."""

    def __init__(self, local: Local) -> None:
        self.local = local
        self.beaten_at = time.monotonic()
        self.view = View()
        self.lost = False


class Member:
    """The cluster, as far as this host is concerned."""

    def __init__(
        self, store: Store, settings: Settings, queues: Mapping[str, int | None], *, workers: int = 1
    ) -> None:
        """`workers` is how many of this host are being started; see `expect`."""
        self._store = store
        self.expect(workers)
        self._lease = settings.lease
        self._term = min(TERM, settings.lease / 2)
        self._queues = dict(queues)
        self._seats: dict[int, Seat] = {}
        self._told: Steering | None = None
        self._gone: set[str] = set()
        self._joined = asyncio.Event()
        self._heard_at = float("-inf")
        self._unanswered = 0
        """How often in a row the store did not say how to steer."""
        self._complaints = Complaints(logger)
        self.record = recorder_for(settings, socket.gethostname())
        """What this host counts and notes of the cluster."""
        self._teller = Teller(store, self.record)
        self.coordinator = Coordinator(
            store,
            secrets.randbelow(2**62) + 1,
            policy=DeathPolicy(poison=settings.poison),
            sweep=settings.sweep,
            term=self._term,
            record=self.record,
        )

    def expect(self, workers: int) -> None:
        """So many are to be here soon: for a while, those that are leave room for the others."""
        self._starting = workers
        self._starting_until = time.monotonic() + START_TIME

    def join(self, worker: int, local: Local) -> None:
        """Beat for this worker from now on, and steer it."""
        self._seats[worker] = Seat(local)
        if len(self._seats) >= self._starting:
            self._starting = 0
        self._joined.set()

    def leave(self, worker: int) -> None:
        """This worker is gone, or lost."""
        self._seats.pop(worker, None)

    @property
    def reached(self) -> bool:
        """Whether the store answers: it did a moment ago, and the last two questions were not in vain."""
        return self._unanswered < 2 and time.monotonic() - self._heard_at < min(UNHEARD, self._lease)

    @property
    def heeded(self) -> bool:
        """Whether the store takes writes, too: that of a standby only answers questions."""
        return time.monotonic() - self.coordinator.heeded_at < self._term

    def backoff(self, queue: str) -> Backoff:
        """How this queue spaces retries, as far as is known here [O2]."""
        return View(queues=self._told.queues if self._told is not None else {}).backoff(queue)

    async def run(self) -> None:
        """Beat, steer and coordinate until cancelled."""
        self._teller.start()
        try:
            async with asyncio.TaskGroup() as group:
                for chore in (
                    self._beat_for_ever,
                    self._fence_for_ever,
                    self._steer_for_ever,
                    self.coordinator.run,
                ):
                    group.create_task(self._keep(chore))
        finally:
            await self._teller.close()

    async def _keep(self, chore: Callable[[], Awaitable[None]]) -> None:
        """An error that nobody foresaw is told, and the chore begins again: a worker without beats would lose
        its jobs, and one without its fence would go on with jobs that others have [C4] [C9]."""
        while True:
            try:
                await chore()
            except Exception as error:
                if cancelled_from_outside():  # or the cancel would be lost, and this go on for ever
                    logger.exception("the member of the cluster failed while it ended")
                    return
                told = "the member of the cluster failed, and begins again: %s"
                foreseen = isinstance(error, SchemaMissing)
                self._complaints.told(chore.__qualname__, told, error, error=None if foreseen else error)
            await asyncio.sleep(min(1.0, self._lease / 10))

    # -- beats ------------------------------------------------------------------------------------------

    async def _beat_for_ever(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.gather(*(self._beat(worker, seat) for worker, seat in list(self._seats.items())))
            pause = self._lease / 3 * random.uniform(0.9, 1.0)
            await asyncio.sleep(max(0.05, pause - (time.monotonic() - began)))

    async def _beat(self, worker: int, seat: Seat) -> None:
        """One beat, tried again until the next one is due: a beat that fails is no reason to stop [C4]."""
        if not seat.local.breathes():
            return
        until = time.monotonic() + self._lease / 3
        pause = min(1.0, self._lease / 30)
        while not seat.lost:
            began = time.monotonic()
            try:
                async with asyncio.timeout(self._lease / 3):
                    beat = await self._store.beat(worker)
            except WorkerLost:
                self._lose(worker, seat)
            except (StoreError, TimeoutError) as error:
                self._complaints.told("heartbeats", "a heartbeat failed: %s", str(error) or "no answer")
                if time.monotonic() + pause < until:
                    await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                    pause *= 2
                    continue
            else:
                seat.beaten_at = began
                self._heard_at = max(self._heard_at, began)
                self._complaints.over("heartbeats")
                if beat.cancel:
                    seat.local.cancel(beat.cancel)
            return

    async def _fence_for_ever(self) -> None:
        """Give up on workers whose last beat is nearly a lease ago, before anybody else may [C9]."""
        while True:
            await asyncio.sleep(min(1.0, self._lease / 20))
            for worker, seat in list(self._seats.items()):
                if time.monotonic() - seat.beaten_at >= self._lease * FENCE:
                    self._lose(worker, seat)

    def _lose(self, worker: int, seat: Seat) -> None:
        """Signalled once. The identity's beats end here; its handlers are stopped within this beat [C5]."""
        if not seat.lost:
            seat.lost = True
            seat.local.lose(worker)

    # -- steering ---------------------------------------------------------------------------------------

    async def _steer_for_ever(self) -> None:
        while True:
            self._joined.clear()
            trusted = True
            try:
                async with asyncio.timeout(self._lease / 3):
                    self._told = await self._store.steering(list(self._seats))
            except (StoreError, TimeoutError) as error:
                trusted = False
                self._unanswered += 1
                self._complaints.told(
                    "steering", "cannot read how queues are set: %s", str(error) or "no answer"
                )
            else:
                self._heard_at, self._unanswered = time.monotonic(), 0
                self._complaints.over("steering")
            missing = max(0, self._starting - len(self._seats))
            if time.monotonic() >= self._starting_until:
                missing = 0
            for worker, seat in self._seats.items():
                seat.view, gone = steer(
                    worker, self._queues, self._told, seat.view, trusted=trusted, missing=missing
                )
                self._warn(gone)
                seat.local.steer(seat.view)
            await self._pause(STEER_EVERY * random.uniform(0.9, 1.1))

    async def _pause(self, seconds: float) -> None:
        """A second, or until a worker joins: it should not wait for its first slots."""
        try:
            async with asyncio.timeout(seconds):
                await self._joined.wait()
        except TimeoutError:
            return

    def _warn(self, gone: list[str]) -> None:
        for queue in set(gone) - self._gone:
            logger.warning("queue %s is not in the store any more; its size here stays as it is", queue)
        self._gone = set(gone)
