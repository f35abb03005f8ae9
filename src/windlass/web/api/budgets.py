"""The endpoints about budgets."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from windlass.store.fields import NewBudget
from windlass.web.api.changes import BudgetChanges, given
from windlass.web.api.endpoint import Call, Limit, Nothing, Removed, Table, Text
from windlass.web.service.shapes import BudgetView, KeyUsage


class Budgets(msgspec.Struct, frozen=True):
    """Every budget, by name."""

    budgets: list[BudgetView]


class Top(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many keys."""

    limit: Limit = 100


class Keys(msgspec.Struct, frozen=True):
    """Keys of a budget and the tokens they have used, most first; the bucket for all has the key ""."""

    keys: list[KeyUsage]


class Drain(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """For how many seconds to grant no tokens, and for which key; null means all keys."""

    pause: Annotated[float, msgspec.Meta(ge=0, le=86_400 * 30)] = 0.0
    key: Text | None = None


budgets: Final = Table("budgets")


@budgets.get("/budgets")
async def list_budgets(call: Call[Nothing, None]) -> Budgets:
    """List budgets"""
    return Budgets(await call.service.budgets.all(call.principal))


@budgets.get("/budgets/{name}/usage")
async def list_usage(call: Call[Top, None]) -> Keys:
    """List the keys that have used most of a budget in the present period of its cap"""
    return Keys(await call.service.budgets.usage(call.principal, call.name, call.query.limit))


@budgets.put("/budgets/{name}")
async def set_budget(call: Call[Nothing, BudgetChanges]) -> BudgetView:
    """Change a budget, or create it"""
    return await call.service.budgets.set(call.principal, call.name, given(NewBudget, call.body))


@budgets.post("/budgets/{name}/drain")
async def drain_budget(call: Call[Nothing, Drain]) -> BudgetView:
    """Remove all tokens of a budget, and grant none for a while"""
    return await call.service.budgets.drain(call.principal, call.name, call.body.pause, call.body.key)


@budgets.delete("/budgets/{name}")
async def remove_budget(call: Call[Nothing, None]) -> Removed:
    """Remove a budget; jobs that need it wait until it is declared again"""
    await call.service.budgets.remove(call.principal, call.name)
    return Removed(call.name)
