"""What a run on the stores comes to: rates, ratios, WAL, dead tuples, aims. Nothing is measured here."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bench.engine.figures import Aim, Figure, StoreReport, Where, at_least, at_most, figure, ratio
from bench.engine.rounds import Rounds
from windlass.store.factory import POSTGRES

LABELS: Final = {
    "bulk_enqueue": "bulk enqueue",
    "raw_insert": "  raw INSERT … unnest",
    "claim_finish": "claim + finish",
    "skip_locked": "  SKIP LOCKED loop",
    "skip_locked_same_batch": "  SKIP LOCKED loop, our batch size",
    "single_enqueue": "single enqueue",
    "both_at_once": "both at once, last third",
    "both_at_once_first_third": "both at once, first third",
    "both_at_once_second_third": "both at once, second third",
    "both_at_once_pinned": "snapshot pinned, last third",
    "both_at_once_pinned_first_third": "snapshot pinned, first third",
    "both_at_once_pinned_second_third": "snapshot pinned, second third",
}
LIFE: Final = ("enqueue", "claim", "finish")
"""The steps of a job's life, and the names of their WAL."""
PINNED: Final = {"pinned_vs_unpinned": ("both_at_once_pinned", "both_at_once")}
BY_HAND: Final = {
    "bulk_vs_raw": ("bulk_enqueue", "raw_insert"),
    "claim_finish_vs_skip_locked": ("claim_finish", "skip_locked"),
    "claim_finish_vs_skip_locked_same_batch": ("claim_finish", "skip_locked_same_batch"),
}
"""Only PostgreSQL has something beside it."""


def about(plan: dict[str, Any]) -> str:
    """What was done, in a sentence."""
    return (
        f"{plan['jobs']:,} jobs or {plan['seconds']:g} s each; payload {plan['payload_bytes']} bytes; "
        f"batches: enqueue {plan['enqueue_batch']:,}, claim {plan['claim_batch']:,}, SKIP LOCKED "
        f"{plan['reference_batch']:,}; one producer, one worker"
    )


def report(rounds: Rounds, dead: dict[str, int], where: Where) -> StoreReport:
    """Everything measured on one store, and the aims."""
    on_postgres = where.store == POSTGRES
    pairs = {**BY_HAND, **PINNED} if on_postgres else PINNED
    ratios = {name: ratio(rounds.rates(over), rounds.rates(under)) for name, (over, under) in pairs.items()}
    names = (*LIFE, "total", "single_enqueue") if on_postgres else ()
    wal = {name: figure(rounds.wal(name), "bytes") for name in names}
    rates = rounds.figures()
    sqlite_aims = [at_least("claim_finish", rates["claim_finish"].median, 50_000)]
    return StoreReport(
        **msgspec.structs.asdict(where),
        rounds=rounds.done,
        rates=rates,
        ratios=ratios,
        cpu_per_1000_jobs=rounds.cpu(),
        notes=rounds.notes(),
        wal_bytes_per_job=wal,
        dead_tuples=dead,
        aims=_aims(ratios, wal, dead) if on_postgres else sqlite_aims,
    )


def _aims(ratios: dict[str, Figure], wal: dict[str, Figure], dead: dict[str, int]) -> list[Aim]:
    return [
        at_least("bulk_vs_raw", ratios["bulk_vs_raw"].median, 0.6),
        at_least("claim_finish_vs_skip_locked", ratios["claim_finish_vs_skip_locked"].median, 2),
        at_least("pinned_vs_unpinned", ratios["pinned_vs_unpinned"].median, 0.95),
        at_most("wal_bytes_per_job", wal["total"].median, 500),
        at_most("dead_tuples", sum(dead.values()), 0),
    ]
