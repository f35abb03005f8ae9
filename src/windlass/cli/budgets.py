"""The verbs about budgets: budgets lists them, budget sets, drains, takes from and removes single ones [F1].

What a worker's code says about a budget is its default and never overwrites what was set here.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import click

from windlass.cli.options import Span, on_store, with_json
from windlass.cli.output import print_answer, print_json, print_listing, print_table
from windlass.cli.settings import change, changes_of, setting_options
from windlass.cli.target import Target, refusals
from windlass.core.counts import plural
from windlass.core.flow.rates import rate_text
from windlass.core.names import check_name
from windlass.presentation import audit
from windlass.presentation.flow import BudgetShape
from windlass.presentation.text import capped, one_line, span
from windlass.store.fields import NewBudget
from windlass.store.protocol import Store
from windlass.store.records import BudgetRecord

T = TypeVar("T")
COLUMNS: Final = ("budget", ">rate", "??>burst", ">tokens", "?used", "?breaker", "?>paused for", ">waiting")
"""What is shown of a budget wherever budgets are listed; see `budget_row`."""


@click.command()
@with_json
def budgets(target: Target, as_json: bool) -> None:
    """Every budget: its rate, the tokens it has, its breaker, and how many jobs wait for it."""
    found = target.run(lambda store: store.budgets())
    print_listing(as_json, "budgets", found, BudgetShape.of, COLUMNS, budget_row)


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
    """What was used of its cap; nothing where it has none. With a key, each of its values has that cap."""
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


_name = click.argument("name")


@budget.command("set")
@_name
@setting_options(NewBudget)
@with_json
def set_(target: Target, name: str, as_json: bool, **given: Any) -> None:
    """Change a budget while it is in use, or make it, and print it; what is not given stays as it is."""
    check_name("budget", name)
    changes = changes_of(NewBudget, given)
    record = change(target, name, changes, lambda store: store.set_budget, audit.set_budget)
    if as_json:
        print_json({"budget": BudgetShape.of(record)})
    else:
        print_table(COLUMNS, [budget_row(record)])


@budget.command()
@_name
@click.option(
    "--for", "pause", type=Span(), default="0s", metavar="DURATION", help="Grant nothing for so long. [0s]"
)
@click.option("--key", metavar="KEY", help="Only the bucket of this key. [all of its buckets]")
@on_store
def drain(target: Target, name: str, pause: float, key: str | None) -> None:
    """Take all tokens away, as after a 429 of the upstream; it refills from the end of the pause on."""
    which = name if key is None else f"{name}, key {key!r}"
    then = f"grants nothing for {span(pause)}" if pause else "refills from now on"
    _on_budget(
        target, name, lambda store: store.drain(name, pause, key), lambda _: [audit.budget(which, "drained")]
    )
    click.echo(f"{one_line(which)} is drained and {then}")


@budget.command()
@_name
@click.option(
    "-n", "n", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="How many."
)
@click.option("--key", metavar="KEY", help="The bucket of this key. [the one for all]")
@with_json
def take(target: Target, name: str, n: int, key: str | None, as_json: bool) -> None:
    """Take tokens by hand, all or none; exit code 1 where it has not so many now."""
    taken = _on_budget(
        target,
        name,
        lambda store: store.take(name, n, key or ""),
        lambda taken: [audit.budget(name, f"took {plural(n, 'token')}")] if taken.granted else [],
    )
    wait = None if math.isinf(taken.wait) else round(taken.wait, 3)
    said = f"took {plural(n, 'token')} of {name}"
    if not taken.granted:
        again = "it will never have so many" if wait is None else f"ask again in {span(wait)}"
        said = f"{name} does not grant {plural(n, 'token')} now; {again}"
    shape = {"granted": taken.granted, "wait": None if taken.granted else wait}
    print_answer(as_json, shape, said, ok=taken.granted)


@budget.command()
@_name
@on_store
def remove(target: Target, name: str) -> None:
    """Remove a budget. Jobs that need it wait until it is there again."""
    _on_budget(target, name, lambda store: store.drop_budget(name), lambda _: [audit.budget(name, "removed")])
    click.echo(
        f"{name} is removed; jobs that need it wait until a worker that declares it starts, or until "
        f"`windlass budget set {name} --rate RATE`"
    )


def _on_budget(
    target: Target,
    name: str,
    work: Callable[[Store], Awaitable[T]],
    entries: Callable[[T], Iterable[audit.AuditEntry]],
) -> T:
    """Do something with a budget; where that makes no sense, or there is none, say so in one line."""

    async def checked(store: Store) -> T:
        known = [record.name for record in await store.budgets()]
        if name not in known:
            raise click.ClickException(
                f"no budget {one_line(repr(name), 80)}; there are {', '.join(known) or 'none'}; "
                "`windlass budget set NAME --rate RATE` makes one"
            )
        return await work(store)

    with refusals():
        return target.act(checked, entries)
