"""Declarations of a worker to the store when it starts: budgets [F1] and schedules [K4]. What is there
already, and was changed by an operator, stays."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from windlass.core.counts import plural
from windlass.core.flow.rates import rate_text
from windlass.store.protocol import Store

if TYPE_CHECKING:
    from windlass.app import Windlass

logger: Final = logging.getLogger("windlass.worker")


async def declare(app: Windlass, store: Store) -> None:
    """Declare the app's budgets and seed its schedules."""
    await declare_budgets(app, store)
    await app.schedules.aseed(store)


async def declare_budgets(app: Windlass, store: Store) -> None:
    """Declare the app's budgets; warn of those that its tasks use and that are not declared, since their jobs
    will wait."""
    for budget in app._budgets.values():
        if budget.declared is not None:
            stored = await store.declare_budget(budget.declared)
            if (stored.rate, stored.burst) != (budget.declared.rate, budget.declared.burst):
                logger.warning(
                    "budget %s grants %s with a burst of %d, as stored, not %s and %d as the code says; to "
                    "change that: windlass budget set %s --rate %s --burst %d",
                    budget.name,
                    rate_text(stored.rate),
                    stored.burst,
                    rate_text(budget.declared.rate),
                    budget.declared.burst,
                    budget.name,
                    rate_text(budget.declared.rate),
                    budget.declared.burst,
                )
    used: dict[str, int] = {}
    for need in (need for task in app.tasks.values() for need in task.needs):
        used[need.budget] = max(need.n, used.get(need.budget, 0))
    if not used:
        return
    known = {budget.name: budget for budget in await store.budgets()}
    for name in sorted(used.keys() & known.keys()):
        if used[name] > known[name].burst:
            logger.warning(
                "budget %s holds %s at most, and a run of a task needs %d of it: such jobs, and those "
                "behind them, wait for ever; to change that: windlass budget set %s --burst %d",
                name,
                plural(known[name].burst, "token"),
                used[name],
                name,
                used[name],
            )
    for name in sorted(used.keys() - known.keys()):
        logger.warning(
            "budget %s is used by tasks but not declared, so their jobs wait; write "
            "app.budget(%r, rate=…), or: windlass budget set %s --rate 10/s",
            name,
            name,
            name,
        )
