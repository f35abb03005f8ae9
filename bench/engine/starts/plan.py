"""How many starts to measure, and with how many children memory is. Decided before the run."""

from __future__ import annotations

from typing import Final

from bench.engine.plan import Plan, changed

WAYS: Final[dict[str, tuple[str, ...]]] = {"fork": ("--start", "fork"), "exec": ("--start", "exec")}
"""How children are started, and the flags for that."""
APPS: Final = ("small", "heavy")


class StartPlan(Plan, frozen=True, kw_only=True):
    """The size of a run."""

    rounds: int = 5
    budget: float = 600.0
    few: int = 2
    many: int = 16
    settle: float = 3.0
    """Seconds after which idle children have all they need."""


def make_start_plan(*, quick: bool = False, **given: float | None) -> StartPlan:
    """The default plan or the quick one, as the flags change it."""
    return changed(StartPlan(rounds=2, many=4, settle=1.0) if quick else StartPlan(), **given)
