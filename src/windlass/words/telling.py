"""Telling the timeline what operators did [M2], where one call does one thing: a command, a page of Django's
admin. Mission Control, where calls overtake each other, has `windlass.web.noting`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from typing import Final

from windlass.store.measures import News
from windlass.store.protocol import Store
from windlass.words.deeds import Deed, events

PATIENCE: Final = 5.0
"""Seconds that whoever did something waits for the store to take it in."""


async def tell(store: Store, deeds: Iterable[Deed], by: str) -> str | None:
    """Tell what was done, and by whom. Never raises: the deed is done. Answers with the type of the error
    where it is not told, for the caller's log."""
    if not (done := list(deeds)):
        return None
    try:
        async with asyncio.timeout(PATIENCE):
            news = News(events=events(done, await store.now(), by))
            await store.tell(secrets.randbits(62) | 1, 1, news)
    except Exception as error:  # noqa: BLE001 - the deed is done, whatever becomes of telling it
        return type(error).__name__
    return None
