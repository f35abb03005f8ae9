"""The report of `bench flow` for people: one table per store, and the aims with what was reached."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

from windlass.bench.figures import Cpu, Report, StoreReport
from windlass.bench.table import print_report, rates_table, spread

LABELS: Final = {
    "claim_finish": "claim + finish",
    "claim_finish_blocked": "  beside blocked jobs",
    "claim_finish_no_budget": "claim + finish, again",
    "claim_finish_budget": "  a budget",
    "claim_finish_budget_by_key": "  a budget by key",
    "plain_enqueue": "bulk enqueue",
    "keyed_enqueue": "  with concurrency keys",
    "unkeyed": "worker, no keys",
    "many_keys": "  concurrency keys",
    "ordered": "  ordering keys",
    "fair": "  fair keys",
    "one_key": "  one concurrency key",
    "acquire": "tokens by hand",
}


def show(report: Report, console: Console) -> None:
    """Print the report."""
    plan = report.plan
    about = (
        f"{plan['jobs']:,} jobs or {plan['seconds']:g} s each; {plan['blocked']:,} blocked; "
        f"{plan['held']:,} held by one key; with keys {plan['keyed']:,} jobs, limit 1, {plan['keys']} keys; "
        f"payload {plan['payload_bytes']} bytes; batches: enqueue {plan['enqueue_batch']:,}, claim "
        f"{plan['claim_batch']:,}"
    )
    print_report(report, console, about, _rates, _lines)


def _rates(store: StoreReport) -> Table:
    caption = "client, server: µs of CPU time per job"
    table = rates_table(store, "jobs per second", ("client", "server"), caption)
    for name, rate in store.rates.items():
        table.add_row(LABELS.get(name, name), *spread(rate), *_cpu(store.cpu_per_1000_jobs.get(name)))
    return table


def _cpu(cpu: Cpu | None) -> tuple[str, str]:
    """Seconds per 1,000 jobs as µs per job."""
    if cpu is None:
        return "", ""
    return f"{cpu.client * 1000:.1f}", "" if cpu.server is None else f"{cpu.server * 1000:.1f}"


def _lines(store: StoreReport) -> list[str]:
    lines = []
    if store.settings:
        lines.append("settings: " + ", ".join(f"{name} = {value}" for name, value in store.settings.items()))
    if store.wal_bytes_per_job:
        parts = (f"{name} {figure.median:,.0f}" for name, figure in store.wal_bytes_per_job.items())
        lines.append("WAL bytes per job: " + ", ".join(parts))
    for name, figure in {**store.ratios, **store.others}.items():
        lines.append(f"{name}: {figure.median:g} {figure.unit} ({figure.low:g} to {figure.high:g})")
    return lines + [f"note: {note}" for note in store.notes]
