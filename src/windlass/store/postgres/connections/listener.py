"""Wake-ups: one connection per host listens; a self-test says whether NOTIFY arrives at all [rule 10].

The supervisor of a host listens for its children, and an embedded worker's member for the worker: each
forwards wake-ups to the others. Any other process listens for itself, while a call waits there.

Through a transaction pooler nothing arrives. A lost listener is noticed at once and replaced by the next
wait; one that is lost again and again, or cannot connect, is tried less and less often. Waiting is always
bounded, so a wake-up that never comes delays a job by at most the poll interval."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import asyncpg

from windlass.core.abilities import NONE, can_run
from windlass.errors import StoreUnavailable, WindlassError
from windlass.store.postgres.connections.database import Database
from windlass.store.records import FOR_HOSTS, WakeUp

POLL_LISTENING: Final = 5.0
RESTART_BASE: Final = 0.5
RESTART_CAP: Final = 30.0
SETTLED: Final = 30.0
"""Seconds after which a listener counts as stable: its loss is then the first of a new series."""

PROBE_EVERY: Final = 15.0
"""Seconds of silence after which the connection of a listener is probed."""

UNHEEDED: Final = 60.0
"""Seconds after which a listener that nobody waits for is closed."""

EARLY: Final = (0.7, 0.95)
"""Which part of `idle_poll` a pause lasts: it is a bound, and many processes should not ask all at once."""

DONE: Final = "!"
STREAM: Final = "~"
"""How the topics of streams begin; the id of the job follows [W3]."""
logger: Final = logging.getLogger("windlass.store")


def jittered(interval: float) -> float:
    """The interval, a fifth more or less, so that many processes do not ask all at once."""
    return interval * random.uniform(0.8, 1.2)


class Listener:
    """Hears that a queue has work, or that a job somebody waits for may have ended."""

    def __init__(self, database: Database, idle_poll: float) -> None:
        """`idle_poll`: seconds between two looks, at most, while no wake-up can arrive [K12]."""
        self._db = database
        self.idle_poll: Final = idle_poll
        self._connection: Any = None
        self._beginning: asyncio.Task[bool] | None = None
        self._waiting: dict[asyncio.Event, frozenset[str]] = {}
        self._asked: set[object] = set()
        self._subscribers: list[Callable[[object], None]] = []
        self._wakeups: Counter[object] = Counter()
        self._begun = 0
        self._begun_at = 0.0
        self._losses = 0
        self._not_before = 0.0
        self._probing: asyncio.Task[None] | None = None
        self._proved_at = 0.0
        self.receives: bool = False
        self.abilities: frozenset[str] = NONE
        """Abilities of the workers of this process: a wake-up for jobs that need others is none here
        [K14]."""
        self._outside = False
        """True if another store of this host listens for this one."""
        self._forwards: dict[Callable[[WakeUp], None], frozenset[str]] = {}
        self._heeded_at = 0.0
        self._closing: asyncio.TimerHandle | None = None

    @property
    def mean_pause(self) -> float:
        """Seconds between two polls, on average."""
        return POLL_LISTENING if self.receives else self.idle_poll * sum(EARLY) / 2

    def wakeups_of(self, topic: str) -> int:
        """How many wake-ups there may have been for a topic: a mark to hand to `wait` later. A listener that
        starts may have missed one, so its start counts, too."""
        self._asked.add(topic)
        return self._wakeups[topic] + self._begun

    def subscribe(self, subscriber: Callable[[object], None]) -> None:
        """Call this with the topic of every wake-up; with None where there may have been one for any."""
        self._subscribers.append(subscriber)

    async def wait(
        self,
        topics: Collection[str],
        timeout: float,
        since: Sequence[int] = (),
        woken: Callable[[], bool] | None = None,
    ) -> bool:
        """Wait for a wake-up for one of the topics, at most `timeout` seconds or one poll interval.

        `since` is what `wakeups_of` said of each before the caller looked and found nothing, and `woken` says
        whether the caller received one itself: a wake-up between the look and the wait counts. So does the
        loss of the listener, after which none is received."""
        began = time.monotonic()
        if await self._start(min(timeout, self.idle_poll)):
            return True
        if any(self.wakeups_of(topic) > mark for topic, mark in zip(topics, since, strict=False)):
            return True
        if woken is not None and woken():
            return True
        event = asyncio.Event()
        self._waiting[event] = frozenset(topics)
        try:
            # Before the setting and not around it, so that it is a bound; the start of a listener that does
            # not come counts, too.
            poll = jittered(POLL_LISTENING) if self.receives else self.idle_poll * random.uniform(*EARLY)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(began + min(timeout, poll) - time.monotonic()):
                    await event.wait()
            self._probe_if_silent()
            return event.is_set()
        finally:
            del self._waiting[event]
            self._close_unheeded()

    @contextlib.contextmanager
    def heeding(self, topic: str) -> Iterator[asyncio.Event]:
        """An event that is set by every wake-up for a topic from now on. Waiting itself is for `wait`."""
        event = asyncio.Event()
        self._waiting[event] = frozenset({topic})
        try:
            yield event
        finally:
            del self._waiting[event]

    async def forward_wakeups(self, queues: Sequence[str], forward: Callable[[WakeUp], None]) -> None:
        """See Store.forward_wakeups. Waiting keeps the listener alive, and finds out whether it is."""
        self._db.share()
        self._forwards[forward] = frozenset((*queues, DONE))
        forward(WakeUp(receives=self.receives, missed=True))
        try:
            while True:
                await self.wait((), PROBE_EVERY)
        finally:
            del self._forwards[forward]

    def on_wakeup(self, wake_up: WakeUp | None) -> None:
        """See Store.on_wakeup."""
        self._db.share(wake_up is not None)
        if wake_up is None:
            self._outside, self.receives = False, False
            self._wake_all()
            return
        self._outside = True
        if (own := self._connection) is not None:
            self._connection = None
            own.terminate()
        lost, self.receives = self.receives and not wake_up.receives, wake_up.receives
        if wake_up.missed:
            self._begun += 1
            self._call_subscribers(None)
        if wake_up.missed or lost:
            self._wake_all()
        for topic in wake_up.topics:
            self.notify(topic)

    def notify(self, topic: object) -> None:
        """Wake who waits for a topic, as the server or this process itself asks. The abilities that a queue's
        jobs need come after its name, see windlass.place_of."""
        if isinstance(topic, str) and " " in topic:
            topic, _, needs = topic.partition(" ")
            if not can_run(needs, self.abilities):
                return
        if topic in self._asked:
            self._wakeups[topic] += 1
        self._call_subscribers(topic)
        for event, topics in self._waiting.items():
            if topic in topics:
                event.set()

    async def check(self, timeout: float) -> bool:
        """Listen, if it does not yet, and say whether wake-ups arrive."""
        await self._start(timeout)
        if self._outside and not self.receives:
            await self.wait((), timeout)
        return self.receives

    async def close(self) -> None:
        """Stop listening."""
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        under_way = [task for task in (self._beginning, self._probing) if task is not None]
        self._beginning = self._probing = None
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        connection, self._connection = self._connection, None
        self.receives = False
        if connection is not None:
            connection.terminate()

    async def _start(self, timeout: float) -> bool:
        """Start listening, unless it does already or was tried too often. True: it has started only now.

        Starting is a task of its own: a waiter that is cancelled must not leave half a connection behind, and
        one whose time is up goes on polling while the server does not answer. Behind a transaction pooler
        nobody listens: the session is shared, and would go on listening for others. Nor on a standby, which
        allows no LISTEN."""
        if self._outside or self._db.pooled or self._db.read_only:
            return False
        if self._connection is not None and not self._connection.is_closed():
            return False
        if self._beginning is None or self._beginning.done():
            if self._connection is not None:
                self._lost(self._connection)
            if time.monotonic() < self._not_before:
                return False
            self._beginning = asyncio.create_task(self._begin(), name="windlass listener")
        done, _ = await asyncio.wait({self._beginning}, timeout=timeout)
        return any(not task.cancelled() and task.result() for task in done)

    async def _begin(self) -> bool:
        try:
            connection = await self._db.connect()
            try:
                async with asyncio.timeout(self._db.deadline):
                    await connection.add_listener(self._db.schema, self._on_notify)
                connection.add_termination_listener(self._lost)
                receives = await self._self_test()
                if connection.is_closed():
                    raise StoreUnavailable("the connection was lost at once")
            except BaseException:
                connection.terminate()
                raise
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, WindlassError) as error:
            # No wake-ups for now: polling carries on, and a later wait tries again.
            self._put_off()
            logger.warning(
                "cannot listen for wake-ups, so workers poll every %g s until it works: %s",
                self.idle_poll, error,
            )  # fmt: skip
            return False
        if self._outside:  # by now
            connection.terminate()
            return False
        self._connection, self.receives = connection, receives
        self._begun += 1
        self._call_subscribers(None)
        self._begun_at = self._proved_at = time.monotonic()
        self._forward(WakeUp(receives=receives, missed=True))
        self._close_unheeded()  # whoever wanted it may have left
        return True

    def _lost(self, connection: object) -> None:
        """The listener's connection is gone: whoever waits for a wake-up would wait in vain."""
        if connection is not self._connection:
            return
        self._connection, self.receives = None, False
        if time.monotonic() - self._begun_at >= SETTLED:
            self._losses = 0
        self._put_off()
        self._forward(WakeUp(receives=False))
        self._wake_all()

    def _call_subscribers(self, topic: object) -> None:
        for subscriber in self._subscribers:
            subscriber(topic)

    def _wake_all(self) -> None:
        for event in self._waiting:
            event.set()

    def _forward(self, wake_up: WakeUp) -> None:
        for forward in list(self._forwards):
            forward(wake_up)

    def _close_unheeded(self) -> None:
        """A program that waited for a result once need not keep a connection for that."""
        self._heeded_at = time.monotonic()
        if self._closing is None and self._connection is not None:
            self._closing = asyncio.get_running_loop().call_later(UNHEEDED, self._close_if_unheeded)

    def _close_if_unheeded(self) -> None:
        self._closing = None
        if self._waiting or time.monotonic() - self._heeded_at < UNHEEDED / 2:
            self._close_unheeded()
        elif (connection := self._connection) is not None:
            self._connection, self.receives = None, False
            connection.terminate()

    def _probe_if_silent(self) -> None:
        """A connection that only listens never notices that it is half open [fault 9]: nothing is sent, so
        nothing fails. So probe it now and then."""
        silent = time.monotonic() - self._proved_at >= PROBE_EVERY
        idle = self._probing is None or self._probing.done()
        if self._connection is not None and silent and idle:
            self._probing = asyncio.create_task(self._probe(self._connection), name="windlass probe")

    async def _probe(self, connection: Any) -> None:
        try:
            await connection.fetchval("SELECT 1", timeout=self._db.deadline)
            self._proved_at = time.monotonic()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            message = str(error) or "no answer"
            logger.warning("the listener's connection is dead and will be replaced: %s", message)
            connection.terminate()
            self._lost(connection)

    def _put_off(self) -> None:
        """Say when to try again: at once after the first loss, then later each time, up to a bound."""
        pause = min(RESTART_BASE * 2.0 ** min(self._losses - 1, 10), RESTART_CAP) if self._losses else 0.0
        self._losses += 1
        self._not_before = time.monotonic() + jittered(pause)

    async def _self_test(self) -> bool:
        word = f"?{uuid.uuid4().hex}"
        event = asyncio.Event()
        self._waiting[event] = frozenset({word})
        try:
            # From another connection: a session receives its own NOTIFY even where no other arrives.
            async with self._db.connection(self._db.deadline) as other:
                await other.execute("SELECT pg_notify($1, $2)", self._db.schema, word)
            async with asyncio.timeout(1):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            del self._waiting[event]
        return True

    def _on_notify(self, connection: object, pid: int, channel: str, payload: object) -> None:
        self._proved_at = time.monotonic()
        self.notify(payload)
        for forward, topics in list(self._forwards.items()):
            if str(payload).partition(" ")[0] in topics or str(payload).startswith((STREAM, FOR_HOSTS)):
                forward(WakeUp((str(payload),)))
