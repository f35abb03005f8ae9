"""How much to measure: how many jobs, for how long, how often, in which batches. Decided before the run."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

P = TypeVar("P", bound="Plan")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run. The sizes of batches are part of what the figures mean, so they are printed, too."""

    jobs: int = 50_000
    """Jobs of one scenario that counts jobs; it also ends after `seconds`."""

    seconds: float = 3.0
    """Length of one scenario that runs by the clock, and the longest any other may take."""

    rounds: int = 7
    """How often everything is repeated; figures are medians over the rounds."""

    budget: float = 165.0
    """Seconds after which no further round begins, whatever the machine."""

    payload_bytes: int = 100
    enqueue_batch: int = 1000
    claim_batch: int = 500
    reference_batch: int = 100
    singles: int = 500
    window: int = 10_000
    """How far the producer may run ahead of the worker where both work at once."""

    def conditions(self) -> dict[str, Any]:
        """What the figures depend on, for the report."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def changed(plan: P, **given: float | None) -> P:
    """The plan with what was given; None is what was not."""
    return msgspec.structs.replace(
        plan, **{name: value for name, value in given.items() if value is not None}
    )


def make_plan(*, quick: bool = False, jobs: int | None = None, **given: float | None) -> Plan:
    """The default plan (under 3 minutes) or the quick one (under 40 seconds), as the flags change it."""
    plan = Plan(jobs=10_000, seconds=1.0, rounds=3, budget=32.0, singles=100) if quick else Plan()
    if jobs is not None:
        plan = changed(plan, jobs=jobs, singles=min(plan.singles, jobs))
    return changed(plan, **given)
