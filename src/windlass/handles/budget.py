"""Budgets: tokens that the whole cluster shares, for what an upstream allows [F1] [F7].

    github = app.budget("github", rate="5000/h", burst=100)

    @app.task(budgets=["github"])               # each run takes a token, in the claim's own transaction
    async def sync(repo: str) -> None: ...

    await github.acquire(10)                    # by hand: inside a handler, or outside any worker
    await github.drain(60)                      # the upstream said 429: nothing for a minute

A budget lives in the store. What the code says is its default: it is declared when a worker starts or the
budget is first used, and never overwrites one that exists (`windlass budget set` changes it live). With
`key="tenant"` each value of the argument `tenant` has a bucket of its own. A budget that nobody has declared
grants nothing."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, Any, Final

from windlass.core.counts import plural
from windlass.core.durations import Duration, seconds
from windlass.core.names import check_name
from windlass.core.rates import Rate, per_second
from windlass.errors import BudgetTimeout, ConfigurationError
from windlass.running import loopthread
from windlass.running.stopped_clock import StoppedClock
from windlass.store import budgets
from windlass.store.fields import NewBudget
from windlass.store.records import BudgetRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from windlass.running.store_handle import StoreHandle
    from windlass.store.protocol import Store

logger: Final = logging.getLogger("windlass.budgets")
LONGEST_NAP: Final = 5.0
"""Seconds after which a caller who waits asks again at the latest: the budget may have been changed live."""


class Budget:
    """The handle of a budget; `app.budget(name)` gives it."""

    def __init__(
        self, name: str, declared: NewBudget | None, store_handle: Callable[[], StoreHandle]
    ) -> None:
        self.name: Final = check_name("budget", name)
        self.declared: Final = declared
        """What the code says about it, if it does."""
        self._store_handle = store_handle
        self._known: StoreHandle | None = None
        """Where it was declared, or was found wanting: a testing block has a store of its own."""
        self._acquired = time.monotonic()

    def __repr__(self) -> str:
        return f"<Budget {self.name}>"

    async def acquire(self, n: int = 1, *, key: str = "", timeout: Duration | None = None) -> None:
        """Take n tokens, and wait until there are so many. Raises BudgetTimeout, and nothing is taken, where
        that takes longer than `timeout`; ValueError for more than the burst, which there will never be."""
        deadline = None if timeout is None else time.monotonic() + seconds(timeout)
        _check_key(key)
        stopped_clock = StoppedClock(self._store_handle().clock)
        while True:
            taken = await self._call(lambda store: store.take(self.name, n, key))
            if taken.granted:
                self._acquired = time.monotonic()
                return
            if self._known is not self._store_handle() and await self.record() is None:
                logger.warning("budget %s is not declared, so it grants no tokens: %s", self.name, self._how)
            self._known = self._store_handle()
            # Those who wait for the same token come at different times.
            nap = min(taken.wait, LONGEST_NAP) * random.uniform(1.0, 1.1)
            if deadline is not None and time.monotonic() + min(nap, taken.wait) > deadline:
                missing = "" if await self.record() else f": nobody has declared it; {self._how}"
                raise BudgetTimeout(
                    f"budget {self.name} had no {plural(n, 'token')} within {timeout}{missing}"
                )
            stopped_clock.check(f"budget {self.name} has its next {plural(n, 'token')} in {taken.wait:.1f} s")
            await asyncio.sleep(min(nap, stopped_clock.look_every))

    def acquire_sync(self, n: int = 1, *, key: str = "", timeout: Duration | None = None) -> None:
        """The same for plain functions, which it blocks."""
        self._blocking("acquire", lambda: self.acquire(n, key=key, timeout=timeout))

    async def give_back(self, n: int = 1, *, key: str = "", age: Duration | None = None) -> None:
        """Give back tokens that were taken and not used, the sooner the better: what the budget has grown by
        since is not given back. `age` is how long ago they were taken; without it, as long as the last
        `acquire` of this handle."""
        span = time.monotonic() - self._acquired if age is None else seconds(age)
        await self._call(lambda store: store.give_back(self.name, n, key, span))

    async def drain(self, pause: Duration = 0, *, key: str | None = None) -> None:
        """The upstream has said that it is enough (429): no tokens are left, and there are none for `pause`.
        With a key, of that bucket alone."""
        span = seconds(pause)
        await self._call(lambda store: store.drain(self.name, span, key))

    def drain_sync(self, pause: Duration = 0, *, key: str | None = None) -> None:
        """The same for plain functions."""
        self._blocking("drain", lambda: self.drain(pause, key=key))

    async def succeeded(self) -> None:
        """Report to its breaker that a call by hand went well; workers report runs of tasks [F7]."""
        await self._call(lambda store: store.report_calls(self.name, 1, 0))

    async def failed(self) -> None:
        """Report to its breaker that a call by hand failed [F7]."""
        await self._call(lambda store: store.report_calls(self.name, 0, 1))

    async def record(self) -> BudgetRecord | None:
        """How it stands in the store; None where nobody has declared it."""
        found = await self._call(lambda store: store.budgets())
        return next((each for each in found if each.name == self.name), None)

    @property
    def _how(self) -> str:
        return f"app.budget({self.name!r}, rate=…), or: windlass budget set {self.name} --rate 10/s"

    def _blocking(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if loopthread.in_loop():
            raise RuntimeError(f"this thread runs an event loop: await budget.{name}(…) instead")
        asyncio.run(work())

    async def _call(self, operation: Callable[[Store], Coroutine[Any, Any, Any]]) -> Any:
        store_handle = self._store_handle()
        if self.declared is not None and self._known is not store_handle:
            declared = self.declared
            await store_handle.acall(lambda store: store.declare_budget(declared))
            self._known = store_handle
        return await store_handle.acall(operation)


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise TypeError(f"key={key!r} must be a text, the value of the argument that divides the budget")


def read_budget(
    name: str, rate: Rate, burst: int | None, key: str | None, breaker: int, breaker_pause: Duration
) -> NewBudget:
    """What `app.budget(...)` declares. Raises ConfigurationError."""
    try:
        tokens = per_second(rate)
        first = budgets.new(name, {"rate": tokens})
        given = {} if burst is None else {"burst": burst}
        more = {"key": key, "breaker": breaker, "breaker_pause": seconds(breaker_pause)}
        return budgets.changed(first, {**given, **more})
    except ValueError as error:
        raise ConfigurationError(f"app.budget({name!r}): {error}") from None
