"""The connections of one process: as few as do, and more while they are needed.

A connection costs the server a process, some ten MB, and 20 ms of its CPU until the first claim was answered.
So one is for all calls, in turn. Who has waited for it longer than `patience` gets another one, whatever the
first is busy with; what was not needed for a while is closed again. A handler's block may hold its connection
for as long as it likes, so it never gets the only one: calls do not wait for handlers.

Where the server has no room for another, callers go on waiting in turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncpg

from windlass.errors import StoreUnavailable

PATIENCE: Final = 0.002
"""Seconds that a call waits for a connection in use before another is opened."""

THRIFTY: Final = 0.12
"""Seconds that a call of a worker process waits, of which there may be many: a little longer than a claim
waits for its lane, or each of many processes would open a second one."""

SURPLUS: Final = 10.0
"""Seconds after which a connection that was not needed is closed, where there are others."""

UNUSED: Final = 300.0
"""Seconds after which the last one is closed, too."""

SLOW: Final = 0.3
"""Seconds after which another attempt is made beside one that has not come to its end."""

REFUSED: Final = 5.0
"""Seconds for which no other is asked for after the server had no room for one."""

CLOSED: Final = "the store was closed"
GONE: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
logger: Final = logging.getLogger("windlass.store")


class _Waiter:
    """Somebody who waits for a connection: a call, or with `lend` a handler's block."""

    __slots__ = ("future", "impatient", "lend", "since", "timer")

    def __init__(self, future: asyncio.Future[Any], *, lend: bool) -> None:
        self.future = future
        self.since = time.monotonic()
        self.lend = lend
        self.impatient = False
        self.timer: asyncio.TimerHandle | None = None


