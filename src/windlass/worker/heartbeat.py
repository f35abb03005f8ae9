"""Keeps a worker's lease: one beat every so often, for as long as it works."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from windlass.errors import StoreError
from windlass.store.protocol import Store

logger = logging.getLogger("windlass.worker")
EVERY: Final = 10.0


async def heartbeat(
    store: Store,
    worker: int,
    *,
    cancel: Callable[[frozenset[int]], None],
    every: float = EVERY,
) -> None:
    """Beat until cancelled; `cancel` is told which jobs to stop.

    A beat that fails is logged and tried again; only WorkerLost, which it raises, stops the work [C4].
    """
    while True:
        await asyncio.sleep(every)
        try:
            beat = await store.beat(worker)
        except StoreError as error:
            logger.warning("a heartbeat failed, next try in %.0f s: %s", every, error)
            continue
        if beat.cancel:
            cancel(beat.cancel)
