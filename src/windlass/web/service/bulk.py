"""Bulk operations: retry, cancel or delete every job that a filter finds, in the background [O6].

`windlass.handles.bulk` does the work: it walks from the newest job to the oldest in atomic batches. The state
of an operation is kept in memory only. Start one again that a restart has stopped, and it does what is left.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Literal, TypeAlias

import msgspec

from windlass.core.states import State
from windlass.handles import bulk as walks
from windlass.handles.bulk import CAP, Count, Progress, Verb
from windlass.operations.principal import Principal, Role
from windlass.presentation import audit
from windlass.presentation.text import iso
from windlass.store.protocol import Store
from windlass.store.records import JobFilter
from windlass.web.http.problems import Invalid, NotFound, Problem, problem_of
from windlass.web.service.audit import Actions, Audit
from windlass.web.service.shapes import BulkShape
from windlass.web.service.store_access import StoreAccess

MAX_RUNNING: Final = 4
MAX_KEPT: Final = 50
STOP_TIME: Final = 1.0
"""Seconds that a stopped operation has to end between two batches, before its task is cancelled."""
SETTLE_TIME: Final = 0.5
"""Seconds that a page waits for an operation that it has started: most have ended by then."""
PREVIEW_TIME: Final = 1.0
"""Seconds after which a preview stops counting."""
_COUNTED: Final = frozenset({State.READY, State.RUNNING, State.SCHEDULED, State.RETRYING, State.DEAD})
"""States that the store counts."""

Outcome: TypeAlias = Literal["running", "done", "stopped", "failed"]
Work: TypeAlias = Callable[["Counter[str]", Progress], Awaitable[object]]
"""Does the work. Adds each answer to the counter, and reports progress after each batch."""
Ended: TypeAlias = Callable[[Outcome], Awaitable[None]]
"""Called when the operation ends."""


class Stopped(Exception):
    """An operator stopped the operation."""


class BulkOperation:
    """One operation and its progress."""

    def __init__(self, verb: Verb, where: JobFilter, by: str, expected: int | None) -> None:
        self.id: Final = secrets.token_hex(6)
        self.verb: Final = verb
        self.where: Final = where
        self.by: Final = by
        self.expected: Final = expected
        self.answers: Final[Counter[str]] = Counter()
        self.done: int = 0
        self.state: Outcome = "running"
        self.error: str | None = None
        self.started_at: Final = time.time()
        self.ended_at: float | None = None
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Work, ended: Ended) -> None:
        """Start it."""
        self._task = asyncio.create_task(self._run(work, ended))

    def stop(self) -> None:
        """End it after the current batch."""
        if self.state == "running" and not self._stopping:
            self._stopping = True
            if self._task is not None:
                self._task.get_loop().call_later(STOP_TIME, self._task.cancel)

    async def wait(self, at_most: float | None = None) -> None:
        """Wait until it has ended, at most for so many seconds."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=at_most)

    async def _run(self, work: Work, ended: Ended) -> None:
        state: Outcome
        try:
            await work(self.answers, self._progress)
            state = "done"
        except (Stopped, asyncio.CancelledError):
            state = "stopped"
        except Exception as error:  # noqa: BLE001 - nobody awaits this task; pages show the error
            state, self.error = "failed", problem_of(error).message
        self.ended_at = time.time()
        try:
            await ended(state)
        finally:
            self.state = state  # last: once it reads as ended, its event is in the timeline

    def _progress(self, done: int) -> None:
        self.done = done
        if self._stopping:
            raise Stopped

    def shape(self) -> BulkShape:
        """The operation as JSON has it."""
        kept = {name: getattr(self, name) for name in BulkShape.__struct_fields__}
        where = msgspec.structs.asdict(self.where)
        kept["where"] = {name: str(value) for name, value in where.items() if value is not None}
        kept["answers"] = dict(self.answers)
        kept["started_at"], kept["ended_at"] = iso(self.started_at), iso(self.ended_at)
        return BulkShape(**kept)


