"""What every part of the desk needs: a way to the store, answers that are shared for a moment, the store's
clock, and the timeline that actions are told to. Nothing is looked at or done here."""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from windlass.errors import WindlassError
from windlass.home import StoreHome
from windlass.store.measures import News
from windlass.store.protocol import Store
from windlass.web.memo import Memo
from windlass.web.noting import Notes
from windlass.web.who import Who
from windlass.words.deeds import Deed, events
from windlass.words.sample import Sample, look_closer

if TYPE_CHECKING:
    from windlass.app import Windlass

T = TypeVar("T")
logger = logging.getLogger("windlass.web")
SHARED: Final = 1.0
"""Seconds for which the look that most pages begin with is shared."""


class Asking:
    """The ground that looking and doing stand on."""

    def __init__(self, app: Windlass) -> None:
        self.app: Final = app
        self.read_only: str | None = None
        """Why nothing can be done here, as far as the last answer of the store has shown: it is a standby."""
        self.memo: Final = Memo()
        self.lasting: Final = Memo()
        """What no action of an operator changes."""
        self._notes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Notes] = weakref.WeakKeyDictionary()
        """A mounted app may serve several loops; each tells its own, as a source of its own."""

    @property
    def home(self) -> StoreHome:
        """Where the store lives."""
        return self.app._home()

    async def ask(self, operation: Callable[[Store], Awaitable[T]]) -> T:
        """Ask the store, from whatever loop this is."""

        async def asked(store: Store) -> T:
            try:
                return await operation(store)
            finally:
                self.read_only = store.read_only

        return await self.home.acall(asked)

    async def shared(self, key: Any, ttl: float, operation: Callable[[Store], Awaitable[T]]) -> T:
        """Ask the store, or take the answer that another got a moment ago."""
        return await self.memo.get(key, ttl, lambda: self.ask(operation))

    async def sample(self) -> Sample:
        """One look at everything, shared."""
        return await self.shared("sample", SHARED, look_closer)

    async def now(self) -> float:
        """The store's clock, by how far ours is from it."""
        return time.time() + await self.lasting.get("clock", 30.0, lambda: self.ask(_ahead))

    async def note(self, who: Who, deeds: Sequence[Deed]) -> None:
        """Tell the timeline what somebody has done. It is done already, so a store that does not take it in
        is logged and nothing else."""
        try:
            at = await self.now()
        except WindlassError:
            at = time.time()
        loop = asyncio.get_running_loop()
        notes = self._notes.get(loop)
        if notes is None:
            notes = self._notes[loop] = Notes(self._tell)
        await notes.add(events(deeds, at, who.name))

    async def _tell(self, source: int, number: int, news: News) -> None:
        await self.ask(lambda store: store.tell(source, number, news))

    async def _noted(self) -> None:
        """Wait for what this loop has not told yet."""
        notes = self._notes.get(asyncio.get_running_loop())
        if notes is not None:
            await notes.close()

    def changed(self) -> None:
        """Something was done: whoever looks next should see it."""
        self.memo.clear()


async def _ahead(store: Store) -> float:
    before = time.time()
    there = await store.now()
    return there - (before + time.time()) / 2
