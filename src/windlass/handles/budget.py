"""Budgets: tokens that the whole cluster shares, for what an upstream allows [F1] [F7].

    github = app.budget("github", rate="5000/h", burst=100)

    @app.task(budgets=["github"])               # each run takes a token, in the claim's own transaction
    async def sync(repo: str) -> None: ...

    await github.aacquire(10)                   # by hand: inside a handler, or outside any worker
    await github.adrain(60)                     # the upstream said 429: nothing for a minute

    openai = app.budget("openai", rate="90000/m", burst=20_000, cap="2M/day")       # and no more in a day

A budget lives in the store. What the code says is its default: it is declared when a worker starts or the
budget is first used, and never overwrites one that exists (`windlass budget set` changes it live). With
`key="tenant"` each value of the argument `tenant` has a bucket of its own. A budget that nobody has declared
grants nothing."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from windlass.core.counts import plural
from windlass.core.durations import Duration, seconds
from windlass.core.flow.breaker import BreakerState
from windlass.core.flow.caps import cap_of
from windlass.core.flow.rates import Rate, per_second
from windlass.core.names import check_name
from windlass.errors import BudgetTimeout, ConfigurationError
from windlass.handles.handle import _Handle
from windlass.operations import budgets as operations
from windlass.running import loopthread
from windlass.running.stopped_clock import StoppedClock
from windlass.store import budgets
from windlass.store.fields import NewBudget
from windlass.store.records import BudgetRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from windlass.app import Windlass
    from windlass.operations.operation import Ops
    from windlass.running.store_handle import StoreHandle

T = TypeVar("T")
MOST_USERS: Final = 500
"""Keys that are looked at to tell whether the cap of one is used up: those that used most come first."""
logger: Final = logging.getLogger("windlass.budgets")
YIELD_EVERY: Final = 64
"""Calls after which other tasks of the loop get a turn, where none of them had to wait."""
LONGEST_NAP: Final = 5.0
"""Seconds after which a caller who waits asks again at the latest: the budget may have been changed live."""


class Budget(_Handle):
    """The handle of a budget; `app.budget(name)` gives it."""

    def __init__(self, app: Windlass, name: str, declared: NewBudget | None) -> None:
        super().__init__(app)
        self.name: Final = check_name("budget", name)
        self.declared: Final = declared
        """The declaration in code, if there is one."""
        self._known: StoreHandle | None = None
        """Where it was declared, or was found wanting: a testing block has a store of its own."""
        self._acquired = time.monotonic()
        self._calls = 0

    def __repr__(self) -> str:
        return f"<Budget {self.name}>"

    def acquire(self, n: int = 1, *, key: str = "", timeout: Duration | None = None) -> None:
        """Take n tokens, and wait until there are so many. Raises BudgetTimeout, and nothing is taken, where
        that takes longer than `timeout`; ValueError for more than the burst, which there will never be."""
        if loopthread.in_loop():
            raise RuntimeError(
                "this thread runs an event loop, which this would block: await budget.aacquire(…) instead"
            )
        if not self._spend(n, key):
            loopthread.current().run(self._acquire(n, key, timeout))

    async def aacquire(self, n: int = 1, *, key: str = "", timeout: Duration | None = None) -> None:
        """Take n tokens, and wait until there are so many; see `acquire`."""
        if not self._spend(n, key):
            await self._acquire(n, key, timeout)
        elif not self._calls % YIELD_EVERY:
            await asyncio.sleep(0)

    def give_back(self, n: int = 1, *, key: str = "", age: Duration | None = None) -> None:
        """Give back tokens that were taken and not used, the sooner the better: what the budget has grown by
        since is not given back. `age` is how long ago they were taken; without it, as long as the last
        `acquire` of this handle."""
        span = self._age(age)
        self._call(lambda ops: ops.store.give_back(self.name, n, key, span))

    async def agive_back(self, n: int = 1, *, key: str = "", age: Duration | None = None) -> None:
        """Give back tokens that were taken and not used; see `give_back`."""
        span = self._age(age)
        await self._acall(lambda ops: ops.store.give_back(self.name, n, key, span))

    def settle(self, taken: int, used: int, *, key: str = "", age: Duration | None = None) -> None:
        """Say that of `taken` tokens, acquired by hand, `used` were really used. More leaves a debt, which is
        paid off before anybody gets any; less comes back, but for what was taken before a drain. `age` is how
        long ago they were taken; without it, as long as the last `acquire` of this handle. In a handler, for
        what its job has taken, call `ctx.spent(…)` instead."""
        more, span = _more(taken, used), self._age(age)
        self._call(lambda ops: ops.store.settle(self.name, more, key, span))

    async def asettle(self, taken: int, used: int, *, key: str = "", age: Duration | None = None) -> None:
        """Say how many of the tokens acquired by hand were really used; see `settle`."""
        more, span = _more(taken, used), self._age(age)
        await self._acall(lambda ops: ops.store.settle(self.name, more, key, span))

    def drain(self, pause: Duration = 0, *, key: str | None = None) -> None:
        """The upstream has said that it is enough (429): no tokens are left, and there are none for `pause`.
        With a key, of that bucket alone. This process notices at once, others within 50 ms."""
        span = seconds(pause)
        self._call(lambda ops: operations.drain(ops, self.name, span, key))

    async def adrain(self, pause: Duration = 0, *, key: str | None = None) -> None:
        """No tokens are left, and there are none for `pause`; see `drain`."""
        span = seconds(pause)
        await self._acall(lambda ops: operations.drain(ops, self.name, span, key))

    def succeeded(self) -> None:
        """Report to its breaker that a call by hand went well; workers report runs of tasks [F7]."""
        self._call(lambda ops: ops.store.report_calls(self.name, 1, 0))

    async def asucceeded(self) -> None:
        """Report to its breaker that a call by hand went well; see `succeeded`."""
        await self._acall(lambda ops: ops.store.report_calls(self.name, 1, 0))

    def failed(self) -> None:
        """Report to its breaker that a call by hand failed [F7]."""
        self._note(self._call(lambda ops: ops.store.report_calls(self.name, 0, 1)))

    async def afailed(self) -> None:
        """Report to its breaker that a call by hand failed [F7]."""
        self._note(await self._acall(lambda ops: ops.store.report_calls(self.name, 0, 1)))

    def record(self) -> BudgetRecord | None:
        """How it stands in the store; None where nobody has declared it."""
        return self._call(self._look)

    async def arecord(self) -> BudgetRecord | None:
        """How it stands in the store; None where nobody has declared it."""
        return await self._acall(self._look)

    # -- how --------------------------------------------------------------------------------------------

    @property
    def _how(self) -> str:
        return f"app.budget({self.name!r}, rate=…), or: windlass budget set {self.name} --rate 10/s"

    def _age(self, age: Duration | None) -> float:
        return time.monotonic() - self._acquired if age is None else seconds(age)

    def _note(self, state: BreakerState) -> None:
        if state != "closed":
            self._store_handle().tokens.void(self.name)

    def _spend(self, n: int, key: str) -> bool:
        """Take tokens that this process holds already."""
        _check_key(key)
        if not self._store_handle().tokens.of(self.name, key).spend(n):
            return False
        self._acquired = time.monotonic()
        self._calls += 1
        return True

    async def _acquire(self, n: int, key: str, timeout: Duration | None) -> None:
        """One call after the other: who waits for tokens must not keep the store from being closed."""
        limit = None if timeout is None else seconds(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        tokens = self._store_handle().tokens.of(self.name, key)
        stopped_clock = StoppedClock(self._store_handle().clock)
        while not self._spend(n, key):
            wait = await self._acall(lambda ops: tokens.take(ops.store, n))
            if not wait:
                self._acquired = time.monotonic()
                return
            if self._known is not self._store_handle() and await self.arecord() is None:
                logger.warning("budget %s is not declared, so it grants no tokens: %s", self.name, self._how)
            self._known = self._store_handle()
            # Those who wait for the same token come at different times.
            nap = min(wait, LONGEST_NAP) * random.uniform(1.0, 1.1)
            if deadline is not None and time.monotonic() + min(nap, wait) > deadline:
                missing = await self._acall(lambda ops: self._missing(ops, n, key))
                raise BudgetTimeout(
                    f"budget {self.name} had no {plural(n, 'token')} within {limit:g} s{missing}"
                )
            stopped_clock.check(f"budget {self.name} has its next {plural(n, 'token')} in {wait:.1f} s")
            await asyncio.sleep(min(nap, stopped_clock.look_every))

    async def _missing(self, ops: Ops, n: int, key: str) -> str:
        """Say what stands in the way, besides that all tokens are taken."""
        record = await self._look(ops)
        if record is None:
            return f": nobody has declared it; {self._how}"
        users = await ops.store.usage(self.name, MOST_USERS)
        used = next((each.used for each in users if each.key == key), 0)
        if record.cap is None or used + n <= record.cap:
            return ""
        of_key = f" for key {key!r}" if key else ""
        return (
            f": {used:,.0f} of its cap of {record.cap:,} per {record.cap_per} are used{of_key}; wait for the "
            f"next {record.cap_per}, or raise it with `windlass budget set {self.name} --cap …`"
        )

    async def _look(self, ops: Ops) -> BudgetRecord | None:
        found = await ops.store.budgets()
        return next((each for each in found if each.name == self.name), None)

    def _call(self, operation: Callable[[Ops], Awaitable[T]]) -> T:
        return self._run(lambda ops: self._declared_first(ops, operation))

    async def _acall(self, operation: Callable[[Ops], Awaitable[T]]) -> T:
        return await self._arun(lambda ops: self._declared_first(ops, operation))

    async def _declared_first(self, ops: Ops, operation: Callable[[Ops], Awaitable[T]]) -> T:
        if self.declared is not None and self._known is not self._store_handle():
            await ops.store.declare_budget(self.declared)
            self._known = self._store_handle()
        return await operation(ops)


def _more(taken: int, used: int) -> int:
    for what, n in (("taken", taken), ("used", used)):
        if type(n) is not int or not 0 <= n <= budgets.MOST_TOKENS:
            raise ValueError(
                f"{what}={n!r} is not a whole number of tokens from 0 to {budgets.MOST_TOKENS:,}"
            )
    return used - taken


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise TypeError(f"key={key!r} must be a text, the value of the argument that divides the budget")


def read_budget(
    name: str,
    rate: Rate,
    burst: int | None,
    key: str | None,
    breaker: int,
    breaker_pause: Duration,
    cap: str | None = None,
    cap_zone: str = "UTC",
) -> NewBudget:
    """Return the budget that `app.budget(...)` declares. Raises ConfigurationError."""
    try:
        tokens = per_second(rate)
        first = budgets.new(name, {"rate": tokens})
        given = {} if burst is None else {"burst": burst}
        more = {"key": key, "breaker": breaker, "breaker_pause": seconds(breaker_pause), "cap_zone": cap_zone}
        if cap is not None:
            more["cap"], more["cap_per"] = cap_of(cap)
        return budgets.changed(first, {**given, **more})
    except ValueError as error:
        raise ConfigurationError(f"app.budget({name!r}): {error}") from None
