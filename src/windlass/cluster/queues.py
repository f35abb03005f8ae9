"""The sizes of queues when a worker starts: flags seed what is new, what is stored wins [K1]."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from windlass.core.counts import plural
from windlass.store.protocol import Store

logger: Final = logging.getLogger("windlass.cluster")


async def seed(store: Store, queues: Mapping[str, int | None]) -> None:
    """Declare the queues that a worker serves. A number of slots is stored where there is none yet; where
    there is another one, that stays, and the log says how to change it."""
    known = {queue.name: queue for queue in await store.queues()}
    for name, slots in queues.items():
        stored = known[name].max_workers if name in known else None
        if name not in known or (slots is not None and stored is None):
            await store.set_queue(name, {} if slots is None else {"max_workers": slots})
        elif slots is not None and stored != slots:
            logger.warning(
                "queue %s has %s over the whole cluster, as stored, not %d; to change that: "
                "windlass queue set %s --max-workers %d",
                name,
                plural(stored or 0, "slot"),
                slots,
                name,
                slots,
            )
