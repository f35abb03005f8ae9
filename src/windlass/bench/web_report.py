"""What a run on the web comes to: rates, ratios, times of pages, aims. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.bench.figures import Aim, StoreReport, Where, at_least, at_most, ratio
from windlass.bench.rounds import Rounds
from windlass.bench.web_load import Times, Views

ALONE: Final = "alone"
VIEWED: Final = "viewed"
SINGLE: Final = "http_single"
BATCH: Final = "http_batch"
RATIO: Final = "viewed_vs_alone"
SLOWEST: Final = "slowest_p95_ms"


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
