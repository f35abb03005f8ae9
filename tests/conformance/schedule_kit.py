"""Short ways to say what tests of schedules say often [K4]."""

import math
from collections.abc import Sequence
from typing import Any

from tests.conformance.kit import Rig
from windlass.store.records import NewSchedule, Receipt, ScheduleRecord

MINUTE = 60.0


def schedule(name: str = "s", **fields: Any) -> NewSchedule:
    fields = {"cron": "* * * * *", "task": "t", **fields}
    return NewSchedule(name=name, **fields)


async def seed(rig: Rig, name: str = "s", *, due_in: float = 0.0, **fields: Any) -> float:
    """Put a schedule into the store, due in so many seconds, and tell when that is."""
    at = float(math.floor(await rig.store.now() + due_in))
    await rig.store.seed_schedule(schedule(name, **fields), at)
    return at


async def look(rig: Rig, name: str = "s") -> ScheduleRecord:
    return next(found for found in await rig.store.schedules() if found.name == name)


async def fire(
    rig: Rig, at: float, *, times: Sequence[float] | None = None, next_at: float | None = None, **about: Any
) -> list[Receipt] | None:
    """Fire the schedule that is due at a time, for that time, and let it be due a minute later."""
    return await rig.store.fire(
        None,
        "s",
        at,
        [at] if times is None else times,
        next_at=at + MINUTE if next_at is None else next_at,
        **about,
    )


async def ready(rig: Rig) -> int:
    return (await rig.depth()).ready
