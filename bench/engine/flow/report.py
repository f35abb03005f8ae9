"""What a run on flow comes to: rates, ratios, waits, aims. Nothing is measured here."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bench.engine.figures import Aim, Figure, StoreReport, Where, at_least, at_most, figure, ratio
from bench.engine.flow.scenarios import Thirds, Waits
from bench.engine.rounds import Rounds

LABELS: Final = {
    "claim_finish": "claim + finish",
    "claim_finish_held": "  beside held jobs",
    "claim_finish_no_budget": "claim + finish, again",
    "claim_finish_budget": "  a budget",
    "claim_finish_budget_by_key": "  a budget by key",
    "plain_enqueue": "bulk enqueue",
    "keyed_enqueue": "  with concurrency keys",
    "unkeyed": "worker, no keys",
    "many_keys": "  concurrency keys",
    "ordered": "  ordering keys",
    "fair": "  fair keys",
    "all_keys": "  a concurrency key each",
    "task_limit": "  a limit of the task",
    "queue_limit": "  a limit of the queue",
    "budget": "  a budget",
    "budget_by_key": "  a budget by key",
    "one_key": "  one concurrency key",
    "acquire": "tokens by hand",
}
KEYED: Final = (
    "many_keys", "all_keys", "ordered", "fair", "task_limit", "queue_limit", "budget", "budget_by_key"
)  # fmt: skip
RATIOS: Final = {
    "held_vs_none": ("claim_finish_held", "claim_finish"),
    "budget_vs_none": ("claim_finish_budget", "claim_finish_no_budget"),
    "budget_by_key_vs_none": ("claim_finish_budget_by_key", "claim_finish_no_budget"),
    "keyed_vs_plain_enqueue": ("keyed_enqueue", "plain_enqueue"),
    **{f"{name}_vs_unkeyed": (name, "unkeyed") for name in KEYED},
}
BARE: Final = "claim_finish"
"""How the names of the scenarios begin whose CPU and WAL are told: the others set their stage within."""
ACQUIRE: Final = "acquire"


def about(plan: dict[str, Any]) -> str:
    """What was done, in a sentence."""
    return (
        f"{plan['jobs']:,} jobs or {plan['seconds']:g} s each; {plan['held']:,} held at a key; "
        f"{plan['crowd']:,} of one key; with keys {plan['keyed']:,} jobs, limit 1, {plan['keys']} keys; "
        f"payload {plan['payload_bytes']} bytes; batches: enqueue {plan['enqueue_batch']:,}, claim "
        f"{plan['claim_batch']:,}"
    )


class Times(msgspec.Struct):
    """The waits that were measured once, apart from the rounds."""

    fair: Waits
    limited: Waits
    fires: list[float]
    pinned: Thirds


def report(
    rounds: Rounds,
    times: Times,
    where: Where,
) -> StoreReport:
    """Everything measured on one store, and the aims."""
    rates = rounds.figures()
    rates[ACQUIRE] = msgspec.structs.replace(rates[ACQUIRE], unit="calls/s")
    ratios = {name: ratio(rounds.rates(over), rounds.rates(under)) for name, (over, under) in RATIOS.items()}
    others = _others(times)
    wal = {name: rounds.wal(name) for name in rates if name.startswith(BARE)}
    return StoreReport(
        **msgspec.structs.asdict(where),
        rounds=rounds.done,
        rates=rates,
        ratios=ratios,
        cpu_per_1000_jobs={name: cpu for name, cpu in rounds.cpu().items() if name.startswith(BARE)},
        wal_bytes_per_job={name: figure(values, "bytes") for name, values in wal.items() if values},
        others=others,
        aims=_aims(ratios, others),
        notes=_notes(rounds, times),
    )


def _others(times: Times) -> dict[str, Figure]:
    waits = {
        "fair_wait": times.fair.answered,
        "fair_wait_from_call": times.fair.called,
        "limited_wait": times.limited.answered,
        "limited_wait_from_call": times.limited.called,
        "schedule_fire": times.fires,
    }
    others = {name: figure(values, "ms") for name, values in waits.items()}
    if times.pinned.rates:
        first, _, last = times.pinned.rates
        others["pinned_first_third"] = figure([first], "jobs/s")
        others["pinned_last_third"] = figure([last], "jobs/s")
        others["pinned_last_vs_first"] = figure([last / max(first, 1e-9)], "")
        others["pinned_dead_rows_per_job"] = figure([times.pinned.dead], "")
    return others


def _aims(ratios: dict[str, Figure], others: dict[str, Figure]) -> list[Aim]:
    """A wait is judged by its longest: that it is bounded is what is promised [C3]."""
    return [
        at_least("held_vs_none", ratios["held_vs_none"].median, 0.9),
        at_least("budget_vs_none", ratios["budget_vs_none"].median, 0.7),
        *(at_least(f"{name}_vs_unkeyed", ratios[f"{name}_vs_unkeyed"].median, 0.5) for name in KEYED),
        at_most("fair_wait_max_ms", others["fair_wait"].high, 100),
        at_most("limited_wait_max_ms", others["limited_wait"].high, 100),
        *(at_least(name, others[name].median, 0.9) for name in ("pinned_last_vs_first",) if name in others),
    ]


def _notes(rounds: Rounds, times: Times) -> list[str]:
    said = rounds.notes()
    for name, waits in (("fair", times.fair), ("limited", times.limited)):
        if waits.ran_out:
            said.append(f"{name}_wait: the jobs of the great key ran out before all single jobs were timed")
    return said
