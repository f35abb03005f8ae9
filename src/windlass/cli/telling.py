"""What is done by the command shows in the timeline, as what is done in the browser does [M2]: who did it,
and telling the store. No verb fails for that: what cannot be told is logged and nothing else."""

from __future__ import annotations

import asyncio
import getpass
import logging
import secrets
from collections.abc import Iterable
from typing import Final

from windlass.store.measures import News
from windlass.store.protocol import Store
from windlass.words.deeds import Deed, events

logger = logging.getLogger("windlass.cli")
PATIENCE: Final = 5.0
"""Seconds that a verb waits for the store to take in what it did."""


def operator() -> str:
    """Who runs the command: the name of the account."""
    try:
        return f"{getpass.getuser()}@cli"
    except (OSError, KeyError, ImportError):  # an account without a name, as in some containers
        return "cli"


async def tell(store: Store, deeds: Iterable[Deed]) -> None:
    """Tell the timeline what was done."""
    if not (done := list(deeds)):
        return
    try:
        async with asyncio.timeout(PATIENCE):
            news = News(events=events(done, await store.now(), operator()))
            await store.tell(secrets.randbits(62) | 1, 1, news)
    except Exception as error:  # noqa: BLE001 - the deed is done, whatever becomes of telling it
        logger.debug("what was done is not in the timeline: %s", type(error).__name__)
