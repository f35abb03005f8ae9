"""The one host that does the cluster's chores, for as long as its term lasts [K3].

Terms are kept in the store, by the store's clock. A coordinator that was paused and comes back finds its term
over: it stops, and the one write that would matter is refused by the term's number. Everybody watches the
beats, so that whoever takes over knows at once which workers are dead.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from windlass.cluster import duties, schedules
from windlass.cluster.notices import Notices
from windlass.cluster.watch import BeatWatch
from windlass.complaints import Complaints
from windlass.core.retry import DeathPolicy
from windlass.errors import SchemaMissing, StoreError, TermLost
from windlass.store.protocol import Store
from windlass.worker.recorder import Recorder

logger = logging.getLogger("windlass.cluster")
PROMOTE_EVERY: Final = 0.5
SOONEST: Final = 0.005
"""Seconds between two promotions at least, however soon the next token comes."""

SOON: Final = 0.05
"""Seconds between two looks at whether this host coordinates by now."""

FIRE_EVERY: Final = 0.5
GOVERN_EVERY: Final = 5.0
OBSERVE_EVERY: Final = 5.0
ROLLUP_EVERY: Final = 5.0
LOOK_EVERY: Final = 10.0
SLOTS_EVERY: Final = 1.0
ROTATE_EVERY: Final = 60.0
EXPIRE_EVERY: Final = 300.0
WARN_EVERY: Final = 60.0
LOOKS: Final = 0.2
"""The part of a term between two looks at the beats."""

TERM: Final = 15.0
RESIGN_TIME: Final = 2.0
CHORES: Final = "chores of the cluster"


class Coordinator:
    """Stands for coordinator, and does its duties while it is."""

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
        self._watch = BeatWatch()
        self._term: int | None = None
        self.heeded_at = float("-inf")
        """When the store last said who leads, which is a write."""
        self._until = 0.0
        self._unserved: set[str] = set()
        self._told: set[str] = set()
        self._failing: set[str] = set()
        self._complaints = Complaints(logger)
        self._assigned: tuple[int, dict[int, dict[str, int]]] | None = None
        self._again = PROMOTE_EVERY

    @property
    def term(self) -> int | None:
        """The number of the present term, if it is ours."""
        return self._term if time.monotonic() < self._until else None

    async def run(self) -> None:
        """Stand for coordinator and do what it must, until cancelled; then resign."""
        chores: list[tuple[float, Callable[[], Awaitable[object]]]] = [
            (FIRE_EVERY, self._fire),
            (GOVERN_EVERY, self._govern),
            (OBSERVE_EVERY, self._observe),
            (ROLLUP_EVERY, self._rollup),
            (LOOK_EVERY, self._look),
            (SLOTS_EVERY, self._assign),
            (ROTATE_EVERY, self._rotate),
            (EXPIRE_EVERY, self._expire),
            (WARN_EVERY, self._warn),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._lead())
                group.create_task(self._sweep_for_ever())
                group.create_task(self._promote_for_ever())
                for every, chore in chores:
                    group.create_task(self._repeat(every, chore))
        finally:
            await self._resign()

    async def _resign(self) -> None:
        """Let another lead at once. Where that cannot be said, for whatever reason, the term runs out by
        itself: an error that left here would cover the cancel, and this would never end [fault 33]."""
        led, self._term = self._term, None
        if led is None:
            return
        try:
            async with asyncio.timeout(RESIGN_TIME):
                await self._store.resign(self._candidate)
        except Exception as error:  # noqa: BLE001 - see above
            told = "could not resign from term %d, which ends by itself within %g s: %s"
            logger.warning(told, led, self._length, str(error) or type(error).__name__)

    async def _lead(self) -> None:
        while True:
            asked = time.monotonic()
            try:
                term = await self._store.lead(self._candidate, self._length)
            except (StoreError, SchemaMissing) as error:
                logger.debug("cannot ask for a term: %s", error)
            except Exception as error:  # noqa: BLE001 - the chores go on while the term lasts
                self._strange(self._lead.__name__, error)
            else:
                self._complaints.over(_kind(self._lead.__name__))
                self.heeded_at = asked
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

    async def _sweep_for_ever(self) -> None:
        """Everybody watches, so that who leads next knows already who is dead. A lease is counted from when
        its last beat was seen, so a look comes more often than a beat."""
        while True:
            await self._do(self._rescue)
            often = min(self._sweep, self._length * LOOKS) * random.uniform(0.9, 1.1)
            await asyncio.sleep(min(often, self._watch.pause()))

    async def _repeat(self, every: float, chore: Callable[[], Awaitable[object]]) -> None:
        """Do a chore every so often, while the term is ours."""
        while True:
            if self.term is None:
                self._failing.discard(chore.__name__)  # it is not ours any more, nor is its failure
            else:
                await self._do(chore)
            await asyncio.sleep(every * random.uniform(0.9, 1.1))

    async def _do(self, chore: Callable[[], Awaitable[object]]) -> None:
        try:
            await chore()
        except TermLost:
            self._step_down()
        except (StoreError, SchemaMissing) as error:
            self._failing.add(chore.__name__)
            self._complaints.told(CHORES, "a chore of the cluster failed and is tried again: %s", error)
        except Exception as error:  # noqa: BLE001 - one that cannot be done must not end the others
            self._failing.add(chore.__name__)
            self._strange(chore.__name__, error)
        else:
            self._failing.discard(chore.__name__)
            self._complaints.over(_kind(chore.__name__))
            if not self._failing:
                self._complaints.over(CHORES)

    def _strange(self, chore: str, error: Exception) -> None:
        told = "a chore of the cluster, %s, failed in a way that nobody foresaw, and is tried again"
        self._complaints.told(_kind(chore), told, chore.strip("_"), error=error)

    async def _rescue(self) -> None:
        asked = time.monotonic()
        try:
            workers = await self._store.workers()
            dead = self._watch.look(workers, time.monotonic() - asked)
        except Exception:
            self._watch.forget()
            raise
        if dead and self.term is not None:
            await duties.bury(self._store, dead, self._policy, self._record)

    async def _promote_for_ever(self) -> None:
        """Promote now and then, when told that jobs wait aside, and when a budget that jobs wait for has its
        next token [F1]."""
        while True:
            self._again = PROMOTE_EVERY * random.uniform(0.9, 1.1)
            if self.term is None:
                await asyncio.sleep(SOON)
                continue
            await self._do(self._promote)
            try:
                if self._promote.__name__ not in self._failing:
                    await asyncio.sleep(SOONEST)  # words that come at once are one
                    await self._store.wait_aside(self._again)
                    self._complaints.over(_kind(self._promote_for_ever.__name__))
                    continue
            except StoreError as error:
                logger.debug("cannot wait for words of jobs aside: %s", error)
            except Exception as error:  # noqa: BLE001 - as above
                self._strange(self._promote_for_ever.__name__, error)
            await asyncio.sleep(self._again)

    async def _promote(self) -> None:
        promoted = await duties.promote(self._store)
        if promoted.again is not None:
            self._again = min(self._again, max(promoted.again, SOONEST))

    async def _fire(self) -> None:
        term = self.term
        if term is not None:
            await schedules.fire_due(self._store, term, self._record)

    async def _govern(self) -> None:
        term = self.term
        if term is not None:
            await duties.govern(self._store, term, self._record)

    async def _observe(self) -> None:
        """Tell the store how long it takes to answer, where a queue is to shed load by that [F5]; and look at
        how breakers stand [F7]."""
        asked = time.monotonic()
        queues = await self._store.queues()
        latency = time.monotonic() - asked
        if any(queue.shed_latency is not None for queue in queues):
            await self._store.observe(latency)
        self._notices.breakers(await self._store.budgets())

    async def _look(self) -> None:
        """Count how deep queues are, for charts [M3]."""
        self._record.standing(await self._store.depth())

    async def _rollup(self) -> None:
        await duties.rollup(self._store)

    async def _assign(self) -> None:
        term = self.term
        if term is None:
            return
        before = self._assigned[1] if self._assigned is not None and self._assigned[0] == term else None
        self._assigned = (term, await duties.assign_slots(self._store, term, before))

    async def _rotate(self) -> None:
        self._notices.rotated(await self._store.rotate())

    async def _expire(self) -> None:
        await duties.expire(self._store)

    async def _warn(self) -> None:
        """Say once for each queue that nobody serves it, and again when that has changed and come back. One
        look is not enough: a worker that starts may have registered a moment after it."""
        unserved = await duties.unserved(self._store)
        for queue, depth in unserved.items():
            if queue in self._unserved and queue not in self._told:
                self._told.add(queue)
                logger.warning(
                    "%d jobs wait in queue %s, which no worker serves; start one with -q %s",
                    depth.ready,
                    queue,
                    queue,
                )
        self._told &= unserved.keys()
        self._unserved = set(unserved)


def _kind(chore: str) -> str:
    """What fails, in words."""
    return f"the chore {chore.strip('_')}"