class Pool:
    """At most so many connections, made by `make`. It belongs to the loop that it is used on."""

    def __init__(self, make: Callable[[], Awaitable[Any]], most: int) -> None:
        self._make = make
        self.patience = PATIENCE
        self.rehearse: Callable[[Any], Awaitable[None]] | None = None
        """The rehearsal of a new connection that nobody waits for."""
        self._most = most
        self._all: set[Any] = set()
        self._lent: set[Any] = set()
        self._free: dict[Any, float] = {}
        """Idle connections, each since when; the one that was used last is the last."""
        self._waiting: deque[_Waiter] = deque()
        self._opening: dict[asyncio.Task[None], float] = {}
        """Connections that are being made, each since when."""
        self._closing: set[asyncio.Task[None]] = set()
        self._refused_until = 0.0
        self._trimming: asyncio.TimerHandle | None = None
        self._closed = False
        self._emptied = asyncio.Event()
        """Nothing is left."""

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self._all)

    @property
    def idle(self) -> int:
        """How many of them nobody uses."""
        return len(self._free)

    async def take(self, *, lend: bool = False) -> Any:
        """A connection of the caller's own until it is given back. Raises what opening one raises, where
        there is none to wait for."""
        if (connection := self.take_free(lend=lend)) is not None:
            return connection
        if self._closed:
            raise StoreUnavailable(CLOSED)
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop.create_future(), lend=lend)
        self._waiting.append(waiter)
        waiter.timer = loop.call_later(self.patience, self._lose_patience, waiter)
        self._open_wanted()
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if waiter.future.done() and not waiter.future.cancelled() and not waiter.future.exception():
                self.give(waiter.future.result())  # it came at the last moment
            raise
        finally:
            waiter.timer.cancel()
            self._waiting.remove(waiter)

    def give(self, connection: Any) -> None:
        """Give one back, whatever became of it. It must be outside of any transaction."""
        self._lent.discard(connection)
        if connection not in self._all:
            return  # it was lost, which was noticed
        if self._closed or connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
            self._forget(connection)
            return
        self._free[connection] = time.monotonic()
        if self._waiting:
            self._hand_out()
        if self._trimming is None:
            self._trimming = asyncio.get_running_loop().call_later(SURPLUS, self._trim)

    def cut_idle(self) -> None:
        """Cut off those that nobody uses."""
        for connection in list(self._free):
            connection.terminate()
            self._forget(connection)

    async def close(self) -> None:
        """Close them all, in good order. Whoever uses one may come to an end first."""
        self._stop()
        for connection in list(self._free):
            self._dismiss(connection)
        await asyncio.gather(*self._opening, *self._closing, return_exceptions=True)
        while self._all:
            self._emptied.clear()
            await self._emptied.wait()

    def terminate(self) -> None:
        """Cut them all off."""
        self._stop()
        for task in self._closing:
            task.cancel()
        for connection in list(self._all):
            connection.terminate()
            self._forget(connection)

    def _stop(self) -> None:
        self._closed = True
        if self._trimming is not None:
            self._trimming.cancel()
        for task in self._opening:
            task.cancel()
        for waiter in self._waiting:
            if not waiter.future.done():
                waiter.future.set_exception(StoreUnavailable(CLOSED))

    # -- who gets which ------------------------------------------------------------------------------------

    def take_free(self, *, lend: bool) -> Any:
        """The one that was used last, if one is free. A handler's block never gets the only one that is not
        lent."""
        while self._free and not (lend and len(self._all) - len(self._lent) < 2):
            connection, _ = self._free.popitem()
            if connection.is_closed():
                self._all.discard(connection)
                continue
            if lend:
                self._lent.add(connection)
            return connection
        return None

    def _hand_out(self) -> None:
        for waiter in list(self._waiting):
            if waiter.future.done():
                continue
            connection = self.take_free(lend=waiter.lend)
            if connection is not None:
                waiter.future.set_result(connection)
            elif not self._free:
                break
        self._open_wanted()

    def _lose_patience(self, waiter: _Waiter) -> None:
        waiter.impatient = True
        self._open_wanted()
        # Where the server had no room, it may have some later; one that is being made may never come.
        waiter.timer = asyncio.get_running_loop().call_later(SLOW, self._lose_patience, waiter)

    # -- opening and losing --------------------------------------------------------------------------------

    def _open_wanted(self) -> None:
        """Open as many as are wanted now: one for each block that waits, and one for the calls where there is
        nothing to wait for, or one of them has waited for long."""
        waiting = [waiter for waiter in self._waiting if not waiter.future.done()]
        blocks = sum(waiter.lend for waiter in waiting)
        nothing = len(self._all) == len(self._lent)
        calls = any(nothing or waiter.impatient for waiter in waiting if not waiter.lend)
        now = time.monotonic()
        if self._closed or (not nothing and now < self._refused_until):
            return
        soon = sum(now - began < SLOW for began in self._opening.values())
        room = self._most - len(self._all) - len(self._opening)
        for _ in range(min(blocks + calls - soon, room)):
            self._begin()

    def _begin(self) -> None:
        task = asyncio.create_task(self._open(), name="windlass connection")
        self._opening[task] = time.monotonic()
        task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[None]) -> None:
        began = self._opening.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._refuse(error, began)
        self._open_wanted()

    async def _open(self) -> None:
        connection = await self._make()
        if self._closed:
            connection.terminate()
            return
        if self.rehearse is not None and not self._waiting:
            try:
                await self.rehearse(connection)
            except BaseException:
                connection.terminate()
                raise
        connection.add_termination_listener(self._lost)
        self._all.add(connection)
        self.give(connection)

    def _refuse(self, error: BaseException, began: float) -> None:
        """Tell those who have nothing else to wait for. Who waits for one in use goes on waiting, for as long
        as its deadline allows, and so does who came after this attempt began: what was so then need not be so
        now."""
        nothing = len(self._all) == len(self._lent)
        self._refused_until = time.monotonic() + REFUSED
        told = [waiter for waiter in self._waiting if (nothing or waiter.lend) and waiter.since <= began]
        if not told:
            logger.debug("the server gives no other connection, so calls wait for each other: %s", error)
        for waiter in told:
            if not waiter.future.done():
                waiter.future.set_exception(error)

    def _lost(self, connection: Any) -> None:
        """The server, or the network, has ended it. If it was the only one of a worker, which calls often,
        the next call should not have to wait for another."""
        replace = self.rehearse is not None and connection in self._free
        self._forget(connection)
        if replace and not self._all and not self._opening and not self._closed:
            self._begin()

    def _forget(self, connection: Any) -> None:
        self._all.discard(connection)
        self._lent.discard(connection)
        self._free.pop(connection, None)
        if not self._all:
            self._emptied.set()
        if self._waiting:
            self._open_wanted()

    # -- closing what is not needed ------------------------------------------------------------------------

    def _trim(self) -> None:
        self._trimming = None
        now = time.monotonic()
        for connection, since in list(self._free.items()):
            if now - since >= (SURPLUS if len(self._all) > 1 else UNUSED):
                self._dismiss(connection)
        if self._free:
            self._trimming = asyncio.get_running_loop().call_later(SURPLUS, self._trim)

    def _dismiss(self, connection: Any) -> None:
        self._forget(connection)

        async def close() -> None:
            try:
                await connection.close(timeout=1.0)
            except (*GONE, asyncio.CancelledError):
                connection.terminate()

        task = asyncio.create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
