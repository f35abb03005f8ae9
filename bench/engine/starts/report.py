"""What a run on starts comes to. Nothing is measured here."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from bench.engine.figures import StoreReport, Where, at_most, figure
from bench.engine.rounds import notes
from bench.engine.starts.plan import APPS, StartPlan

Values: TypeAlias = dict[str, list[float]]
LABELS: Final[dict[str, str]] = {}
"""Every figure bears its own name."""
SOON: Final = 50.0
"""Milliseconds after which a killed child should be replaced."""
OWN: Final = 5.0
"""MiB that a forked child may have of its own."""


def about(plan: dict[str, Any]) -> str:
    """What was done, in a sentence."""
    return (
        f"{plan['few']} and {plan['many']} idle children, and one that is killed while it runs a job; "
        "`small` imports Windlass alone, `heavy` Django, SQLAlchemy and pydantic as well"
    )


def report(values: Values, rounds: int, plan: StartPlan, where: Where) -> StoreReport:
    """Everything measured on one store, and the aims."""
    found = {name: figure(taken, "MiB" if "MiB" in name else "ms") for name, taken in values.items()}
    aims = [at_most(name, found[name].median, SOON) for app in APPS if (name := f"{app} fork: killed to up")]
    aims += [
        at_most(name, found[name].median, OWN)
        for app in APPS
        for n in (plan.few, plan.many)
        if (name := f"{app} fork: MiB that each of {n} has alone")
    ]
    return StoreReport(
        **msgspec.structs.asdict(where),
        rounds=rounds,
        rates={name: one for name, one in found.items() if one.unit == "ms"},
        ratios={},
        cpu_per_1000_jobs={},
        aims=aims,
        others={name: one for name, one in found.items() if one.unit != "ms"},
        notes=notes(rounds, plan.rounds),
    )
