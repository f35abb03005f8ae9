"""The audit trail: what operators did, written to the timeline as events of kind `operator` [M2].

The store drops a report whose number is not higher than the last one from the same source, and concurrent
calls may overtake each other. So each loop has one writer, which has one call under way at a time. What is
done meanwhile goes with the next call.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from windlass.errors import WindlassError
from windlass.operations.principal import Principal
from windlass.presentation.audit import AuditEntry, events
from windlass.store.records import Event, Report

if TYPE_CHECKING:
    from windlass.web.service.store_access import StoreAccess

T = TypeVar("T")
Send: TypeAlias = Callable[[int, int, Report], Awaitable[object]]
logger: Final = logging.getLogger("windlass.web")
WAIT: Final = 1.0
"""Seconds that an action waits for its events to be written. They are written in any case."""
MAX_ACTIONS: Final = 100
"""Actions written in one call."""
MAX_WAITING: Final = 10_000


class Audit:
    """Writes what operators did."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store
        self._writers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Writer] = (
            weakref.WeakKeyDictionary()
        )
        """A mounted app may serve several loops. Each has its own writer, with a source of its own."""

    async def done(self, principal: Principal, *deeds: AuditEntry) -> None:
        """An action has succeeded: drop shared answers, and add it to the timeline. A store that does not
        take the events is logged and nothing else, since the action is done."""
        self._store.changed()
        try:
            at = await self._store.now()
        except WindlassError:
            at = time.time()
        loop = asyncio.get_running_loop()
        writer = self._writers.get(loop)
        if writer is None:
            writer = self._writers[loop] = Writer(self._report)
        await writer.add(events(deeds, at, principal.name))

    async def close(self) -> None:
        """Wait for what this loop has not written yet."""
        writer = self._writers.get(asyncio.get_running_loop())
        if writer is not None:
            await writer.close()

    async def _report(self, source: int, number: int, report: Report) -> None:
        await self._store.ask(lambda store: store.report(source, number, report))


class Writer:
    """Writes the events of one loop, one call at a time."""

    def __init__(self, report: Send) -> None:
        self._report = report
        self._source = secrets.randbits(62) | 1
        self._numbers = count(1)
        self._waiting: list[tuple[Sequence[Event], asyncio.Event]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, events: Sequence[Event]) -> None:
        """Write these. They are written even if the caller leaves before that."""
        if len(self._waiting) >= MAX_WAITING:
            logger.warning(
                "an operator's action is not in the timeline: %s others wait to be written", MAX_WAITING
            )
            return
        written = asyncio.Event()
        self._waiting.append((events, written))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())
        try:
            async with asyncio.timeout(WAIT):
                await written.wait()
        except TimeoutError:
            logger.info("the timeline is slow; an operator's action is written later")

    async def close(self) -> None:
        """Wait for what is not written yet, but not for long."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=WAIT)

    async def _drain(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_ACTIONS], self._waiting[MAX_ACTIONS:]
            try:
                report = Report(events=[event for events, _ in batch for event in events])
                await self._report(self._source, next(self._numbers), report)
            except WindlassError as error:
                logger.warning("an operator's action is not in the timeline: %s", type(error).__name__)
            except Exception:
                # Nobody awaits this task, and later actions must still be written.
                logger.exception("an operator's action is not in the timeline")
            finally:
                for _, written in batch:
                    written.set()
