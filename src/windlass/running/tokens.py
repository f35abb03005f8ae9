"""Tokens that this process takes by hand [F1]. Callers who come together share one statement, and where they
come often it leases a block of tokens on top, which the next ones get without asking the store. A block is
over after `held_for` seconds; what is left is given back before, with the next statement or by itself.

A block is the process's, so it is guarded by a lock. Those who wait for an answer wait on the loop that asks
the store. After a fork the child has none: its parent hands them out.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec

from windlass.core.counts import plural
from windlass.core.flow.block import Block
from windlass.errors import StoreError

if TYPE_CHECKING:
    from windlass.running.store_handle import StoreHandle
    from windlass.store.protocol import Store
    from windlass.store.records import Lease

MAX_CALLERS: Final = 500
"""Callers that one statement serves at most."""
UNKNOWN_WAIT: Final = 5.0
"""Seconds after which it makes sense to look whether a budget exists by now."""
BACK_AFTER: Final = 0.8
"""The share of its time after which what is left of a block is given back."""
MAX_IDLE: Final = 1000
"""Buckets that are kept in mind before those that are not in use are forgotten."""


def _boot_time() -> Callable[[], float]:
    """A clock that counts on while the machine sleeps: a block is over then."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return time.monotonic
    return lambda: time.clock_gettime(time.CLOCK_BOOTTIME)


clock: Final = _boot_time()


class Caller(msgspec.Struct, eq=False):
    """A call that waits for an answer: 0.0, or the seconds after which to ask again."""

    n: int
    answer: asyncio.Future[float]


