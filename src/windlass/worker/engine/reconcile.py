"""Asks, when a worker starts and every while, for the gaps of tasks to be filled [K5].

Every process that runs jobs asks; the store gives the turn to one of them, which enqueues the job that does
the work. See `windlass.tasks.gaps`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from windlass.errors import WindlassError
from windlass.store.protocol import Store
from windlass.tasks.gaps import RECONCILE

if TYPE_CHECKING:
    from windlass.app import Windlass

logger: Final = logging.getLogger("windlass.worker")
AT_START: Final = 30.0
"""Seconds within which workers that start together ask once between them."""

LOOK_EVERY: Final = 30.0


async def reconcile_for_ever(app: Windlass, store: Store, queues: Collection[str]) -> None:
    """Ask for ever, for the tasks of these queues; at once the first time. Ends where no task has gaps."""
    gaps = {
        name: task.gaps for name, task in app.tasks.items() if task.gaps is not None and task.queue in queues
    }
    if not gaps:
        return
    look_every = min(LOOK_EVERY, min(each.every for each in gaps.values()) / 4)
    starting = True
    while True:
        for name, each in gaps.items():
            every = min(each.every, AT_START) if starting else each.every
            try:
                await _ask(app, store, name, every)
            except WindlassError as error:
                logger.warning("cannot look for gaps of %s, next try in %.0f s: %s", name, look_every, error)
        starting = False
        await asyncio.sleep(look_every)


async def _ask(app: Windlass, store: Store, name: str, every: float) -> None:
    if await store.begin_chore(f"reconcile:{name}", every):
        job = app.named(RECONCILE).using(queue=app.tasks[name].queue, unique=f"{RECONCILE}:{name}")
        await job.aenqueue(task=name)
