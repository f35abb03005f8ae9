"""How far each thing grows. Decided before the run."""

from __future__ import annotations

from bench.engine.plan import Plan, changed


class GrowthPlan(Plan, frozen=True, kw_only=True):
    """The sizes of a run: of each thing there are 0, then 1,000, 10,000 and so on, up to so many."""

    jobs: int = 1_000_000
    """Jobs that are scheduled, held or dead; of dead ones a tenth."""
    queues: int = 10_000
    schedules: int = 10_000
    parts: int = 100_000
    """Of one parent."""
    seconds: float = 2.0
    """For which a worker of many queues is watched."""
    rounds: int = 5
    """How often each call is timed, at each size."""
    budget: float = 900.0
    enqueue_batch: int = 5_000


def make_growth_plan(*, quick: bool = False, **given: float | None) -> GrowthPlan:
    """The default plan or the quick one, as the flags change it."""
    plan = GrowthPlan()
    if quick:
        plan = GrowthPlan(jobs=100_000, queues=1_000, schedules=1_000, parts=10_000, budget=240.0)
    return changed(plan, **given)


def sizes(most: int) -> list[int]:
    """0, 1,000, 10,000 and so on; the last one is `most`."""
    found, size = [0], 1_000
    while size < most:
        found.append(size)
        size *= 10
    return [*found, most]
