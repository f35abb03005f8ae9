"""Streams of jobs on PostgreSQL: one fenced call writes what all runs of a worker emitted since the last one,
and a notification wakes who reads [W3] [C5]."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Final

import asyncpg

from windlass.core.states import FINISHED, State
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.listener import STREAM, Listener
from windlass.store.postgres.rows import record_of
from windlass.store.records import Emits, Emitted, StreamPage

AT_ONCE: Final = 64
"""Batches that one look gives at most."""
WATCH_AGAIN: Final = 20.0
"""Seconds after which a reader notes again that it is there: less than `watch_stream` gives it at least."""
MANY: Final = 1000
LISTENING: Final = 0.05
POLLING: Final = 0.02
LONGEST: Final = 0.5
"""Seconds between two looks while nothing comes: at first, where wake-ups arrive and where not, and at most.
The end of a job wakes nobody here."""


class Streams:
    """Writes and reads streams."""

    def __init__(self, database: Database, listener: Listener, keep: int) -> None:
        self._db = database
        self._listener = listener
        self._keep = keep
        self._watched: dict[int, float] = {}
        """Until when it is noted that somebody here reads the streams of these jobs."""

    async def emit(self, worker: int, emits: Sequence[Emits]) -> list[int | None]:
        """See Store.emit."""
        answer: list[int | None] = await self._db.value(
            "emit",
            worker,
            [each.job.id for each in emits],
            [each.job.lane for each in emits],
            [each.job.claim for each in emits],
            [each.job.seq for each in emits],
            [each.job.attempt for each in emits],
            [each.after for each in emits],
            [each.n for each in emits],
            [self._db.fit(each.events) for each in emits],
            self._keep,
        )
        return answer

    async def wait_stream(self, job: int, after: int, timeout: float) -> StreamPage:
        """See Store.wait_stream."""
        deadline = time.monotonic() + timeout
        pause = 0.0
        topic = f"{STREAM}{job}"
        with self._listener.heeding(topic) as woken:
            while True:
                woken.clear()  # before looking, so that no wake-up is lost
                page = await self._look(job, after, waits=timeout > 0)
                left = deadline - time.monotonic()
                if page.batches or page.state is None or page.state in FINISHED or left <= 0:
                    return page
                pause = min(pause * 2, LONGEST) or (LISTENING if self._listener.receives else POLLING)
                await self._listener.wait([topic], min(left, pause), woken=woken.is_set)

    async def _look(self, job: int, after: int, *, waits: bool) -> StreamPage:
        async with self._db.connection(self._db.deadline) as connection:
            if waits and not self._db.read_only and self._watched.get(job, 0.0) < time.monotonic():
                with contextlib.suppress(asyncpg.InsufficientPrivilegeError):  # a reader's role polls
                    await connection.fetchval(schemas.call("watch_stream", 1, self._db.schema), job)
                self._note_watched(job)
            read = schemas.call("read_stream", 4, self._db.schema)
            rows = await connection.fetch(read, job, after, AT_ONCE, not waits)
        batches = [record_of(Emitted, row) for row in rows if row["position"] is not None]
        state = next((State(row["state"]) for row in rows if row["position"] is None), None)
        return StreamPage(batches if state or waits else [], state, len(batches) == AT_ONCE)

    def _note_watched(self, job: int) -> None:
        now = time.monotonic()
        if len(self._watched) >= MANY:
            self._watched = {each: until for each, until in self._watched.items() if until >= now}
        self._watched[job] = now + WATCH_AGAIN
