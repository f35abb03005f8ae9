"""Budgets and the governor on PostgreSQL [F1] [F2] [F7]. The arithmetic is in SQL, the same as that of
`core.flow.bucket` and `core.flow.breaker`; see `sql/flow/budgets_buckets.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from windlass.core.flow.breaker import BreakerState
from windlass.core.flow.bucket import Bucket
from windlass.core.flow.governor import Governor, Window
from windlass.errors import ClaimLost
from windlass.store.budgets import changed, checked
from windlass.store.fields import NewBudget
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.rows import record_of
from windlass.store.records import BudgetRecord, ClaimedJob, Governed, Lease, Runs, Taken, Usage

LARGEST: Final = 2**31 - 1
_encode = msgspec.json.Encoder().encode
_governor = msgspec.json.Decoder(Governor).decode


class Budgets:
    """Budgets, which the whole cluster shares, and the rates of governed queues."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def budgets(self) -> list[BudgetRecord]:
        """See Store.budgets."""
        return [_record(row) for row in await self._db.query("budgets", None)]

    async def declare_budget(self, budget: NewBudget) -> BudgetRecord:
        """See Store.declare_budget."""
        settings = msgspec.structs.asdict(checked(budget))
        await self._db.value("declare_budget", settings.pop("name"), _encode(settings).decode())
        return await self._budget(budget.name)

    async def set_budget(self, name: str, changes: Mapping[str, Any]) -> BudgetRecord:
        """See Store.set_budget."""
        changed(NewBudget(name=name, rate=0.0, burst=1), changes)
        await self._db.value("set_budget", name, _encode(dict(changes)).decode())
        return await self._budget(name)

    async def _budget(self, name: str) -> BudgetRecord:
        rows = await self._db.query("budgets", name)
        if not rows:
            raise ValueError(f"budget {name!r} was dropped just now; declare it again")
        return _record(rows[0])

    async def drop_budget(self, name: str) -> bool:
        """See Store.drop_budget."""
        return bool(await self._db.value("drop_budget", name))

    async def take(self, budget: str, n: int, key: str = "") -> Taken:
        """See Store.take."""
        row = await self._db.call("take_tokens", budget, min(n, LARGEST), key)
        return record_of(Taken, row)

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
        """See Store.lease."""
        row = await self._db.call(
            "lease_tokens",
            budget,
            key,
            [min(n, LARGEST) for n in needs],
            min(extra, LARGEST),
            min(rest, LARGEST),
            leased_at,
        )
        return Lease(
            row["served"] or [],
            row["block"],
            row["now"],
            None if row["rate"] is None else record_of(Bucket, row),
        )

    async def give_back(self, budget: str, n: int, key: str = "", age: float = 0.0) -> None:
        """See Store.give_back."""
        await self._db.value("give_tokens", budget, min(n, LARGEST), key, float(age))

    async def usage(self, budget: str, limit: int = 100) -> list[Usage]:
        """See Store.usage."""
        return [record_of(Usage, row) for row in await self._db.query("usage", budget, limit)]

    async def settle(self, budget: str, more: int, key: str = "", age: float = 0.0) -> None:
        """See Store.settle."""
        await self._db.value("settle_tokens", budget, more, key, float(age))

    async def spent(
        self,
        worker: int,
        job: ClaimedJob,
        budget: str,
        key: str,
        *,
        before: int,
        tokens: int,
        age: float = 0.0,
    ) -> None:
        """See Store.spent."""
        kept = await self._db.value(
            "spend_tokens", worker, *job.fence, budget, key, before, tokens, float(age)
        )
        if not kept:
            raise ClaimLost(f"job {job.id} is no longer held by claim {job.claim}; its use was not counted")

    async def drain(self, budget: str, pause: float, key: str | None = None) -> None:
        """See Store.drain."""
        await self._db.value("drain_budget", budget, float(pause), key)

    async def report_calls(self, budget: str, succeeded: int, failed: int) -> BreakerState:
        """See Store.report_calls."""
        state: BreakerState = await self._db.value("report_calls", budget, succeeded, failed)
        return state

    # -- the governor -----------------------------------------------------------------------------------

    async def count_runs(self, runs: Mapping[str, Runs]) -> None:
        """See Store.count_runs."""
        if runs:
            await self._db.value("count_runs", _encode(dict(runs)).decode())

    async def governed(self, term: int) -> list[Governed]:
        """See Store.governed."""
        return [_governed(row) for row in await self._db.rows("governed", term)]

    async def govern(self, term: int, queue: str, governor: Governor) -> None:
        """See Store.govern."""
        await self._db.value("govern", term, queue, _encode(governor).decode())

    async def observe(self, latency: float) -> None:
        """See Store.observe."""
        await self._db.value("observe", float(latency))


def _record(row: Any) -> BudgetRecord:
    return record_of(BudgetRecord, row, burst=int(row["burst"]))


def _governed(row: Any) -> Governed:
    window = record_of(Window, row)
    known = None if row["state"] is None else _governor(row["state"])
    return Governed(row["queue"], window, row["rate_min"], row["rate_max"], known)
