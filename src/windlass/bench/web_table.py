"""The report of `bench web` for people: rates, the time of each page and call, and the aims."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

from windlass.bench.figures import Report, StoreReport
from windlass.bench.table import print_report, rates_table, spread
from windlass.bench.web_report import ALONE, BATCH, SINGLE, VIEWED, WebReport

LABELS: Final = {
    ALONE: "worker, nobody looks",
    VIEWED: "worker, with viewers",
    SINGLE: "POST /api/jobs",
    BATCH: "POST /api/jobs/batch",
}


def show(report: Report, console: Console) -> None:
    """Print the report."""
    plan = report.plan
    about = (
        f"{plan['jobs']:,} jobs in store, {plan['ready']:,} of them ready; pages and calls {plan['tries']} "
        f"times each while {plan['pace']:,} jobs/s run; {plan['viewers']} viewers; {plan['clients']} clients "
        f"enqueue, batches of {plan['http_batch']:,}; payload {plan['payload_bytes']} bytes"
    )
    print_report(report, console, about, _rates, _lines)
    for store in report.stores:
        if isinstance(store, WebReport):
            console.print(_pages(store))


def _rates(store: StoreReport) -> Table:
    table = rates_table(store, "jobs per second", (), "")
    for name, rate in store.rates.items():
        table.add_row(LABELS.get(name, name), *spread(rate))
    return table


def _lines(store: StoreReport) -> list[str]:
    lines = []
    if store.settings:
        lines.append("settings: " + ", ".join(f"{name} = {value}" for name, value in store.settings.items()))
    for name, figure in store.ratios.items():
        lines.append(f"{name}: {figure.median:g} {figure.unit} ({figure.low:g} to {figure.high:g})")
    return lines + [f"note: {note}" for note in store.notes]


def _pages(store: WebReport) -> Table:
    """The slowest first: that is where to look."""
    table = Table(title=f"{store.store}: milliseconds", title_justify="left")
    table.add_column("page or call", no_wrap=True)
    for name in ("p50", "p95", "p99", "worst"):
        table.add_column(name, justify="right")
    for path, page in sorted(store.pages.items(), key=lambda each: -each[1].p95):
        table.add_row(path, *(f"{value:,.1f}" for value in (page.p50, page.p95, page.p99, page.worst)))
    return table
