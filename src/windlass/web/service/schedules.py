"""Schedules: when each fires; running, pausing and removing them; making and changing them at run time
[K4]."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from windlass.errors import ConfigurationError, EnqueueError
from windlass.operations.bodies import Maker
from windlass.operations.principal import Principal, Role
from windlass.presentation import audit
from windlass.presentation.text import one_line
from windlass.store.protocol import Store
from windlass.store.records import ScheduleRecord
from windlass.tasks import schedule_steering as clock
from windlass.tasks.schedule_options import changed, made_of
from windlass.web.http.problems import Conflict, Invalid, NotFound
from windlass.web.service import views
from windlass.web.service.audit import Actions, Audit
from windlass.web.service.bodies import NewScheduleBody, ScheduleChanges
from windlass.web.service.shapes import ScheduleView
from windlass.web.service.store_access import StoreAccess

if TYPE_CHECKING:
    from windlass.app import Windlass

T = TypeVar("T")


class Schedules(Actions):
    """What can be seen of schedules and done to them."""

    def __init__(self, app: Windlass, store: StoreAccess, audit: Audit) -> None:
        super().__init__(store, audit)
        self._maker = Maker(app)

    async def all(self, principal: Principal) -> list[ScheduleView]:
        """Every schedule, by name."""
        principal.require(Role.READ)
        found = await self._store.shared("schedules", 1.0, lambda store: store.schedules())
        workers = await self._store.shared("workers", 1.0, lambda store: store.workers())
        now = await self._store.now()
        return [views.schedule_view(schedule, now, workers) for schedule in found]

    async def add(self, principal: Principal, body: NewScheduleBody) -> ScheduleView:
        """Make a schedule. It stays until it is removed, whatever the code says. Raises Conflict where its
        name is taken."""
        principal.require(Role.OPERATE)
        job = await self._maker.make(body.job)
        with _refusals():
            wanted = made_of(body.name, body.cron, job, body.clock())
        try:
            record = await self._store.ask(lambda store: clock.add(store, wanted))
        except ValueError as error:
            raise Conflict(one_line(str(error))) from error
        await self._audit.done(principal, audit.schedule(wanted.name, f"added: {wanted.cron}"))
        return await self._view(record)

    async def change(self, principal: Principal, name: str, body: ScheduleChanges) -> ScheduleView:
        """Change a schedule; it stays so, whatever the code says, until it is reverted."""
        principal.require(Role.OPERATE)
        job = None if body.job is None else await self._maker.make(body.job)
        with _refusals():
            record = await self._ask(
                name,
                lambda store: clock.change(
                    store, name, lambda known: changed(known, body.cron, job, body.clock())
                ),
            )
        await self._audit.done(principal, audit.schedule(name, f"changed: {record.cron}"))
        return await self._view(record)

    async def revert(self, principal: Principal, name: str) -> ScheduleView:
        """Go back to what the code declares. Raises Conflict where no code declares it."""
        principal.require(Role.OPERATE)
        record = await self._ask(name, lambda store: clock.revert(store, name))
        await self._audit.done(principal, audit.schedule(name, "back to what the code declares"))
        return await self._view(record)

    async def run(self, principal: Principal, name: str) -> int | None:
        """Fire a schedule now. Returns its job's id, or None where its unique key is parked [K4]."""
        principal.require(Role.OPERATE)
        job = await self._ask(name, lambda store: clock.run_now(store, name))
        await self._audit.done(principal, audit.schedule(name, "run now", job))
        return job

    async def pause(self, principal: Principal, name: str) -> ScheduleView:
        """Do not fire a schedule until it is resumed."""
        principal.require(Role.OPERATE)
        record = await self._ask(name, lambda store: clock.pause(store, name))
        await self._audit.done(principal, audit.schedule(name, "paused"))
        return await self._view(record)

    async def resume(self, principal: Principal, name: str) -> ScheduleView:
        """Let a schedule fire again, from its next time on."""
        principal.require(Role.OPERATE)
        record = await self._ask(name, lambda store: clock.resume(store, name))
        await self._audit.done(principal, audit.schedule(name, "resumed"))
        return await self._view(record)

    async def remove(self, principal: Principal, name: str) -> None:
        """Remove a schedule. While the code declares it, the next worker to start adds it again."""
        principal.require(Role.OPERATE)
        await self._ask(name, lambda store: store.drop_schedule(name))
        await self._audit.done(principal, audit.schedule(name, "removed"))

    async def _view(self, record: ScheduleRecord) -> ScheduleView:
        workers = await self._store.ask(lambda store: store.workers())
        return views.schedule_view(record, await self._store.now(), workers)

    async def _ask(self, name: str, operation: Callable[[Store], Awaitable[T]]) -> T:
        """Do something to a schedule. Raises NotFound, or Conflict where its expression is invalid."""
        try:
            await self._store.ask(lambda store: clock.find(store, name))
        except LookupError as error:
            raise NotFound(f"there is no schedule {name[:80]!r}; see the list of schedules") from error
        try:
            return await self._store.ask(operation)
        except EnqueueError:
            raise
        except ValueError as error:
            raise Conflict(one_line(str(error))) from error


@contextmanager
def _refusals() -> Iterator[None]:
    """What a schedule cannot be is the request's fault."""
    try:
        yield
    except ConfigurationError as error:
        raise Invalid(one_line(str(error))) from error
