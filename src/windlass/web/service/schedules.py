"""Schedules: when each fires, and running, pausing and removing them [K4]."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.errors import EnqueueError
from windlass.presentation import audit
from windlass.presentation.text import one_line
from windlass.store.protocol import Store
from windlass.tasks import schedules as clock
from windlass.web.http.principal import Principal, Role
from windlass.web.http.problems import Conflict, NotFound
from windlass.web.service import views
from windlass.web.service.audit import Actions
from windlass.web.service.shapes import ScheduleView

T = TypeVar("T")


class Schedules(Actions):
    """What can be seen of schedules and done to them."""

    async def all(self, principal: Principal) -> list[ScheduleView]:
        """Every schedule, by name."""
        principal.require(Role.READ)
        found = await self._store.shared("schedules", 1.0, lambda store: store.schedules())
        now = await self._store.now()
        return [views.schedule_view(schedule, now) for schedule in found]

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
        return views.schedule_view(record, await self._store.now())

    async def resume(self, principal: Principal, name: str) -> ScheduleView:
        """Let a schedule fire again, from its next time on."""
        principal.require(Role.OPERATE)
        record = await self._ask(name, lambda store: clock.resume(store, name))
        await self._audit.done(principal, audit.schedule(name, "resumed"))
        return views.schedule_view(record, await self._store.now())

    async def remove(self, principal: Principal, name: str) -> None:
        """Remove a schedule. While the code declares it, the next worker to start adds it again."""
        principal.require(Role.OPERATE)
        await self._ask(name, lambda store: store.drop_schedule(name))
        await self._audit.done(principal, audit.schedule(name, "removed"))

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