class BulkOperations(Actions):
    """The operations of this process: a few that run, and the last that have ended."""

    def __init__(self, store: StoreAccess, audit: Audit) -> None:
        super().__init__(store, audit)
        self._kept: OrderedDict[str, BulkOperation] = OrderedDict()

    async def preview(self, principal: Principal, where: JobFilter) -> Count:
        """How many jobs a filter finds, as far as can be counted within PREVIEW_TIME."""
        principal.require(Role.READ)
        return await self._store.ask(lambda store: _count(store, where))

    async def start(
        self, principal: Principal, verb: Verb, where: JobFilter, *, everything: bool = False
    ) -> BulkShape:
        """Retry, cancel or delete every job that a filter finds. An empty filter needs `everything`."""
        principal.require(Role.OPERATE)
        if where == JobFilter() and not everything:
            raise Invalid('this would act on every job; set a filter, or "everything": true', "everything")
        found = await self.preview(principal, where)
        bulk = BulkOperation(verb, where, principal.name, None if found.more else found.jobs)
        self._keep(bulk)

        def work(answers: Counter[str], progress: Progress) -> Awaitable[object]:
            apply = partial(walks.apply, progress=progress, requested=self._store.stop_local, answers=answers)
            return self._store.ask(lambda store: apply(store, where, verb))

        def ended(state: Outcome) -> Awaitable[None]:
            return self._audit.done(principal, audit.steered_many(verb, state, bulk.answers, where))

        bulk.start(work, ended)
        return bulk.shape()

    async def get(self, principal: Principal, id: str) -> BulkShape:
        """One operation. Raises NotFound."""
        principal.require(Role.READ)
        return self._find(id).shape()

    async def settled(self, principal: Principal, id: str) -> BulkShape:
        """One operation, once it has ended, or a moment later. Raises NotFound."""
        principal.require(Role.READ)
        await self._find(id).wait(SETTLE_TIME)
        return self._find(id).shape()

    async def all(self, principal: Principal) -> list[BulkShape]:
        """The operations of this process, the latest first."""
        principal.require(Role.READ)
        return [bulk.shape() for bulk in reversed(self._kept.values())]

    async def stop(self, principal: Principal, id: str) -> BulkShape:
        """End an operation after its current batch. Raises NotFound."""
        principal.require(Role.OPERATE)
        bulk = self._find(id)
        bulk.stop()
        return bulk.shape()

    async def close(self) -> None:
        """Stop all that run, and wait until they have ended."""
        running = [each for each in self._kept.values() if each.state == "running"]
        for each in running:
            each.stop()
        for each in running:
            await each.wait()

    def _keep(self, bulk: BulkOperation) -> None:
        if sum(each.state == "running" for each in self._kept.values()) >= MAX_RUNNING:
            raise Problem(
                429,
                "busy",
                f"{MAX_RUNNING} operations are running already; wait for one, or stop it",
                retry_after=5.0,
            )
        self._kept[bulk.id] = bulk
        for id in [id for id, each in self._kept.items() if each.state != "running"]:
            if len(self._kept) <= MAX_KEPT:
                break
            del self._kept[id]

    def _find(self, id: str) -> BulkOperation:
        found = self._kept.get(id)
        if found is None:
            raise NotFound("there is no such operation: it ended long ago, or the server was restarted")
        return found


async def _count(store: Store, where: JobFilter) -> Count:
    """By the store's own counts where it has them, else by walking for a moment."""
    if where.state in _COUNTED and where == JobFilter(queue=where.queue, state=where.state):
        depths = await store.depth(None if where.queue is None else [where.queue])
        if not any(depth.estimate for depth in depths.values()):
            counted = sum(getattr(depth, str(where.state)) for depth in depths.values())
            return Count(min(counted, CAP), more=counted > CAP)
    return await walks.count(store, where, within=PREVIEW_TIME)
