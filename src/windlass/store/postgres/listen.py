"""Wake-ups: one connection per process listens; a self-test says whether NOTIFY arrives at all [rule 10].

Through a transaction pooler it does not. A lost listener is made anew by the next wait. In any case
waiting is bounded, so a wake-up that never comes delays a job by at most the poll interval.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from windlass.errors import StoreUnavailable
from windlass.store.postgres.database import Database

POLL_DEAF: Final = 0.5
POLL_LISTENING: Final = 5.0
DONE: Final = "!"


class Listener:
    """Hears that a queue has work, or that a job somebody waits for may have ended."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._connection: Any = None
        self._beginning: asyncio.Task[bool] | None = None
        self._waiting: dict[asyncio.Event, frozenset[str]] = {}
        self._asked: set[object] = set()
        self._heard_of: Counter[object] = Counter()
        self.hears = False

    def heard_of(self, topics: Sequence[str]) -> int:
        """How often these topics have been heard of: a mark to hand to `wait` later."""
        self._asked.update(topics)
        return sum(self._heard_of[topic] for topic in topics)

    async def wait(self, topics: Sequence[str], timeout: float, since: int | None = None) -> bool:
        """Wait until one of the topics is heard of, at most `timeout` seconds or one poll interval.

        `since` is what `heard_of` said before the caller looked and found nothing: a word that came between
        the look and the wait counts. A listener that has only now begun to listen may have missed one, so
        that counts, too."""
        if await self._start() or (since is not None and self.heard_of(topics) > since):
            return True
        event = asyncio.Event()
        self._waiting[event] = frozenset(topics)
        try:
            bound = min(timeout, POLL_LISTENING if self.hears else POLL_DEAF)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(bound):
                    await event.wait()
            return event.is_set()
        finally:
            del self._waiting[event]

    async def close(self) -> None:
        """Stop listening."""
        beginning, self._beginning = self._beginning, None
        if beginning is not None:
            await asyncio.gather(beginning, return_exceptions=True)
        connection, self._connection = self._connection, None
        self.hears = False
        if connection is not None:
            connection.terminate()

    async def _start(self) -> bool:
        """Listen, if not yet so. True: it has begun only now.

        Beginning is a task of its own: a waiter that is cancelled must not leave half a connection behind."""
        if self._connection is not None and not self._connection.is_closed():
            return False
        if self._beginning is None or self._beginning.done():
            self._beginning = asyncio.create_task(self._begin(), name="windlass listener")
        return await asyncio.shield(self._beginning)

    async def _begin(self) -> bool:
        self._connection, self.hears = None, False
        try:
            connection = await self._db.connect()
            try:
                await connection.add_listener(self._db.schema, self._heard)
                self.hears = not self._db.pooled and await self._self_test()
            except BaseException:
                connection.terminate()
                raise
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, StoreUnavailable):
            # Deaf for now: polling carries on, and the next wait tries again.
            return False
        self._connection = connection
        return True

    async def _self_test(self) -> bool:
        word = f"?{uuid.uuid4().hex}"
        event = asyncio.Event()
        self._waiting[event] = frozenset({word})
        try:
            # From another connection, and only to one that has the server to itself: what a session tells
            # itself arrives even where nothing else does.
            async with self._db.connection() as other:
                await other.execute("SELECT pg_notify($1, $2)", self._db.schema, word)
            async with asyncio.timeout(1):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            del self._waiting[event]
        return True

    def _heard(self, connection: object, pid: int, channel: str, payload: object) -> None:
        if payload in self._asked:
            self._heard_of[payload] += 1
        for event, topics in self._waiting.items():
            if payload in topics:
                event.set()
