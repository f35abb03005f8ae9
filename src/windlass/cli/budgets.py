"""The verbs about budgets: budgets lists them; budget sets, drains, takes from and removes one [F1]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from windlass.cli.verbs import command, table
from windlass.core.counts import plural
from windlass.core.flow.rates import rate_text
from windlass.operations import budgets as operations
from windlass.presentation.text import capped, span
from windlass.store.records import BudgetRecord

COLUMNS: Final = ("budget", ">rate", "??>burst", ">tokens", "?used", "?breaker", "?>paused for", ">waiting")
"""The columns of a budget wherever budgets are listed; see `budget_row`."""


def budget_row(budget: BudgetRecord) -> Sequence[object]:
    """A budget as a row under COLUMNS. With a key, each of its values has tokens of its own."""
    return (
        budget.name,
        rate_text(budget.rate) + (f" per {budget.key}" if budget.key else ""),
        f"{budget.burst:,}",
        f"{max(budget.tokens, 0.0):,.1f}".removesuffix(".0"),
        cap_in_words(budget),
        breaker_in_words(budget),
        span(budget.paused_for) if budget.paused_for > 0 else None,
        capped(budget.waiting),
    )


def cap_in_words(budget: BudgetRecord) -> str:
    """Say what was used of its cap; nothing where it has none. With a key, each of its values has that
    cap."""
    if budget.cap is None:
        return ""
    cap = f"{budget.cap:,} per {budget.cap_per}"
    return f"up to {cap} per {budget.key}" if budget.key else f"{budget.used:,.0f} of {cap}"


def breaker_in_words(budget: BudgetRecord) -> str:
    """How its breaker stands; nothing where it has none."""
    if not budget.breaker:
        return ""
    return f"{budget.state}, {budget.failures} of {plural(budget.breaker, 'failure')} in a row"


@click.group()
def budget() -> None:
    """Set, drain, take from and remove single budgets, for the whole cluster and without a restart."""


budgets: Final = command(operations.list_budgets, table(COLUMNS, budget_row))
budget.add_command(command(operations.set_budget, table(COLUMNS, budget_row)))
budget.add_command(command(operations.drain_budget))
budget.add_command(command(operations.take_budget, ok=lambda answer: answer.granted))
budget.add_command(command(operations.remove_budget))
