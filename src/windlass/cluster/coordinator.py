"""The one host that does the cluster's chores, for as long as its term lasts [K3].

Terms are kept in the store, by the store's clock. A coordinator that was paused and comes back finds its term
over: it stops, and the one write that would matter is refused by the term's number. Everybody watches the
heartbeats, so that whoever takes over knows at once which workers are dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from windlass.cluster import duties, schedules
from windlass.cluster.notices import Notices
from windlass.cluster.watch import HeartbeatWatch
from windlass.core.abilities import in_words
from windlass.core.counts import plural
from windlass.core.retry import DeathPolicy
from windlass.errors import SchemaMissing, StoreError, TermLost
from windlass.running.outages import OutageLog
from windlass.store.protocol import Store
from windlass.worker.engine.waiting import answered
from windlass.worker.reports.recorder import Recorder

logger: Final = logging.getLogger("windlass.cluster")
PROMOTE_EVERY: Final = 0.5
CHORE_GAP: Final = 0.005
"""Seconds between two promotions, or two rounds of another chore, at least."""

LEADING_EVERY: Final = 0.05
"""Seconds between two looks at whether this host coordinates by now."""

FIRE_EVERY: Final = 0.5
"""Seconds between two looks at the schedules at most; sooner, when one is due."""

GOVERN_EVERY: Final = 5.0
OBSERVE_EVERY: Final = 5.0
ROLLUP_EVERY: Final = 5.0
COUNT_EVERY: Final = 5.0
LOOK_EVERY: Final = 10.0
SLOTS_EVERY: Final = 1.0
ROTATE_EVERY: Final = 60.0
EXPIRE_EVERY: Final = 300.0
WARN_EVERY: Final = 60.0
LOOKS: Final = 0.2
"""The part of a term between two looks at heartbeats."""

TERM: Final = 15.0
RESIGN_TIME: Final = 2.0
CHORES: Final = "chores of the cluster"


class Coordinator:
    """Runs for coordinator, and does its duties while it is."""

    def __init__(
        self,
        store: Store,
        candidate: int,
        *,
        policy: DeathPolicy,
        sweep: float = 15.0,
        term: float = TERM,
        record: Recorder | None = None,
    ) -> None:
        self._store = store
        self._candidate = candidate
        self._policy = policy
        self._sweep = sweep
        self._length = term
        self._record = record or Recorder()
        self._notices = Notices(self._record)
        self._watch = HeartbeatWatch()
        self._term: int | None = None
        self.answered_at: float = float("-inf")
        """When the store last said who coordinates, which is a write."""
        self._until = 0.0
        self._unserved: set[str | tuple[str, str]] = set()
        self._warned_of: set[str | tuple[str, str]] = set()
        self._failing: set[str] = set()
        self._outages = OutageLog(logger)
        self._assigned: tuple[int, dict[int, dict[str, int]]] | None = None
        self.assign_now: Final = asyncio.Event()
        """Queues were changed, so that the slots of workers may have to be."""
        self._next_in = PROMOTE_EVERY
        self._fires_in = FIRE_EVERY

    @property
    def term(self) -> int | None:
        """The number of the present term, if it is ours."""
        return self._term if time.monotonic() < self._until else None

    async def run(self) -> None:
        """Run for coordinator and do its duties until cancelled; then resign."""
        store, record = self._store, self._record
        chores: list[tuple[str, float, Callable[[int], Awaitable[object]]]] = [
            ("govern", GOVERN_EVERY, lambda term: duties.govern(store, term, record)),
            ("observe", OBSERVE_EVERY, self._observe),
            ("rollup", ROLLUP_EVERY, lambda term: duties.rollup(store)),
            ("count", COUNT_EVERY, lambda term: duties.count_ends(store)),
            ("look", LOOK_EVERY, self._look),
            ("rotate", ROTATE_EVERY, self._rotate),
            ("expire", EXPIRE_EVERY, lambda term: duties.expire(store)),
            ("warn", WARN_EVERY, self._warn),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._lead())
                group.create_task(self._rescue_for_ever())
                group.create_task(self._promote_for_ever())
                group.create_task(self._fire_for_ever())
                group.create_task(self._repeat("assign", SLOTS_EVERY, self._assign, self.assign_now))
                for chore in chores:
                    group.create_task(self._repeat(*chore))
        finally:
            await self._resign()

    async def _resign(self) -> None:
        """Let another host coordinate at once. If that fails, for whatever reason, the term runs out by
        itself: an error raised here would hide the cancellation, and this would never end [fault 33]."""
        led, self._term = self._term, None
        if led is None:
            return
        try:
            async with asyncio.timeout(RESIGN_TIME):
                await self._store.resign(self._candidate)
        except Exception as error:  # noqa: BLE001 - see above
            message = "could not resign from term %d, which ends by itself within %g s: %s"
            logger.warning(message, led, self._length, str(error) or type(error).__name__)

    async def _lead(self) -> None:
        while True:
            asked = time.monotonic()
            try:
                term = await answered(self._store.lead(self._candidate, self._length))
            except (StoreError, SchemaMissing) as error:
                logger.debug("cannot ask for a term: %s", error)
            except Exception as error:  # noqa: BLE001 - the chores go on while the term lasts
                self._unexpected("lead", error)
            else:
                self._outages.recovered(_kind("lead"))
                self.answered_at = asked
                if term is None:
                    self._step_down()
                else:
                    # Counted from before the question: by the store's clock it ends later, never sooner.
                    self._until = asked + self._length
                    if term != self._term:
                        logger.info("this host coordinates the cluster, term %d", term)
                        self._record.note("leads", f"this host coordinates the cluster, term {term}")
                    self._term = term
            await asyncio.sleep(self._length / 3 * random.uniform(0.9, 1.1))

    def _step_down(self) -> None:
        """The term ran out before it was renewed, so that it may be another's now."""
        if self._term is not None:
            logger.warning("term %d is over: this host no longer coordinates the cluster", self._term)
        self._term = None
        self._unserved.clear()
        self._notices.forget()

    async def _rescue_for_ever(self) -> None:
        """Everybody watches, so that the next coordinator knows already who is dead. A lease is counted from
        when its last heartbeat was seen, so looks come more often than heartbeats."""
        while True:
            await self._do("rescue", self._rescue)
            often = min(self._sweep, self._length * LOOKS) * random.uniform(0.9, 1.1)
            await asyncio.sleep(min(often, self._watch.pause()))

    async def _repeat(
        self,
        name: str,
        every: float,
        chore: Callable[[int], Awaitable[object]],
        now: asyncio.Event | None = None,
    ) -> None:
        """Do a chore every so often, and when `now` is set, while the term is ours."""
        now = now or asyncio.Event()
        while True:
            now.clear()
            term = self.term
            if term is None:
                self._failing.discard(name)  # it is not ours any more, nor is its failure
            else:
                await self._do(name, functools.partial(chore, term))
            await asyncio.sleep(CHORE_GAP)  # notifications that come together count as one
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every * random.uniform(0.9, 1.1)):
                    await now.wait()

    async def _do(self, name: str, chore: Callable[[], Awaitable[object]]) -> None:
        try:
            await answered(chore())
        except TermLost:
            self._step_down()
        except (StoreError, SchemaMissing) as error:
            self._failing.add(name)
            self._outages.failed(CHORES, "a duty of the cluster failed and will be retried: %s", error)
        except Exception as error:  # noqa: BLE001 - one that cannot be done must not end the others
            self._failing.add(name)
            self._unexpected(name, error)
        else:
            self._failing.discard(name)
            self._outages.recovered(_kind(name))
            if not self._failing:
                self._outages.recovered(CHORES)

    def _unexpected(self, name: str, error: Exception) -> None:
        message = "a duty of the cluster, %s, failed unexpectedly and will be retried"
        self._outages.failed(_kind(name), message, name, error=error)

    async def _rescue(self) -> None:
        asked = time.monotonic()
        try:
            workers = await self._store.workers()
            dead = self._watch.look(workers, time.monotonic() - asked)
        except Exception:
            self._watch.forget()
            raise
        if dead and self.term is not None:
            await duties.rescue_dead(self._store, dead, self._policy, self._record)

    async def _promote_for_ever(self) -> None:
        """Promote now and then, when a notification says that jobs wait aside, and when a budget that jobs
        wait for has its next token [F1]."""
        while True:
            self._next_in = PROMOTE_EVERY * random.uniform(0.9, 1.1)
            if self.term is None:
                await asyncio.sleep(LEADING_EVERY)
                continue
            await self._do("promote", self._promote)
            try:
                if "promote" not in self._failing:
                    await asyncio.sleep(CHORE_GAP)  # notifications that come together count as one
                    await self._store.wait_aside(self._next_in)
                    self._outages.recovered(_kind("wait aside"))
                    continue
            except StoreError as error:
                logger.debug("cannot wait for notifications about held jobs: %s", error)
            except Exception as error:  # noqa: BLE001 - as above
                self._unexpected("wait aside", error)
            await asyncio.sleep(self._next_in)

    async def _promote(self) -> None:
        promoted = await duties.promote(self._store)
        if promoted.next_in is not None:
            self._next_in = min(self._next_in, max(promoted.next_in, CHORE_GAP))

    async def _fire_for_ever(self) -> None:
        """Fire each schedule when it is due [K4], and look now and then for those that were made, changed or
        resumed meanwhile."""
        while True:
            self._fires_in = FIRE_EVERY * random.uniform(0.9, 1.1)
            term = self.term
            if term is None:
                self._failing.discard("fire")
            else:
                await self._do("fire", functools.partial(self._fire, term))
            await asyncio.sleep(self._fires_in)

    async def _fire(self, term: int) -> None:
        fires = await schedules.fire_due(self._store, term, self._record)
        if fires.next_in is not None:
            self._fires_in = min(self._fires_in, max(fires.next_in, CHORE_GAP))

    async def _observe(self, _: int) -> None:
        """Tell the store how long it takes to answer, where a queue is to shed load by that [F5]; and look at
        how breakers stand [F7]."""
        asked = time.monotonic()
        queues = await self._store.queues()
        latency = time.monotonic() - asked
        if any(queue.shed_latency is not None for queue in queues):
            await self._store.observe(latency)
        self._notices.breakers(await self._store.budgets())

    async def _look(self, _: int) -> None:
        """Count how deep queues are, for charts [M3]."""
        self._record.standing(await self._store.depth())

    async def _assign(self, term: int) -> None:
        before = self._assigned[1] if self._assigned is not None and self._assigned[0] == term else None
        self._assigned = (term, await duties.assign_slots(self._store, term, before))

    async def _rotate(self, _: int) -> None:
        self._notices.rotated(await self._store.rotate())

    async def _warn(self, _: int) -> None:
        """Warn once of each queue that no worker serves, and of jobs that none is able to run, and again when
        that was mended and came back. One look is not enough: a worker that starts may register a moment
        after it."""
        unserved, no_ability = await duties.unserved(self._store)
        seen: set[str | tuple[str, str]] = {*unserved, *no_ability}
        new = seen & self._unserved - self._warned_of
        for queue, depth in unserved.items():
            if queue in new:
                logger.warning(
                    "%s in queue %s, which no worker serves; start one with -q %s",
                    plural(depth.ready, "job waits", "jobs wait"),
                    queue,
                    queue,
                )
        for (queue, needs), n in no_ability.items():
            if (queue, needs) in new:
                names = needs.split(",")
                logger.warning(
                    "%s in queue %s, and no live worker has %s; start one with -q %s --ability %s",
                    plural(n, "job waits", "jobs wait"),
                    queue,
                    in_words(names),
                    queue,
                    " --ability ".join(names),
                )
        self._unserved = seen
        self._warned_of = (self._warned_of | new) & seen


def _kind(name: str) -> str:
    """Return the kind of a duty that fails, for the log."""
    return f"the chore {name}"
