"""How much of Mission Control to measure: how many jobs are in store, who looks, how often. Decided before
the run."""

from __future__ import annotations

from typing import Final

from bench.engine.plan import Plan, changed


class WebPlan(Plan, frozen=True, kw_only=True):
    """The size of a run with a web server."""

    jobs: int = 1_000_000
    """Jobs in store while pages are timed; most of them have finished."""
    ready: int = 50_000
    scheduled: int = 5000
    dead: int = 2000
    retrying: int = 500
    running: int = 100
    parts: int = 2000
    """Of one parent."""
    minutes: int = 1440
    """For which there are rollups, each of ten tasks in four queues."""
    events: int = 5000
    seconds: float = 5.0
    rounds: int = 5
    budget: float = 1800.0
    enqueue_batch: int = 5000
    claim_batch: int = 1000
    tries: int = 100
    """How often each page and each call is timed."""
    pace: int = 1000
    """Jobs a second that run meanwhile."""
    viewers: int = 3
    look: float = 2.0
    """Seconds between two refreshes of a viewer, besides its stream."""
    clients: int = 32
    """Connections that enqueue over HTTP at once."""
    http_batch: int = 500


_KINDS: Final = ("ready", "scheduled", "dead", "retrying", "running")


def make_web_plan(*, quick: bool = False, jobs: int | None = None, **given: float | None) -> WebPlan:
    """The default plan (a million jobs in store) or the quick one (100,000), as the flags change it."""
    plan = WebPlan()
    if quick:
        plan = WebPlan(jobs=100_000, ready=5000, minutes=60, seconds=2.0, rounds=2, tries=20, budget=240.0)
    if jobs is not None:
        share = {name: _share(plan, name, jobs) for name in _KINDS}
        less = {name: min(getattr(plan, name), jobs) for name in ("parts", "events")}
        plan = changed(plan, jobs=jobs, **share, **less)
    return changed(plan, **given)


def _share(plan: WebPlan, name: str, jobs: int) -> int:
    """As large a part of fewer jobs as it was of the planned ones, but never none."""
    planned: int = getattr(plan, name)
    return max(planned * jobs // plan.jobs, 1)
