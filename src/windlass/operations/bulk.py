"""Bulk operations: retry, cancel or delete every job that a filter finds, in the background [O6].

`windlass.operations.walks` does the work: it walks from the newest job to the oldest in atomic batches. The
state of an operation is kept in memory only. Start one again that a restart has stopped, and it does what is
left.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from windlass.core.states import State
from windlass.operations import walks
from windlass.operations.jobs import Where
from windlass.operations.operation import Ops, Subject
from windlass.operations.principal import Role
from windlass.operations.refusals import Busy, Invalid, NotFound
from windlass.operations.walks import CAP, Count, Progress, Verb
from windlass.presentation.audit import AuditEntry
from windlass.presentation.text import iso
from windlass.store.records import JobFilter

if TYPE_CHECKING:
    from windlass.app import Windlass

bulk: Final = Subject("bulk")
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


class Wanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An act, and the jobs it is for. To choose every job in the store, leave the filter out and set
    `everything`."""

    verb: Verb
    where: Where
    everything: bool = False


class Counted(msgspec.Struct, frozen=True):
    """How many jobs a filter finds. With `more`, there are at least that many."""

    jobs: int
    more: bool


class BulkShape(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk operation that runs in the background of this process [O6]."""

    id: str
    verb: Verb
    where: dict[str, str]
    by: str
    """The principal that started it."""
    state: Outcome
    done: int
    """Jobs handled so far."""
    expected: int | None
    """How many jobs matched when it started; null where they were too many to count."""
    answers: dict[str, int]
    error: str | None
    started_at: str
    ended_at: str | None


class Bulks(msgspec.Struct, frozen=True):
    """The bulk operations of this process, the latest first."""

    operations: list[BulkShape]


@bulk.post("/bulk/preview", role=Role.READ)
async def preview_bulk(ops: Ops, where: Where) -> Counted:
    """Count the jobs that a filter finds, for up to a second"""
    found = await count(ops, where.filter())
    return Counted(found.jobs, found.more)


@bulk.post("/bulk", 202)
async def start_bulk(ops: Ops, wanted: Wanted) -> BulkShape:
    """Retry, cancel or delete every job that a filter finds, in the background"""
    where = wanted.where.filter()
    if where == JobFilter() and not wanted.everything:
        raise Invalid('this would act on every job; set a filter, or "everything": true', "everything")
    found = await count(ops, where)
    made = BulkOperation(ops, wanted.verb, where, None if found.more else found.jobs)
    ops.kept(BulkOperations).add(made)
    return made.view()


@bulk.get("/bulk")
async def list_bulks(ops: Ops) -> Bulks:
    """List the bulk operations of this process, the latest first"""
    return Bulks([each.view() for each in reversed(ops.kept(BulkOperations).kept.values())])


@bulk.get("/bulk/{id}")
async def show_bulk(ops: Ops, id: str) -> BulkShape:
    """Get the progress of a bulk operation"""
    return ops.kept(BulkOperations).find(id).view()


@bulk.post("/bulk/{id}/stop")
async def stop_bulk(ops: Ops, id: str) -> BulkShape:
    """Stop a bulk operation after its current batch"""
    found = ops.kept(BulkOperations).find(id)
    found.stop()
    return found.view()


@bulk.get()
async def settle_bulk(ops: Ops, id: str) -> BulkShape:
    """Wait a moment for a bulk operation to end"""
    found = ops.kept(BulkOperations).find(id)
    await found.wait(SETTLE_TIME)
    return found.view()


class Stopped(Exception):
    """An operator stopped the operation."""


async def apply(
    ops: Ops,
    verb: Verb,
    where: JobFilter,
    answers: Counter[str],
    progress: Progress,
    limit: int | None = None,
) -> None:
    """Act on all that a filter finds. The timeline hears of it also where it stops half-way."""
    state = "failed"
    try:
        await walks.apply(ops, where, verb, limit=limit, progress=progress, answers=answers)
        state = "done"
    except (Stopped, asyncio.CancelledError):
        state = "stopped"
        raise
    finally:
        text = f"bulk {verb} {state}: {in_words(answers) or 'nothing to do'}"
        await ops.tell(AuditEntry(text, queue=where.queue or "", task=where.task or ""))


def in_words(answers: Mapping[str, int]) -> str:
    """Say how many jobs gave which answer."""
    return ", ".join(f"{count:,} {answer.replace('_', ' ')}" for answer, count in answers.items())


class BulkOperation:
    """One operation and its progress."""

    def __init__(self, ops: Ops, verb: Verb, where: JobFilter, expected: int | None) -> None:
        self.id: Final = secrets.token_hex(6)
        self.verb: Final[Verb] = verb
        self.expected: Final = expected
        self.answers: Final[Counter[str]] = Counter()
        self.done: int = 0
        self.state: Outcome = "running"
        self.error: str | None = None
        self.started_at: Final = time.time()
        self.ended_at: float | None = None
        self._where = where
        self._ops = ops
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._ended: Final = concurrent.futures.Future[None]()

    def start(self) -> None:
        """Start it."""
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """End it after the current batch. May be called on any loop."""
        if self.state == "running" and not self._stopping and self._task is not None:
            self._stopping, loop, cancel = True, self._task.get_loop(), self._task.cancel
            loop.call_soon_threadsafe(lambda: loop.call_later(STOP_TIME, cancel))

    async def wait(self, at_most: float | None = None) -> None:
        """Wait until it has ended, at most for so many seconds. May be called on any loop."""
        await asyncio.wait([asyncio.wrap_future(self._ended)], timeout=at_most)

    def view(self) -> BulkShape:
        """Return the operation as it is shown."""
        where = msgspec.structs.asdict(self._where).items()
        return BulkShape(
            id=self.id,
            verb=self.verb,
            where={name: str(value) for name, value in where if value is not None},
            by=self._ops.principal.name,
            state=self.state,
            done=self.done,
            expected=self.expected,
            answers=dict(self.answers),
            error=self.error,
            started_at=iso(self.started_at) or "",
            ended_at=iso(self.ended_at),
        )

    async def _run(self) -> None:
        state: Outcome = "failed"
        try:
            await self._ops.later(
                lambda ops: apply(ops, self.verb, self._where, self.answers, self._progress)
            )
            state = "done"
        except (Stopped, asyncio.CancelledError):
            state = "stopped"
        except Exception as error:  # noqa: BLE001 - nobody awaits this task; pages show the error
            self.error = self._ops.in_words(error)
        self.ended_at = time.time()
        self.state = state  # last: once it reads as ended, its event is in the timeline
        self._ended.set_result(None)

    def _progress(self, done: int) -> None:
        self.done = done
        if self._stopping:
            raise Stopped


class BulkOperations:
    """The operations of this process: a few that run, and the last that have ended."""

    def __init__(self, app: Windlass | None = None) -> None:
        self.kept: Final[OrderedDict[str, BulkOperation]] = OrderedDict()

    def add(self, made: BulkOperation) -> None:
        """Start an operation. Raises Busy where too many run."""
        if sum(each.state == "running" for each in self.kept.values()) >= MAX_RUNNING:
            raise Busy(f"{MAX_RUNNING} operations are running already; wait for one, or stop it", 5.0)
        self.kept[made.id] = made
        made.start()
        for id in [id for id, each in self.kept.items() if each.state != "running"]:
            if len(self.kept) <= MAX_KEPT:
                break
            del self.kept[id]

    def find(self, id: str) -> BulkOperation:
        """Return an operation. Raises NotFound."""
        found = self.kept.get(id)
        if found is None:
            raise NotFound("there is no such operation: it ended long ago, or the server was restarted")
        return found

    async def close(self) -> None:
        """Stop all that run, and wait until they have ended."""
        running = [each for each in self.kept.values() if each.state == "running"]
        for each in running:
            each.stop()
        for each in running:
            await each.wait()


async def count(ops: Ops, where: JobFilter, within: float | None = PREVIEW_TIME) -> Count:
    """Count by the store's own counts where it has them, else by walking for so many seconds."""
    if where.state in _COUNTED and where == JobFilter(queue=where.queue, state=where.state):
        depths = await ops.store.depth(None if where.queue is None else [where.queue])
        if not any(depth.estimate for depth in depths.values()):
            counted = sum(getattr(depth, str(where.state)) for depth in depths.values())
            return Count(min(counted, CAP), more=counted > CAP)
    return await walks.count(ops.store, where, within=within)
