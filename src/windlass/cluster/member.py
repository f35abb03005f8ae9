"""One host in the cluster: it sends heartbeats for its workers, assigns their slots, listens for them, and
runs for coordinator.

Heartbeats come from here and not from the workers, so that a handler that holds the interpreter for minutes
does not lose its lease [C4]. When none could be delivered for most of a lease, the workers are told to stop:
others may have their jobs soon [C9].
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol

from windlass.cluster.coordinator import TERM, Coordinator
from windlass.core.retry import Backoff, DeathPolicy
from windlass.errors import SchemaMissing, StoreError, StoreFull, WorkerLost
from windlass.running.loopthread import cancelled_from_outside
from windlass.running.outages import OutageLog
from windlass.settings import Settings
from windlass.store.protocol import Store
from windlass.store.records import FOR_HOSTS, ClusterView, WakeUp
from windlass.worker.engine.assignment import Assignment, assignment_for
from windlass.worker.engine.waiting import answered
from windlass.worker.reports.recorder import recorder_for
from windlass.worker.reports.reporter import Reporter

logger: Final = logging.getLogger("windlass.cluster")
STEER_EVERY: Final = 1.0
AT_ONCE: Final = 0.01
"""Seconds between two questions that wake-ups lead to: those that come together lead to one."""

AGAIN: Final = 0.25
"""Seconds after which a question about cancels is asked once more: the answer to the first may have overtaken
that of the claim to the worker, which does not know the job yet."""

START_TIME: Final = 10.0
"""Seconds that workers which came up first leave room for those that are started with them."""

FENCE: Final = 0.9
"""The part of a lease after which a worker without a heartbeat is given up. Others wait for all of it."""

UNANSWERED: Final = 3.0
"""Seconds without an answer after which the store is out of reach."""


class LocalWorker(Protocol):
    """A worker of this host, as its member sees it. Called on the member's loop; must not block."""

    def assign(self, assignment: Assignment) -> None:
        """New slots and settings of queues."""

    def wake(self, wake_up: WakeUp) -> None:
        """Take a wake-up that the host received."""

    def cancel(self, jobs: frozenset[int]) -> None:
        """These of its jobs should be cancelled."""

    def lose(self, worker: int) -> None:
        """This identity is dead, or must be taken for dead."""

    def can_run(self) -> bool:
        """Return whether its process can run at all; one that was stopped by a signal gets no heartbeats."""


