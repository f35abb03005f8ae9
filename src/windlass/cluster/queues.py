"""The sizes of queues when a worker starts: flags seed what is new, what is stored wins [K1]."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from windlass.core.counts import plural
from windlass.core.names import did_you_mean
from windlass.handles.queue import ensure
from windlass.settings import PerProcess
from windlass.store.protocol import Store

logger: Final = logging.getLogger("windlass.cluster")


_PLACES: Final = {"max_workers": "over the whole cluster", "process_slots": "in each process"}


async def seed(store: Store, queues: Mapping[str, int | None]) -> None:
    """Declare the queues that a worker serves. A number of slots is stored where there is none yet; where
    there is another one, that stays, and the log says how to change it."""
    known = {queue.name: queue for queue in await store.queues()}
    for name, slots in queues.items():
        if name not in known and (hint := did_you_mean(name, known.keys() - queues.keys())):
            logger.warning("queue %s is new%s", name, hint)
        setting = "process_slots" if isinstance(slots, PerProcess) else "max_workers"
        wanted = {} if slots is None else {setting: int(slots)}
        stored, kept = await ensure(store, name, known.get(name), wanted)
        if kept:
            logger.warning(
                "queue %s has %s %s, as stored, not %d; to change that: windlass queue set %s --%s %d",
                name,
                plural(getattr(stored, setting), "slot"),
                _PLACES[setting],
                wanted[setting],
                name,
                setting.replace("_", "-"),
                wanted[setting],
            )
