"""The handles of a queue and of a task's stored settings: managed from code as from the command line, the API
and the pages [K11].

    mail = app.queue("mail")
    mail.ensure(concurrency=4, cool_base="30s")     # at start; what operators have stored wins
    mail.set(max_depth=10_000)
    mail.pause()
    app.task_settings("shop.load").set(batch=500)

They hold a name and ask the store each time. A setting is written as on the command line: a time as "30s", a
rate as "10/s", or as a number; None brings its default back. What the settings are stands in
`windlass.store.fields`. No event of an operator is recorded for what code does."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from windlass.core.durations import Duration, seconds
from windlass.core.names import check_name
from windlass.errors import QueueNotEmpty
from windlass.handles.handle import _Handle
from windlass.operations import queues, tasks
from windlass.operations.operation import Ops
from windlass.operations.refusals import check_bounds
from windlass.running.stopped_clock import UNTIL_RUN, StoppedClock
from windlass.store.changes import read_settings
from windlass.store.fields import QueueSettings, TaskRecord, fields_of
from windlass.store.protocol import Store
from windlass.store.records import Depth, QueueRecord

if TYPE_CHECKING:
    from windlass.app import Windlass

logger: Final = logging.getLogger("windlass.queues")
_FIRST_NAP: Final = 0.02
_LONGEST_NAP: Final = 0.5
"""Seconds between two looks at a queue until it is empty."""


class Queue(_Handle):
    """A queue; `app.queue(name)` gives it."""

    __slots__ = ("name",)

    def __init__(self, app: Windlass, name: str) -> None:
        super().__init__(app)
        self.name: Final = check_name("queue", name)
        """The queue's name."""

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    # -- looking ----------------------------------------------------------------------------------------

    def settings(self) -> QueueRecord:
        """Its settings, and how it stands. Raises QueueNotFound where nobody has declared it."""
        return self._run(self._look)

    async def asettings(self) -> QueueRecord:
        """Its settings, and how it stands; see `settings`."""
        return await self._arun(self._look)

    def depth(self) -> Depth:
        """How many of its jobs stand where."""
        return self._run(self._depth)

    async def adepth(self) -> Depth:
        """How many of its jobs stand where."""
        return await self._arun(self._depth)

    def wait_until_empty(self, timeout: Duration | None = None) -> Depth:
        """Wait until none of its jobs is ready or running, and return what is left: those scheduled, retrying
        and dead. Workers run the jobs. This call only waits: a job that calls it for its own queue waits for
        itself. Raises QueueNotEmpty when it takes longer than `timeout` (None: wait for ever), as it does
        while the queue is paused with jobs ready."""
        return self._run(lambda ops: self._emptied(ops, timeout))

    async def await_until_empty(self, timeout: Duration | None = None) -> Depth:
        """Wait until none of its jobs is ready or running; see `wait_until_empty`."""
        return await self._arun(lambda ops: self._emptied(ops, timeout))

    # -- managing --------------------------------------------------------------------------------------

    def pause(self) -> QueueRecord:
        """Start no more of its jobs; running ones finish [K2]. Raises QueueNotFound where nobody has declared
        it: a mistyped name must not become a queue."""
        return self._run(lambda ops: self._paused(ops, True))

    async def apause(self) -> QueueRecord:
        """Start no more of its jobs; see `pause`."""
        return await self._arun(lambda ops: self._paused(ops, True))

    def resume(self) -> QueueRecord:
        """Start its jobs again [K2]. Raises QueueNotFound where nobody has declared it."""
        return self._run(lambda ops: self._paused(ops, False))

    async def aresume(self) -> QueueRecord:
        """Start its jobs again; see `resume`."""
        return await self._arun(lambda ops: self._paused(ops, False))

    def set(self, **settings: Any) -> QueueRecord:
        """Change settings of the queue, or declare it, for the whole cluster; None brings a default back.
        Raises ValueError, and nothing is changed, where a setting does not exist or makes no sense."""
        changes = self._read(settings)
        return self._run(lambda ops: queues.change(ops, self.name, changes))

    async def aset(self, **settings: Any) -> QueueRecord:
        """Change settings of the queue, or declare it; see `set`."""
        changes = self._read(settings)
        return await self._arun(lambda ops: queues.change(ops, self.name, changes))

    def ensure(self, **settings: Any) -> QueueRecord:
        """Declare the queue with these settings, for the start of a program. Where it exists, only settings
        that still have their default are changed: what was stored wins. Returns the settings in force.
        Raises ValueError as `set` does."""
        wanted = self._read(settings)
        return self._run(lambda ops: self._ensure(ops.store, wanted))

    async def aensure(self, **settings: Any) -> QueueRecord:
        """Declare the queue with these settings; what was stored wins. See `ensure`."""
        wanted = self._read(settings)
        return await self._arun(lambda ops: self._ensure(ops.store, wanted))

    # -- how --------------------------------------------------------------------------------------------

    def _read(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        if "paused" in settings:
            raise ValueError(
                f"queue {self.name!r} is paused by pause() and resumed by resume(), not by paused="
            )
        return read_settings("queue", QueueRecord(name=self.name), settings)

    async def _look(self, ops: Ops) -> QueueRecord:
        return (await queues.find_queues(ops.store, [self.name]))[0]

    async def _depth(self, ops: Ops) -> Depth:
        return (await ops.store.depth([self.name])).get(self.name, Depth())

    async def _paused(self, ops: Ops, paused: bool) -> QueueRecord:
        return (await queues.set_paused(ops, [self.name], paused))[0]

    async def _ensure(self, store: Store, wanted: Mapping[str, Any]) -> QueueRecord:
        check_bounds(wanted)
        known = next((record for record in await store.queues() if record.name == self.name), None)
        record, kept = await ensure(store, self.name, known, wanted)
        fields = fields_of(QueueSettings)
        for setting in kept:
            stored, said = map(fields[setting].text, (getattr(record, setting), wanted[setting]))
            logger.info("queue %s has %s %s, as stored, not %s", self.name, setting, stored, said or "none")
        return record

    async def _emptied(self, ops: Ops, timeout: Duration | None) -> Depth:
        deadline = math.inf if timeout is None else time.monotonic() + seconds(timeout)
        stopped_clock = StoppedClock(self._store_handle().clock)
        nap = _FIRST_NAP
        while True:
            depth = await self._depth(ops)
            if not depth.ready and not depth.running:
                return depth
            left = deadline - time.monotonic()
            if left <= 0:
                raise QueueNotEmpty(
                    f"queue {self.name} still has {depth.ready:,} ready and {depth.running:,} running after "
                    f"{timeout}{await self._why(ops)}"
                )
            if not depth.running:
                stopped_clock.check(f"jobs of queue {self.name} are ready and nobody runs them", UNTIL_RUN)
            await asyncio.sleep(min(nap, left, stopped_clock.look_every))
            nap = min(nap * 1.5, _LONGEST_NAP)

    async def _why(self, ops: Ops) -> str:
        record = await self._look(ops)
        return "; it is paused" if record.paused else "; it is cooling down" if record.cooling else ""


class TaskSettings(_Handle):
    """The settings of a task that are stored, instead of what its code says; `app.task_settings(name)` gives
    them, whether the task's code is here or not [P6]."""

    __slots__ = ("name",)

    def __init__(self, app: Windlass, name: str) -> None:
        super().__init__(app)
        self.name: Final = check_name("task", name)
        """The task's name."""

    def __repr__(self) -> str:
        return f"<TaskSettings {self.name}>"

    def record(self) -> TaskRecord:
        """Return what is stored; None is a setting that is as the code says."""
        return self._run(self._look)

    async def arecord(self) -> TaskRecord:
        """Return what is stored; None is a setting that is as the code says."""
        return await self._arun(self._look)

    def set(self, **settings: Any) -> TaskRecord:
        """Change settings of the task for the whole cluster; None goes back to what its code says. Raises
        ValueError, and nothing is changed, where a setting does not exist or makes no sense."""
        changes = read_settings("task", TaskRecord(name=self.name), settings)
        return self._run(lambda ops: tasks.change(ops, self.name, changes))

    async def aset(self, **settings: Any) -> TaskRecord:
        """Change settings of the task for the whole cluster; see `set`."""
        changes = read_settings("task", TaskRecord(name=self.name), settings)
        return await self._arun(lambda ops: tasks.change(ops, self.name, changes))

    async def _look(self, ops: Ops) -> TaskRecord:
        stored = (record for record in await ops.store.tasks() if record.name == self.name)
        return next(stored, TaskRecord(name=self.name))


async def ensure(
    store: Store, name: str, known: QueueRecord | None, wanted: Mapping[str, Any]
) -> tuple[QueueRecord, list[str]]:
    """Declare a queue with these settings, or give one that is known those that still have their default.
    Returns the queue, and the settings that stay other than wanted."""
    if known is None:
        return await store.set_queue(name, wanted), []
    fields = fields_of(QueueSettings)
    other = [setting for setting, value in wanted.items() if getattr(known, setting) != value]
    unset = {each: wanted[each] for each in other if getattr(known, each) == fields[each].default}
    record = await store.set_queue(name, unset) if unset else known
    return record, [setting for setting in other if setting not in unset]
