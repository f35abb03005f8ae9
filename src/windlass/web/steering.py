"""What can be changed through the desk besides jobs: queues, tasks, parents, schedules and budgets. Each
action needs the role `operate` and is told to the timeline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from windlass import schedules as clock
from windlass.core.names import check_name
from windlass.errors import EnqueueError
from windlass.web import views
from windlass.web.families import Families
from windlass.web.flowing import Flowing
from windlass.web.looking import Looking
from windlass.web.problems import Conflict, Invalid, NotFound
from windlass.web.shapes import BudgetView, ParentView, QueueView, ScheduleView, TaskView
from windlass.web.who import Role, Who
from windlass.words import deeds
from windlass.words.text import one_line

MOST: Final = 1_000_000_000
"""The largest number that a setting may be; longer than any span of time that makes sense."""


class Steering(Looking, Families, Flowing):
    """What can be done to everything but jobs."""

    # -- queues and tasks -------------------------------------------------------------------------------

    async def pause_queue(self, who: Who, name: str) -> QueueView:
        """Give out no more jobs of a queue; what runs may finish [K2]."""
        return await self._set_paused(who, name, True)

    async def resume_queue(self, who: Who, name: str) -> QueueView:
        """Give out jobs of a queue again [K2]."""
        return await self._set_paused(who, name, False)

    async def _set_paused(self, who: Who, name: str, paused: bool) -> QueueView:
        who.must(Role.OPERATE)
        await self._known_queue(name)
        await self.ask(lambda store: store.set_queue(name, {"paused": paused}))
        await self._done(who, deeds.paused(name, paused))
        return await self.queue(who, name)

    async def warm_queue(self, who: Who, name: str) -> QueueView:
        """End the cool-down of a queue that was throttled, now [O3]."""
        who.must(Role.OPERATE)
        await self._known_queue(name)
        await self.ask(lambda store: store.warm(name, force=True))
        await self._done(who, deeds.warmed(name))
        return await self.queue(who, name)

    async def set_queue(self, who: Who, name: str, changes: Mapping[str, Any]) -> QueueView:
        """Change settings of a queue, or declare it [K1]."""
        who.must(Role.OPERATE)
        check_name("queue", name)
        bounded(changes)
        try:
            await self.ask(lambda store: store.set_queue(name, changes))
        except ValueError as error:
            raise Invalid(one_line(str(error))) from error
        await self._done(who, deeds.set_queue(name, changes))
        return await self.queue(who, name)

    async def _known_queue(self, name: str) -> None:
        """A mistyped name must not become a queue of its own."""
        check_name("queue", name)
        if name not in {queue.name for queue in await self.ask(lambda store: store.queues())}:
            raise NotFound(f"there is no queue {name!r}; the list of queues shows those there are")

    async def set_task(self, who: Who, name: str, changes: Mapping[str, Any]) -> TaskView:
        """Change settings of a task; None goes back to what its code says [P6]."""
        who.must(Role.OPERATE)
        check_name("task", name)
        bounded(changes)
        try:
            record = await self.ask(lambda store: store.set_task(name, changes))
        except ValueError as error:
            raise Invalid(one_line(str(error))) from error
        await self._done(who, deeds.set_task(name, changes))
        return next(task for task in self._tasks({name: record}) if task.name == name)

    # -- parents ----------------------------------------------------------------------------------------

    async def set_parent(self, who: Who, id: int, parallel: int) -> ParentView:
        """Change how many parts of a parent run at a time, also while it runs [P8]."""
        who.must(Role.OPERATE)
        if not 1 <= parallel <= 100_000:
            raise Invalid(f"parallel is a whole number from 1 to 100,000, not {parallel}", "parallel")
        if await self.ask(lambda store: store.set_parent(id, parallel=parallel)) is None:
            raise NotFound(f"there is no parent {id}")
        await self._done(who, deeds.widened(id, parallel))
        return await self.parent(who, id)

    async def redrive(self, who: Who, id: int) -> int:
        """Run again those parts of a parent that are dead or cancelled; the answer is how many [P9]."""
        who.must(Role.OPERATE)
        if await self.ask(lambda store: store.parent(id)) is None:
            raise NotFound(f"there is no parent {id}")
        again = await self.ask(lambda store: store.redrive(id))
        await self._done(who, deeds.redriven(id, again))
        return again

    # -- schedules --------------------------------------------------------------------------------------

    async def run_schedule(self, who: Who, name: str) -> int | None:
        """Fire a schedule now; the answer is its job's id, None where its unique key is parked [K4]."""
        who.must(Role.OPERATE)
        await self._known_schedule(name)
        try:
            job = await self.ask(lambda store: clock.run_now(store, name))
        except EnqueueError:
            raise
        except ValueError as error:
            raise Conflict(one_line(str(error))) from error
        await self._done(who, deeds.schedule(name, "run now", job))
        return job

    async def pause_schedule(self, who: Who, name: str) -> ScheduleView:
        """Fire a schedule no more until it is resumed."""
        who.must(Role.OPERATE)
        await self._known_schedule(name)
        record = await self.ask(lambda store: clock.pause(store, name))
        await self._done(who, deeds.schedule(name, "paused"))
        return views.schedule_view(record, await self.now())

    async def resume_schedule(self, who: Who, name: str) -> ScheduleView:
        """Let a schedule fire again, from its next time on."""
        who.must(Role.OPERATE)
        await self._known_schedule(name)
        try:
            record = await self.ask(lambda store: clock.resume(store, name))
        except ValueError as error:  # its expression is none
            raise Conflict(one_line(str(error))) from error
        await self._done(who, deeds.schedule(name, "resumed"))
        return views.schedule_view(record, await self.now())

    async def remove_schedule(self, who: Who, name: str) -> None:
        """Remove a schedule; while the code declares it, a worker that starts brings it back."""
        who.must(Role.OPERATE)
        await self._known_schedule(name)
        await self.ask(lambda store: store.drop_schedule(name))
        await self._done(who, deeds.schedule(name, "removed"))

    async def _known_schedule(self, name: str) -> None:
        try:
            await self.ask(lambda store: clock.find(store, name))
        except LookupError as error:
            raise NotFound(f"there is no schedule {name[:80]!r}; the list of schedules shows them") from error

    # -- budgets ----------------------------------------------------------------------------------------

    async def set_budget(self, who: Who, name: str, changes: Mapping[str, Any]) -> BudgetView:
        """Change a budget while it is in use, or make it [F1]."""
        who.must(Role.OPERATE)
        check_name("budget", name)
        bounded(changes)
        try:
            record = await self.ask(lambda store: store.set_budget(name, changes))
        except ValueError as error:
            raise Invalid(one_line(str(error))) from error
        await self._done(who, deeds.set_budget(name, changes))
        return views.budget_view(record)

    async def drain_budget(
        self, who: Who, name: str, pause: float = 0.0, key: str | None = None
    ) -> BudgetView:
        """Take all tokens away, as after a 429 of the upstream."""
        who.must(Role.OPERATE)
        await self._budget(name)
        bounded({"pause": pause})
        await self.ask(lambda store: store.drain(name, pause, key))
        await self._done(who, deeds.budget(name, "drained"))
        return await self._budget(name)

    async def remove_budget(self, who: Who, name: str) -> None:
        """Remove a budget. Jobs that need it wait until it is there again."""
        who.must(Role.OPERATE)
        await self._budget(name)
        await self.ask(lambda store: store.drop_budget(name))
        await self._done(who, deeds.budget(name, "removed"))

    async def _budget(self, name: str) -> BudgetView:
        for record in await self.ask(lambda store: store.budgets()):
            if record.name == name:
                return views.budget_view(record)
        raise NotFound(f"there is no budget {name[:80]!r}; the list of budgets shows those there are")

    async def _done(self, who: Who, deed: deeds.Deed) -> None:
        self.changed()
        await self.note(who, [deed])


def bounded(changes: Mapping[str, Any]) -> None:
    """Refuse numbers that no store can keep. What else makes no sense is for the store to say."""
    for name, value in changes.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and not (math.isfinite(value) and abs(value) <= MOST):
            raise Invalid(f"{name}: at most {MOST:,} makes sense", name)
        if isinstance(value, str) and len(value) > 255:
            raise Invalid(f"{name}: a text of at most 255 characters", name)
