"""Budgets: what each has left; setting, draining and removing them, and taking tokens by hand [F1].

What a worker's code says about a budget is its default and never overwrites what was set here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self, TypeAlias

import msgspec

from windlass.core.counts import plural
from windlass.core.flow.caps import with_period
from windlass.core.flow.rates import rate_text
from windlass.core.names import check_name
from windlass.operations.operation import Help, Limit, Name, Ops, Removed, Settings, Subject, Text
from windlass.operations.refusals import NotFound, check_bounds, refusing
from windlass.presentation.audit import changes_in_words
from windlass.presentation.text import iso, shaped, span
from windlass.presentation.waiting import budget_in_words
from windlass.store.fields import NewBudget
from windlass.store.records import BudgetRecord

budgets: Final = Subject("budgets")


class BudgetView(BudgetRecord, frozen=True, kw_only=True):
    """A budget: its settings, how it stands, and why it grants no tokens, if so. Rates are
    in tokens a second."""

    rate_text: str
    state_text: str

    @classmethod
    def of(cls, budget: BudgetRecord) -> Self:
        """Return the view of a record."""
        given = {"tokens": round(budget.tokens, 3), "paused_for": round(budget.paused_for, 3)}
        words = {"rate_text": rate_text(budget.rate), "state_text": budget_in_words(budget)}
        return shaped(cls, budget, **given, **words)


class Budgets(msgspec.Struct, frozen=True):
    """Every budget, by name."""

    budgets: list[BudgetView]


class KeyUsage(msgspec.Struct, frozen=True):
    """The use of a budget by one key in this period, and when that ends."""

    key: str
    used: float
    until: str | None


class Keys(msgspec.Struct, frozen=True):
    """Keys of a budget and the tokens they have used, most first; the bucket for all has the key ""."""

    keys: list[KeyUsage]


class Tokens(msgspec.Struct, frozen=True):
    """The answer to a take: granted or not; if not, after how many seconds to ask again, null for never."""

    granted: bool
    wait: float | None


Changes: TypeAlias = Annotated[Mapping[str, Any], Settings(NewBudget)]
MAX_PAUSE: Final = 86_400 * 30
"""Seconds for which a drained budget grants nothing, at most."""
Pause: TypeAlias = Annotated[
    float, msgspec.Meta(ge=0, le=MAX_PAUSE), Help("Grant nothing for so long.", unit="time", option="--for")
]
OneKey: TypeAlias = Annotated[Text | None, Help("Only the bucket of this key. [all of its buckets]")]


@budgets.get("/budgets")
async def list_budgets(ops: Ops) -> Budgets:
    """List budgets

    Each with its rate, the tokens it has, its breaker, and how many jobs wait for it."""
    found = await ops.shared("budgets", 1.0, lambda store: store.budgets())
    return Budgets([BudgetView.of(budget) for budget in found])


@budgets.get("/budgets/{name}/usage")
async def list_usage(ops: Ops, name: Name, limit: Limit = 100) -> Keys:
    """List the keys that have used most of a budget in the present period of its cap"""
    await find(ops, name)
    found = await ops.store.usage(name, limit)
    return Keys([KeyUsage(each.key, each.used, iso(each.until)) for each in found])


@budgets.put("/budgets/{name}")
async def set_budget(ops: Ops, name: Name, changes: Changes) -> BudgetView:
    """Change a budget while it is in use, or create it

    What is not given stays as it is."""
    check_name("budget", name)
    with refusing():
        changes = with_period(changes)
    check_bounds(changes)
    with refusing():
        record = await ops.store.set_budget(name, changes)
    ops.did(f"budget {name}: set: {changes_in_words(changes)}")
    return BudgetView.of(record)


@budgets.post("/budgets/{name}/drain")
async def drain_budget(ops: Ops, name: Name, pause: Pause = 0.0, key: OneKey = None) -> BudgetView:
    """Remove all tokens of a budget, and grant none for a while

    As after a 429 of the upstream. It refills from the end of the pause on."""
    await find(ops, name)
    await drain(ops, name, pause, key)
    return await find(ops, name)


@budgets.command()
async def take_budget(
    ops: Ops,
    name: Name,
    n: Annotated[int, msgspec.Meta(ge=1), Help("How many.", option="-n")] = 1,
    key: Annotated[str, Help("The bucket of this key. [the one for all]")] = "",
) -> Tokens:
    """Take tokens by hand, all or none

    Exit code 1 where it has not so many now."""
    await find(ops, name)
    with refusing():
        taken = await ops.store.take(name, n, key)
    tokens = plural(n, "token")
    if taken.granted:
        ops.did(f"budget {name}: took {tokens}", said=f"took {tokens} of {name}")
        return Tokens(True, None)
    wait = None if math.isinf(taken.wait) else round(taken.wait, 3)
    again = "it will never have so many" if wait is None else f"ask again in {span(wait)}"
    ops.said = f"{name} does not grant {tokens} now; {again}"
    return Tokens(False, wait)


@budgets.delete("/budgets/{name}")
async def remove_budget(ops: Ops, name: Name) -> Removed:
    """Remove a budget; jobs that need it wait until it is declared again"""
    await find(ops, name)
    await ops.store.drop_budget(name)
    said = (
        f"{name} is removed; jobs that need it wait until a worker that declares it starts, or until "
        f"`windlass budget set {name} --rate RATE`"
    )
    ops.did(f"budget {name}: removed", said=said)
    return Removed(name)


async def drain(ops: Ops, name: str, pause: float, key: str | None) -> None:
    """Remove all tokens of a budget; handles call it, too. This process hands out no more of those that it
    has taken already, also where the store cannot be told."""
    try:
        await ops.store.drain(name, pause, key)
    finally:
        ops.app._store_handle().tokens.void(name, key)
    which = name if key is None else f"{name}, key {key!r}"
    then = f"grants nothing for {span(pause)}" if pause else "refills from now on"
    ops.did(f"budget {which}: drained", said=f"{which} is drained and {then}")


async def find(ops: Ops, name: str) -> BudgetView:
    """Return a budget. Raises NotFound."""
    known = {record.name: record for record in await ops.store.budgets()}
    if name not in known:
        raise NotFound(
            f"no budget {name[:80]!r}; there are {', '.join(known) or 'none'}; "
            "`windlass budget set NAME --rate RATE` makes one"
        )
    return BudgetView.of(known[name])
