"""How many worker processes to count connections and memory of, and for how long. Decided before the run."""

from __future__ import annotations

from bench.engine.plan import Plan, changed


class ProcessPlan(Plan, frozen=True, kw_only=True):
    """The size of a run with many worker processes."""

    processes: tuple[int, ...] = (1, 16, 60)
    seconds: float = 10.0
    """Of standing idle, and as long under load."""
    rounds: int = 1
    budget: float = 1800.0
    pace: int = 200
    """Jobs a second under load, one call each."""


def make_process_plan(
    *, quick: bool = False, processes: tuple[int, ...] = (), **given: float | None
) -> ProcessPlan:
    """The default plan or the quick one, as the flags change it."""
    plan = ProcessPlan(processes=(1, 4), seconds=4.0) if quick else ProcessPlan()
    return changed(ProcessPlan(processes=processes or plan.processes, seconds=plan.seconds), **given)
