"""What a run on the web comes to: rates, ratios, times of pages, aims. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from rich.table import Table

from bench.engine.figures import Aim, StoreReport, Where, at_least, at_most, ratio
from bench.engine.rounds import Rounds
from bench.engine.web.load import Times, Views

ALONE: Final = "alone"
VIEWED: Final = "viewed"
SINGLE: Final = "http_single"
BATCH: Final = "http_batch"
RATIO: Final = "viewed_vs_alone"
SLOWEST: Final = "slowest_p95_ms"
LABELS: Final = {
    ALONE: "worker, nobody looks",
    VIEWED: "worker, with viewers",
    SINGLE: "POST /api/jobs",
    BATCH: "POST /api/jobs/batch",
}


def about(plan: dict[str, Any]) -> str:
    """What was done, in a sentence."""
    return (
        f"{plan['jobs']:,} jobs in store, {plan['ready']:,} of them ready; pages and calls {plan['tries']} "
        f"times each while {plan['pace']:,} jobs/s run; {plan['viewers']} viewers; {plan['clients']} clients "
        f"enqueue, batches of {plan['http_batch']:,}; payload {plan['payload_bytes']} bytes"
    )


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How long one page or call took, in milliseconds."""

    p50: float
    p95: float
    p99: float
    worst: float
    tries: int


class WebReport(StoreReport, frozen=True, kw_only=True):
    """Everything measured on one store, and the time of each page and call by its path."""

    pages: dict[str, Spread]


def report(
    rounds: Rounds,
    times: Times,
    views: Sequence[Views],
    where: Where,
) -> WebReport:
    """The figures, the aims and what to know before trusting them."""
    rates = rounds.figures()
    ratios = {RATIO: ratio(rounds.rates(VIEWED), rounds.rates(ALONE))}
    pages = {path: spread(values) for path, values in times.ms.items()}
    aims: list[Aim] = [
        at_most(SLOWEST, max((page.p95 for page in pages.values()), default=0.0), 100),
        at_least(RATIO, ratios[RATIO].median, 0.95),
        at_least(SINGLE, rates[SINGLE].median, 3000),
        at_least(BATCH, rates[BATCH].median, 50_000),
    ]
    return WebReport(
        **msgspec.structs.asdict(where),
        rounds=rounds.done,
        rates=rates,
        ratios=ratios,
        cpu_per_1000_jobs={},
        aims=aims,
        notes=[*rounds.notes(), *_refusals(times, views)],
        pages=pages,
    )


def pages_table(store: WebReport) -> Table:
    """The time of each page and call; the slowest first: that is where to look."""
    table = Table(title=f"{store.store}: milliseconds", title_justify="left")
    table.add_column("page or call", no_wrap=True)
    for name in ("p50", "p95", "p99", "worst"):
        table.add_column(name, justify="right")
    for path, page in sorted(store.pages.items(), key=lambda each: -each[1].p95):
        table.add_row(path, *(f"{value:,.1f}" for value in (page.p50, page.p95, page.p99, page.worst)))
    return table


def spread(values: Sequence[float]) -> Spread:
    """The percentiles of some times."""
    ordered = sorted(values)

    def at(share: float) -> float:
        return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 2)

    return Spread(p50=at(0.5), p95=at(0.95), p99=at(0.99), worst=round(ordered[-1], 2), tries=len(ordered))


def _refusals(times: Times, views: Sequence[Views]) -> list[str]:
    said = [f"{path} answered {status}, so its time means nothing" for path, status in times.refused.items()]
    refused = sum(view.refused for view in views)
    if refused:
        said.append(f"{refused:,} of {sum(view.pages for view in views):,} refreshes of viewers were refused")
    if views and not any(view.messages for view in views):
        said.append("the viewers' streams sent nothing: was there anything to see?")
    return said