class LocalIdentity:
    """One identity of this host: its last heartbeat, and what it was assigned."""

    def __init__(self, local: LocalWorker) -> None:
        self.local = local
        self.heartbeat_at: float = time.monotonic()
        self.assignment: Assignment = Assignment()
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
        self._identities: dict[int, LocalIdentity] = {}
        self._view: ClusterView | None = None
        self._gone: set[str] = set()
        self._look_now = asyncio.Event()
        """A worker has joined, or queues or slots were changed."""
        self._to_ask: set[int] = set()
        """Workers that may hold jobs to be cancelled."""
        self._ask_now = asyncio.Event()
        self._receives = False
        self._answered_at = float("-inf")
        self._unanswered = 0
        """How many questions in a row the store did not answer."""
        self.writes: str = "done"
        """How the last heartbeat was written: "done", "full" where the store has no room, else "failing"."""
        self._outages = OutageLog(logger)
        self.record: Final = recorder_for(settings, socket.gethostname())
        """Counts and notes of this host about the cluster."""
        self._reporter = Reporter(store, self.record)
        self.coordinator: Final = Coordinator(
            store,
            secrets.randbelow(2**62) + 1,
            policy=DeathPolicy(poison=settings.poison),
            sweep=settings.sweep,
            term=self._term,
            record=self.record,
        )

    def expect(self, workers: int) -> None:
        """Expect workers that are about to start: for a while, those that are here leave room for them."""
        self._starting = workers
        self._starting_until = time.monotonic() + START_TIME

    def join(self, worker: int, local: LocalWorker) -> None:
        """Send heartbeats for this worker from now on, and assign its slots."""
        self._identities[worker] = LocalIdentity(local)
        if len(self._identities) >= self._starting:
            self._starting = 0
        self._look_now.set()
        local.wake(WakeUp(receives=self._receives, missed=True))

    def leave(self, worker: int) -> None:
        """This worker is gone, or lost."""
        self._identities.pop(worker, None)

    @property
    def reachable(self) -> bool:
        """Return whether the store answers: it did a moment ago, and not both of the last two questions
        failed."""
        return self._unanswered < 2 and time.monotonic() - self._answered_at < min(UNANSWERED, self._lease)

    @property
    def writable(self) -> bool:
        """Return whether the store takes writes, too: a standby only answers questions."""
        return time.monotonic() - self.coordinator.answered_at < self._term

    def backoff(self, queue: str) -> Backoff:
        """How this queue spaces retries, as far as is known here [O2]."""
        return Assignment(queues=self._view.queues if self._view is not None else {}).backoff(queue)

    async def run(self) -> None:
        """Send heartbeats, assign slots and coordinate until cancelled."""
        self._reporter.start()
        try:
            async with asyncio.TaskGroup() as group:
                for chore in (
                    self._send_heartbeats,
                    self._ask_for_ever,
                    self._fence_for_ever,
                    self._look_for_ever,
                    self._listen_for_ever,
                    self.coordinator.run,
                ):
                    group.create_task(self._keep(chore))
        finally:
            await self._reporter.close()

    async def _keep(self, chore: Callable[[], Awaitable[None]]) -> None:
        """An unexpected error is logged, and the chore starts again: a worker without heartbeats would lose
        its jobs, and one without its fence would go on with jobs that others have [C4] [C9]."""
        while True:
            try:
                await chore()
            except Exception as error:
                if cancelled_from_outside():  # or the cancel would be lost, and this go on for ever
                    logger.exception("the cluster member failed while it stopped")
                    return
                message = "the cluster member failed and restarts: %s"
                foreseen = isinstance(error, SchemaMissing)
                self._outages.failed(chore.__qualname__, message, error, error=None if foreseen else error)
            await asyncio.sleep(min(1.0, self._lease / 10))

    # -- heartbeats ------------------------------------------------------------------------------------------

    async def _send_heartbeats(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.gather(
                *(self._heartbeat(worker, identity) for worker, identity in list(self._identities.items()))
            )
            pause = self._lease / 3 * random.uniform(0.9, 1.0)
            await asyncio.sleep(max(0.05, pause - (time.monotonic() - began)))

    async def _ask_for_ever(self) -> None:
        """Send a heartbeat at once for workers that may hold jobs to be cancelled: its answer says which
        [O5]."""
        while True:
            await self._ask_now.wait()
            self._ask_now.clear()
            asked, self._to_ask = self._to_ask, set()
            await asyncio.gather(
                *(self._heartbeat(each, self._identities[each]) for each in asked & self._identities.keys())
            )
            await asyncio.sleep(AT_ONCE)

    def _ask(self, workers: Iterable[int]) -> None:
        self._to_ask.update(workers)
        self._ask_now.set()

    async def _heartbeat(self, worker: int, identity: LocalIdentity) -> None:
        """One heartbeat, tried again until the next one is due: a failed one is no reason to stop [C4]."""
        if not identity.local.can_run():
            return
        until = time.monotonic() + self._lease / 3
        pause = min(1.0, self._lease / 30)
        while not identity.lost:
            began = time.monotonic()
            try:
                async with asyncio.timeout(self._lease / 3):
                    heartbeat = await answered(self._store.heartbeat(worker))
            except WorkerLost:
                self._lose(worker, identity)
            except (StoreError, TimeoutError) as error:
                self.writes = "full" if isinstance(error, StoreFull) else "failing"
                self._outages.failed("heartbeats", "a heartbeat failed: %s", str(error) or "no answer")
                if time.monotonic() + pause < until:
                    await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                    pause *= 2
                    continue
            else:
                identity.heartbeat_at, self.writes = began, "done"
                self._answered_at = max(self._answered_at, began)
                self._outages.recovered("heartbeats")
                if heartbeat.cancel:
                    identity.local.cancel(heartbeat.cancel)
            return

    async def _fence_for_ever(self) -> None:
        """Give up on workers whose last heartbeat is nearly a lease ago, before anybody else may [C9]."""
        while True:
            await asyncio.sleep(min(1.0, self._lease / 20))
            for worker, identity in list(self._identities.items()):
                if time.monotonic() - identity.heartbeat_at >= self._lease * FENCE:
                    self._lose(worker, identity)

    def _lose(self, worker: int, identity: LocalIdentity) -> None:
        """Signalled once. The heartbeats of the identity end here, and its handlers are stopped at once
        [C5]."""
        if not identity.lost:
            identity.lost = True
            identity.local.lose(worker)

    # -- wake-ups --------------------------------------------------------------------------------------------

    async def _listen_for_ever(self) -> None:
        """One connection listens for the whole host: each more would have the server wake one more session
        with every notification. A worker that gets no wake-ups polls."""
        try:
            await self._store.forward_wakeups(list(self._queues), self._wake)
        finally:
            self._wake(WakeUp(receives=False))

    def _wake(self, wake_up: WakeUp) -> None:
        self._receives = wake_up.receives
        if FOR_HOSTS in wake_up.topics or wake_up.missed:
            self._look_now.set()
            self.coordinator.assign_now.set()
        named = {worker for worker in self._identities if f"{FOR_HOSTS}{worker}" in wake_up.topics}
        if named or wake_up.missed:
            asked = set(self._identities) if wake_up.missed else named
            self._ask(asked)
            asyncio.get_running_loop().call_later(AGAIN, self._ask, asked)
        if wake_up.topics and all(topic.startswith(FOR_HOSTS) for topic in wake_up.topics):
            return
        for identity in self._identities.values():
            identity.local.wake(wake_up)

    # -- view ---------------------------------------------------------------------------------------

    async def _look_for_ever(self) -> None:
        while True:
            self._look_now.clear()
            trusted = True
            before = self._view
            try:
                async with asyncio.timeout(self._lease / 3):
                    self._view = await answered(self._store.cluster_view(list(self._identities)))
            except (StoreError, TimeoutError) as error:
                trusted = False
                self._unanswered += 1
                self._outages.failed(
                    "assignments", "cannot read the settings of queues: %s", str(error) or "no answer"
                )
            else:
                self._answered_at, self._unanswered = time.monotonic(), 0
                self._outages.recovered("assignments")
                if not self._receives and before is not None and before.cancels != self._view.cancels:
                    self._ask(self._identities)
            missing = max(0, self._starting - len(self._identities))
            if time.monotonic() >= self._starting_until:
                missing = 0
            for worker, identity in self._identities.items():
                identity.assignment, gone = assignment_for(
                    worker,
                    self._queues,
                    self._view,
                    identity.assignment,
                    trusted=trusted,
                    missing=missing,
                )
                self._warn(gone)
                identity.local.assign(identity.assignment)
            await self._pause(STEER_EVERY * random.uniform(0.9, 1.1))

    async def _pause(self, seconds: float) -> None:
        """A second, or until a worker joins, which should not wait for its first slots, or an operator has
        changed something [K2]."""
        await asyncio.sleep(AT_ONCE)
        try:
            async with asyncio.timeout(seconds):
                await self._look_now.wait()
        except TimeoutError:
            return

    def _warn(self, gone: list[str]) -> None:
        for queue in set(gone) - self._gone:
            logger.warning("queue %s is no longer in the store; this worker keeps its slots for it", queue)
        self._gone = set(gone)
