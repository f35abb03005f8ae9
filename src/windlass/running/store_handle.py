"""Where an app's store lives: opened on first use, remade after a fork, closed at exit.

Stores in memory and on SQLite work on any loop, so there is one for the process. A PostgreSQL store belongs
to the loop that opened it: by default the loop thread, and calls from other loops hop over to it. A loop that
calls often gets a store of its own with `async with app:`; its calls then go straight to the database, and
leaving the block closes it. The hop costs a lone caller most: 0.57 × the rate of direct enqueues with one
caller, 0.88 × with twenty (medians of nine interleaved pairs on two busy cores, single pairs 0.3 to 1.2).
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias, TypeVar

from windlass.errors import StoreReadOnly, StoreUnavailable, WindlassError
from windlass.running import loopthread
from windlass.running.port import finish_here, runs_on
from windlass.running.tokens import ProcessTokens
from windlass.store.protocol import Store
from windlass.store.records import Migration

T = TypeVar("T")
Patience: TypeAlias = Callable[[int, StoreUnavailable], Awaitable[None]]
logger: Final = logging.getLogger("windlass")
CLOSE_TIME: Final = 5.0
"""Seconds that calls under way have to end before their store is closed."""


class StoreHandle:
    """One app's stores in this process.

    `make` builds a store that is not opened yet. `roams` says that its stores work on any loop. `clock` is
    that of a test, which stands still until somebody moves it.
    """

    def __init__(
        self, make: Callable[[], Store], *, roams: bool, clock: Callable[[], float] | None = None
    ) -> None:
        self._make = make
        self._roams = roams
        self.clock = clock
        self._door = threading.Lock()
        self.listeners: set[Callable[[frozenset[int]], None]] = set()
        """Workers of this process: they hear at once of cancels that this process asks for [O5]."""
        self.worker_loops: list[asyncio.AbstractEventLoop] = []
        """The loops that they run on."""
        self.tokens: Final = ProcessTokens(self)
        """The tokens that this process takes of budgets by hand [F1]."""
        self._settle()
        _store_handles.add(self)

    def _settle(self) -> None:
        self._pid = os.getpid()
        self._store: Store | None = None
        self._open = False
        self._calls = 0
        self._holders = 0
        self._opening = asyncio.Lock()  # used on the loop thread alone
        self._own: dict[asyncio.AbstractEventLoop, Store] = {}

    def call(self, operation: Callable[[Store], Awaitable[T]]) -> T:
        """Run an operation from any thread and wait for its answer."""
        return loopthread.current().run(self._with_store(operation))

    def call_here(self, operation: Callable[[Store], Awaitable[T]]) -> T:
        """Run an operation in the caller's thread: one that waits for nothing, on a store in memory."""
        return finish_here(self._with_store(operation))

    async def acall(self, operation: Callable[[Store], Awaitable[T]]) -> T:
        """Run an operation from any loop and await its answer."""
        own = self._own.get(asyncio.get_running_loop())
        if own is not None:
            return await operation(own)
        if self._roams:
            return await self._with_store(operation)
        return await loopthread.current().arun(self._with_store(operation))

    async def migrate(self) -> Migration:
        """Bring the schema up to date, with a store of the moment: the lasting one cannot open before."""
        store = self._make()
        try:
            return await store.migrate()
        finally:
            if store is not self._store:
                await store.close()

    @asynccontextmanager
    async def here(self, patience: Patience | None = None) -> AsyncIterator[Store]:
        """A store to use on the running loop for as long as the block lasts. With `patience`, a database that
        cannot be reached is tried again: it is awaited after each failure, with their number."""
        loop = asyncio.get_running_loop()
        if self._roams or loop in self._own:
            own = self._own.get(loop)
            if own is not None:
                yield own
                return
            async with self._held(patience) as shared:
                yield shared
            return
        store = self._make()
        try:
            await patiently(store.open if patience is None else lambda: _opened_to_write(store), patience)
            self._own[loop] = store
            yield store
        finally:
            self._own.pop(loop, None)
            await store.close()

    def shared(self) -> AbstractAsyncContextManager[Store]:
        """The store that the process shares, for use on the loop thread while the block lasts."""
        return self._held(None)

    @asynccontextmanager
    async def _held(self, patience: Patience | None) -> AsyncIterator[Store]:
        """The shared store, which stays open while the block lasts."""
        self._shared()  # after a fork, count anew
        with self._door:
            self._holders += 1
        try:
            yield await patiently(self._opened, patience)
        finally:
            with self._door:
                self._holders -= 1

    def uses(self, store: Store) -> bool:
        """Return whether calls still go to this store: it was not closed."""
        return store in self._own.values() or (store is self._store and self._open)

    def notify_cancelled(self, jobs: frozenset[int]) -> None:
        """Cancel was requested for these running jobs: some may run right here."""
        for listener in list(self.listeners):
            listener(jobs)

    @property
    def on_a_workers_loop(self) -> bool:
        """Return whether the caller is on the loop of a worker, which stands still while the caller waits."""
        return any(runs_on(loop) for loop in self.worker_loops)

    def close(self) -> None:
        """Close the store that the process shares; the next call opens it again."""
        if self._store is not None and self._pid == os.getpid():
            loopthread.current().run(self._close())

    async def aclose(self) -> None:
        """Close the store that the process shares; the next call opens it again."""
        if self._store is not None and self._pid == os.getpid():
            await loopthread.current().arun(self._close())

    async def _with_store(self, operation: Callable[[Store], Awaitable[T]]) -> T:
        self._shared()  # after a fork, count anew
        with self._door:
            self._calls += 1
        try:
            return await operation(await self._opened())
        finally:
            with self._door:
                self._calls -= 1

    async def _opened(self) -> Store:
        store = self._shared()
        if self._open:
            return store
        if self._roams:
            await store.open()
        else:
            async with self._opening:
                await store.open()
        self._open = True
        return store

    def _shared(self) -> Store:
        """The process's store. The parent of a fork still uses the sockets of the one that came along, so
        that one is kept from the garbage collector and never closed here."""
        with self._door:
            if self._pid != os.getpid():
                if self._store is not None:
                    _left_by_parent.append(self._store)
                self._settle()
            if self._store is None:
                self._store = self._make()
            return self._store

    async def _close(self) -> None:
        """Close the shared store, unless a worker or another loop holds it: then it goes with the process.
        Calls under way from other loops come to their end first."""
        deadline = time.monotonic() + CLOSE_TIME
        # They end on other loops, whose events are not ours to await.
        while self._calls and not self._holders and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        with self._door:
            if self._holders or (self._calls and time.monotonic() < deadline):
                return  # somebody came in between, and is using it
            store, self._store, self._open = self._store, None, False
        if store is not None:
            await store.close()


async def _opened_to_write(store: Store) -> None:
    """Open a store for a worker. One that can only be read is opened anew later: it may be a standby that
    is promoted meanwhile."""
    await store.open()
    if why := store.read_only:
        await store.close()
        raise StoreReadOnly(why)


async def patiently(opening: Callable[[], Awaitable[T]], patience: Patience | None) -> T:
    """Do something with the store; with `patience`, again and again while it cannot be reached."""
    failures = 0
    while True:
        try:
            return await opening()
        except StoreUnavailable as error:
            if patience is None:
                raise
            failures += 1
            await patience(failures, error)


def _close_all() -> None:
    """A store that is closed leaves no half-open connection and no write-ahead log behind."""
    for store_handle in list(_store_handles):
        try:
            with contextlib.suppress(RuntimeError):  # the interpreter is too far gone to start anything
                store_handle.close()
        except (WindlassError, OSError) as error:
            logger.debug("closing a store at exit failed: %s", error)


_store_handles: Final[weakref.WeakSet[StoreHandle]] = weakref.WeakSet()
_left_by_parent: Final[list[Store]] = []
atexit.register(_close_all)
