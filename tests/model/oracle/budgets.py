"""Budgets: declaring, changing, taking by hand, draining, and telling their breakers [F1] [F7]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tests.model.oracle.base import Base, atomic
from tests.model.oracle.tokens import Budget
from windlass.core.counts import plural
from windlass.core.flow.breaker import BreakerState
from windlass.store.budgets import changed, checked, new
from windlass.store.fields import NewBudget
from windlass.store.records import BudgetRecord, Lease, Taken, Usage

UNKNOWN_WAIT: Final = 5.0
"""Seconds after which to ask again for a budget that nobody has declared yet."""


class Budgets(Base):
    """What tasks and handlers share with the whole cluster."""

    @atomic
    async def budgets(self) -> list[BudgetRecord]:
        now = self._clock()
        return [self._record(name, now) for name in sorted(self._tables.budgets)]

    @atomic
    async def declare_budget(self, budget: NewBudget) -> BudgetRecord:
        fine = checked(budget)
        self._tables.budgets.setdefault(budget.name, Budget.full(fine))
        return self._record(budget.name, self._clock())

    @atomic
    async def set_budget(self, name: str, changes: Mapping[str, Any]) -> BudgetRecord:
        now, known = self._clock(), self._tables.budgets.get(name)
        if known is None:
            self._tables.budgets[name] = Budget.full(new(name, changes))
        else:
            known.change(changed(known.settings, changes), changes.keys(), now)
        return self._record(name, now)

    @atomic
    async def drop_budget(self, name: str) -> bool:
        return self._tables.budgets.pop(name, None) is not None

    @atomic
    async def take(self, budget: str, n: int, key: str = "") -> Taken:
        now, known = self._clock(), self._tables.budgets.get(budget)
        if n < 1 or (known is not None and n > known.settings.burst):
            most = f", and at most its burst of {known.settings.burst}" if known is not None else ""
            raise ValueError(
                f"cannot take {plural(n, 'token')} of budget {budget!r} at once: take 1 or more{most}"
            )
        if known is None:
            return Taken(False, UNKNOWN_WAIT)
        if not known.grants(key, n, now):
            known.buckets[key] = known.bucket(key, now).refused(n, now)
            return Taken(False, known.wait(key, n, now))
        known.take(key, n, now)
        return Taken(True)

    @atomic
    async def lease(
        self,
        budget: str,
        needs: Sequence[int],
        key: str = "",
        *,
        extra: int = 0,
        rest: int = 0,
        leased_at: float = 0.0,
    ) -> Lease:
        now, known = self._clock(), self._tables.budgets.get(budget)
        if min(needs, default=1) < 1:
            raise ValueError(f"budget {budget!r}: each caller needs 1 token or more")
        if known is None:
            return Lease([False] * len(needs), at=now)
        bucket = known.bucket(key, now)
        if rest and now >= leased_at:
            bucket = bucket.give_back(rest, now, now - leased_at)
        served, block, bucket = bucket.lease(needs, extra, now, known.breaker.allows(now))
        known.buckets[key] = bucket
        if any(served) or block:
            known.breaker = known.breaker.granted(now)
        shut = now + known.breaker.left(now)
        paused_until = max(bucket.paused_until, shut if shut > now else 0.0)
        return Lease(served, block, now, msgspec.structs.replace(bucket, paused_until=paused_until))

    @atomic
    async def give_back(self, budget: str, n: int, key: str = "", age: float = 0.0) -> None:
        now, known = self._clock(), self._tables.budgets.get(budget)
        if known is not None:
            known.buckets[key] = known.bucket(key, now).give_back(n, now, age)

    @atomic
    async def usage(self, budget: str, limit: int = 100) -> list[Usage]:
        now, known = self._clock(), self._tables.budgets.get(budget)
        buckets = {} if known is None else known.buckets
        found = [
            Usage(key, each.used, each.used_until)
            for key, each in buckets.items()
            if each.used > 0 and each.used_until > now
        ]
        return sorted(found, key=lambda each: (-each.used, each.key))[:limit]

    @atomic
    async def settle(self, budget: str, more: int, key: str = "", age: float = 0.0) -> None:
        known = self._tables.budgets.get(budget)
        if known is not None:
            known.settle(key, more, self._clock(), age)

    @atomic
    async def drain(self, budget: str, pause: float, key: str | None = None) -> None:
        known = self._tables.budgets.get(budget)
        if known is None:
            raise ValueError(f"there is no budget {budget!r} to drain; declare it, or give it a rate")
        known.drain(pause, key, self._clock())

    @atomic
    async def report_calls(self, budget: str, succeeded: int, failed: int) -> BreakerState:
        now, known = self._clock(), self._tables.budgets.get(budget)
        if known is None:
            return "closed"
        known.breaker = known.breaker.after_calls(succeeded, failed, now)
        return known.breaker.state(now)

    def _record(self, name: str, now: float) -> BudgetRecord:
        lines = (
            gateway.line
            for gate, gateway in self._tables.gateways.items()
            if gate.startswith((f"budget:{name}/", f"over:{name}/"))
        )
        return self._tables.budgets[name].record(now, sum(map(len, lines)))
