"""Operations on many jobs, in the background of this process: begun, watched, stopped through the desk [O6].

What one does is in `windlass.bulk`: it walks from the newest job to the oldest, in batches of which each is
atomic. Nothing of it is kept but in memory: one that a restart has stopped is begun again, and goes on with
what is left.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias

import msgspec

from windlass.bulk import Progress, Verb
from windlass.store.records import JobFilter
from windlass.web.problems import NotFound, Problem, problem_of
from windlass.web.shapes import BulkShape
from windlass.words.text import iso

MOST_RUNNING: Final = 4
MOST_KEPT: Final = 50
PATIENCE: Final = 1.0
"""Seconds that one has to heed that it was stopped, between two batches, before it is cut short."""
logger = logging.getLogger("windlass.web")

Work: TypeAlias = Callable[["Counter[str]", Progress], Awaitable[object]]
"""Does it: counts the answers into one, and tells the other after each batch how many jobs that makes."""


State: TypeAlias = Literal["running", "done", "stopped", "failed"]
Ended: TypeAlias = Callable[[State], Awaitable[None]]
"""Told in which state it ends."""


class Stopped(Exception):
    """Somebody has stopped it."""


class Bulk:
    """One operation, and how far it is."""

    def __init__(self, verb: Verb, where: JobFilter, by: str, expected: int | None) -> None:
        self.id: Final = secrets.token_hex(6)
        self.verb: Final = verb
        self.where: Final = where
        self.by: Final = by
        self.expected: Final = expected
        self.answers: Final[Counter[str]] = Counter()
        self.done = 0
        self.state: State = "running"
        self.error: str | None = None
        self.started_at: Final = time.time()
        self.ended_at: float | None = None
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Work, ended: Ended) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(work, ended))

    def stop(self) -> None:
        """End it after the present batch."""
        if self.state == "running" and not self._stopping:
            self._stopping = True
            if self._task is not None:
                self._task.get_loop().call_later(PATIENCE, self._task.cancel)

    async def wait(self) -> None:
        """Until it has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, work: Work, ended: Ended) -> None:
        state: State
        try:
            await work(self.answers, self._progress)
            state = "done"
        except (Stopped, asyncio.CancelledError):
            state = "stopped"
        except Exception as error:  # noqa: BLE001 - nobody awaits this task; it is told where people look
            state, self.error = "failed", problem_of(error).message
        self.ended_at = time.time()
        try:
            await ended(state)
        finally:
            self.state = state  # last, so that whoever sees it ended finds it in the timeline, too

    def _progress(self, done: int) -> None:
        self.done = done
        if self._stopping:
            raise Stopped

    def shape(self) -> BulkShape:
        """It, as JSON has it."""
        given = msgspec.structs.asdict(self.where)
        return BulkShape(
            id=self.id,
            verb=self.verb,
            where={name: str(value) for name, value in given.items() if value is not None},
            by=self.by,
            state=self.state,
            done=self.done,
            expected=self.expected,
            answers=dict(self.answers),
            error=self.error,
            started_at=iso(self.started_at) or "",
            ended_at=iso(self.ended_at),
        )


class Bulks:
    """Those of this process: a few that run, and the last that have ended."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Bulk] = OrderedDict()

    def add(self, bulk: Bulk) -> None:
        """Keep one. Raises a Problem where too many are under way."""
        if sum(each.state == "running" for each in self._kept.values()) >= MOST_RUNNING:
            raise Problem(
                429,
                "busy",
                f"{MOST_RUNNING} operations run already; wait for one, or stop it",
                retry_after=5.0,
            )
        self._kept[bulk.id] = bulk
        for id in [id for id, each in self._kept.items() if each.state != "running"]:
            if len(self._kept) <= MOST_KEPT:
                break
            del self._kept[id]

    def find(self, id: str) -> Bulk:
        """The one of this id. Raises NotFound."""
        found = self._kept.get(id)
        if found is None:
            raise NotFound("there is no such operation here: it ended long ago, or the server was restarted")
        return found

    def all(self) -> list[Bulk]:
        """All of them, the latest first."""
        return list(reversed(self._kept.values()))

    async def stop(self) -> None:
        """Stop all that run, and wait until they have ended."""
        running = [each for each in self._kept.values() if each.state == "running"]
        for each in running:
            each.stop()
        for each in running:
            await each.wait()
