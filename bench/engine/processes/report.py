"""What a run with many worker processes comes to. Nothing is measured here."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from bench.engine.figures import Figure, StoreReport, Where, at_most, figure
from bench.engine.processes.plan import ProcessPlan

Taken: TypeAlias = dict[str, list[float]]
"""By name: `connections_idle_16` and so on, one value a round."""

UNITS: Final = {
    "connections": "connections",
    "worker_memory": "MiB (PSS)",
    "server_memory": "MiB (PSS)",
    "worker_cpu": "% of a core",
    "server_cpu": "% of a core",
    "transactions": "transactions/s",
}
PER_PROCESS: Final = 1.5
"""Connections for each worker process, the supervisor's included, where there are MANY."""
MANY: Final = 16


def about(plan: dict[str, Any]) -> str:
    """What was done, in a sentence."""
    counts = ", ".join(map(str, plan["processes"]))
    return (
        f"{counts} worker processes of one host: {plan['seconds']:g} s with nothing to do, then as long with "
        f"{plan['pace']} jobs/s; the supervisor is counted in, the producer is not"
    )


def report(taken: Taken, plan: ProcessPlan, rounds: int, where: Where) -> StoreReport:
    """The figures, and whether a process keeps to its share of connections."""
    found = {name: figure(values, UNITS[name.rsplit("_", 2)[0]]) for name, values in taken.items()}
    counts = {name: each for name, each in found.items() if name.startswith("connections")}
    rates: dict[str, Figure] = counts or {
        name: each for name, each in found.items() if name.startswith("worker_memory")
    }
    return StoreReport(
        **msgspec.structs.asdict(where),
        rounds=rounds,
        rates=rates,
        ratios={},
        cpu_per_1000_jobs={},
        aims=[
            at_most(f"{name} per process", found[name].median / n, PER_PROCESS)
            for n in plan.processes
            for name in (f"connections_idle_{n}", f"connections_load_{n}")
            if n >= MANY and name in found
        ],
        others={name: each for name, each in found.items() if name not in rates},
    )