class Tokens:
    """The tokens of one bucket. With the clock of a test, which stands still, each call asks the store."""

    def __init__(self, store_handle: StoreHandle, budget: str, key: str) -> None:
        self._store_handle = store_handle
        self._budget = budget
        self._key = key
        self._leases = store_handle.clock is None
        self._lock = threading.Lock()
        self._block = Block()
        self._voids = 0
        self._waiting: dict[asyncio.AbstractEventLoop, list[Caller]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> bool:
        """Return whether nothing would be lost with it."""
        return not self._waiting and clock() >= self._block.until

    def spend(self, n: int) -> bool:
        """Give out n tokens of the block, if it has them."""
        with self._lock:
            return n > 0 and self._block.spend(n, clock())

    def void(self) -> None:
        """Hand out nothing more of the block: the upstream has had enough."""
        with self._lock:
            self._block.rest()
            self._voids += 1

    async def take(self, store: Store, n: int) -> float:
        """Take n tokens: 0.0, or in how many seconds to ask again. Raises ValueError for more than there will
        ever be."""
        if n < 1:
            raise ValueError(
                f"{plural(n, 'token')} of budget {self._budget!r} cannot be taken: ask for 1 or more"
            )
        loop = asyncio.get_running_loop()
        caller = Caller(n, loop.create_future())
        if loop in self._waiting:
            self._waiting[loop].append(caller)
        else:
            self._waiting[loop] = [caller]
            self._start(self._serve(store, loop))
        return await caller.answer

    # -- how --------------------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        """Send one statement after the other, as long as a call waits on this loop. It goes on where a caller
        is cancelled: it is for the others, too."""
        waiting = self._waiting[loop]
        callers: list[Caller] = []
        try:
            while waiting:
                callers, waiting[:] = waiting[:MAX_CALLERS], waiting[MAX_CALLERS:]
                try:
                    await self._ask(store, callers)
                except Exception as error:  # noqa: BLE001 - it is theirs, whatever it is
                    for caller in callers:
                        if not caller.answer.done():
                            caller.answer.set_exception(error)
        finally:
            del self._waiting[loop]
            for caller in callers + waiting:  # the loop is being closed
                caller.answer.cancel()

    async def _ask(self, store: Store, callers: list[Caller]) -> None:
        asking = [caller for caller in callers if not caller.answer.done() and not self._serve_here(caller)]
        if not asking:
            return
        needs = [caller.n for caller in asking]
        asked = clock()
        with self._lock:
            voids, rest, leased_at = self._voids, self._block.rest(), self._block.leased_at
            extra = self._block.wish(asked) if self._leases else 0
        lease = await store.lease(self._budget, needs, self._key, extra=extra, rest=rest, leased_at=leased_at)
        with self._lock:
            self._block.used += sum(n for n, served in zip(needs, lease.served, strict=True) if served)
            if lease.bucket is not None and lease.block and voids == self._voids:
                self._block.leased(lease.block, lease.at, asked + lease.bucket.held_for)
                asyncio.get_running_loop().call_later(
                    BACK_AFTER * lease.bucket.held_for, self._end_block, store, self._block.leased_at
                )
        self._answer(asking, lease)

    def _serve_here(self, caller: Caller) -> bool:
        """A block may have come while it waited."""
        if not self.spend(caller.n):
            return False
        caller.answer.set_result(0.0)
        return True

    def _answer(self, callers: list[Caller], lease: Lease) -> None:
        bucket, before = lease.bucket, dict[int, int]()
        for caller, served in zip(callers, lease.served, strict=True):
            n, answer = caller.n, caller.answer
            if answer.done():
                continue
            if served:
                answer.set_result(0.0)
            elif bucket is None:
                answer.set_result(UNKNOWN_WAIT)
            elif n > bucket.burst:
                answer.set_exception(
                    ValueError(
                        f"budget {self._budget!r} never holds {plural(n, 'token')}: its burst is "
                        f"{bucket.burst:g}; take fewer, or raise its burst"
                    )
                )
            else:
                # Those before it who need no more than it does come first.
                first = sum(total for size, total in before.items() if size <= n)
                wait = bucket.wait(n, lease.at, first)
                back = bucket.leased_until - lease.at if lease.at < bucket.leased_until else math.inf
                answer.set_result(min(wait, back))
                before[n] = before.get(n, 0) + n

    def _end_block(self, store: Store, leased_at: float) -> None:
        """Give back what is left of this block."""
        with self._lock:
            rest = self._block.rest() if self._block.leased_at == leased_at else 0
        if rest:
            self._start(self._give_back(store, rest, leased_at))

    async def _give_back(self, store: Store, rest: int, leased_at: float) -> None:
        """Give back tokens, unless the store was closed meanwhile: they are lost then, which is safe."""
        with contextlib.suppress(StoreError, ReferenceError):
            if not self._store_handle.uses(store):
                return
            await self._store_handle.acall(
                lambda store: store.lease(self._budget, [], self._key, rest=rest, leased_at=leased_at)
            )


class ProcessTokens:
    """The tokens of all buckets that this process takes by hand from one store."""

    def __init__(self, store_handle: StoreHandle) -> None:
        self._store_handle = weakref.proxy(store_handle)
        self._buckets: dict[tuple[str, str], Tokens] = {}
        _all.add(self)

    def of(self, budget: str, key: str) -> Tokens:
        """Return the tokens of one bucket."""
        tokens = self._buckets.get((budget, key))
        if tokens is None:
            if len(self._buckets) >= MAX_IDLE:
                self._buckets = {at: kept for at, kept in list(self._buckets.items()) if not kept.idle}
            tokens = self._buckets.setdefault((budget, key), Tokens(self._store_handle, budget, key))
        return tokens

    def void(self, budget: str, key: str | None = None) -> None:
        """Hand out no more of the blocks of this budget, or of its bucket of this key."""
        for (name, own), tokens in list(self._buckets.items()):
            if name == budget and key in (None, own):
                tokens.void()

    def forget(self) -> None:
        """This is a forked child: the blocks are its parent's."""
        self._buckets = {}


def _forget_after_fork() -> None:
    for tokens in list(_all):
        tokens.forget()


_all: Final[weakref.WeakSet[ProcessTokens]] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
