"""What a run on handlers comes to: rates, their ratio, processor time a job. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from bench.engine.figures import StoreReport, Where, at_least, figure, ratio
from bench.engine.rounds import Rounds

TASKS: Final = {"async": "bench.async", "plain": "bench.plain"}
LABELS: Final = {"async": "async def, on the loop", "plain": "def, in threads"}
SHARE: Final = 0.7
"""The rate that plain handlers should have, of that of `async def` ones."""


def about(plan: dict[str, Any]) -> str:
    """What was done, in a sentence."""
    return (
        f"a backlog of {plan['jobs']:,} jobs that do nothing, one worker process, 64 slots; payload "
        f"{plan['payload_bytes']} bytes; µs are processor time of that process for each job"
    )


def report(rounds: Rounds, cpu: Mapping[str, Sequence[float]], where: Where) -> StoreReport:
    """Everything measured on one store."""
    share = ratio(rounds.rates("plain"), rounds.rates("async"))
    return StoreReport(
        **msgspec.structs.asdict(where),
        rounds=rounds.done,
        rates=rounds.figures(),
        ratios={"plain_vs_async": share},
        cpu_per_1000_jobs={},
        aims=[at_least("plain_vs_async", share.median, SHARE)],
        others={f"{name}_cpu": figure(values, "µs") for name, values in cpu.items()},
        notes=rounds.notes(),
    )
