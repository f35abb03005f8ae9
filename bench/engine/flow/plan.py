"""How much of flow control to measure: how many jobs, how many wait aside, how often. Decided before the
run."""

from __future__ import annotations

from bench.engine.plan import Plan, changed


class FlowPlan(Plan, frozen=True, kw_only=True):
    """The size of a run with keys, budgets and schedules."""

    jobs: int = 50_000
    seconds: float = 5.0
    rounds: int = 7
    budget: float = 3600.0
    singles: int = 2000
    """Tokens that are acquired by hand."""
    held: int = 100_000
    """Jobs that wait for one concurrency key while others are claimed and finished."""
    crowd: int = 1_000_000
    """Jobs of one key, beside which a job of another key is timed."""
    keyed: int = 5000
    """Jobs of a scenario in which each one has a key, and of the one without beside it."""
    keys: int = 100
    tries: int = 30
    """How often a single job is timed, and how many schedules are."""
    patience: float = 60.0
    """Seconds after which a job that should start is given up."""


def make_flow_plan(*, quick: bool = False, jobs: int | None = None, **given: float | None) -> FlowPlan:
    """The default plan (a million jobs of one key) or the quick one (200,000), as the flags change it."""
    plan = FlowPlan()
    if quick:
        plan = FlowPlan(
            jobs=10_000, seconds=2.0, rounds=3, budget=300.0, singles=500, crowd=200_000, keyed=1000, tries=20
        )
    if jobs is not None:
        fewer = {name: min(getattr(plan, name), jobs) for name in ("singles", "keyed", "enqueue_batch")}
        plan = changed(plan, jobs=jobs, **fewer)
    return changed(plan, **given)
