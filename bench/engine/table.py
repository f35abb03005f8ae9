"""A report for people: one table per store, what else was measured, and the aims with what was reached."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from bench.engine.figures import Cpu, Report, StoreReport


def show(report: Report, console: Console, about: str, labels: Mapping[str, str]) -> None:
    """Print the report: the machine, what was done, and for each store its rates and all the rest. `labels`
    are what rates are called, in the place of their names."""
    machine = report.machine
    console.print(
        f"Windlass {report.windlass} on {machine['os']}, {machine['processor']}, {machine['cores']} cores, "
        f"Python {machine['python']}, asyncpg {machine['asyncpg']}, uvloop {machine['uvloop']}, "
        f"apsw {machine['apsw']}",
        highlight=False,
    )
    console.print(about, highlight=False)
    for store in report.stores:
        console.print()
        console.print(_rates(store, labels))
        for line in _lines(store):
            console.print(line, highlight=False)
        console.print(_aims(store))


def _rates(store: StoreReport, labels: Mapping[str, str]) -> Table:
    versions = ", ".join(f"{name} {version}" for name, version in store.versions.items())
    costs = store.cpu_per_1000_jobs
    table = Table(
        title=f"{versions}, {store.place}; medians of {store.rounds} rounds, {store.seconds:g} s",
        title_justify="left",
        caption="µs: processor time for each job" if costs else None,
        caption_justify="left",
    )
    unit = next(iter(store.rates.values())).unit
    table.add_column(unit)
    for name in ("median", "low", "high", *(("client µs", "server µs") if costs else ())):
        table.add_column(name, justify="right", no_wrap=True)  # labels give way, figures never
    for name, rate in store.rates.items():
        label = labels.get(name, name) + ("" if rate.unit == unit else f", {rate.unit}")
        spread = (f"{value:,.0f}" for value in (rate.median, rate.low, rate.high))
        table.add_row(label, *spread, *(_cpu(costs.get(name)) if costs else ()))
    return table


def _cpu(cpu: Cpu | None) -> tuple[str, str]:
    if cpu is None:
        return "", ""
    # Seconds per 1,000 jobs are milliseconds per job; people read microseconds more easily.
    return f"{cpu.client * 1000:.1f}", "" if cpu.server is None else f"{cpu.server * 1000:.1f}"


def _lines(store: StoreReport) -> list[str]:
    lines = ["settings: " + ", ".join(f"{name} = {value}" for name, value in store.settings.items())]
    if store.wal_bytes_per_job:
        parts = (f"{name} {figure.median:,.0f}" for name, figure in store.wal_bytes_per_job.items())
        lines.append("WAL bytes per job: " + ", ".join(parts))
    if store.dead_tuples:
        lines.append("dead tuples: " + ", ".join(f"{name} {n:,}" for name, n in store.dead_tuples.items()))
    for name, figure in {**store.ratios, **store.others}.items():
        lines.append(f"{name}: {figure.median:g} {figure.unit} ({figure.low:g} to {figure.high:g})")
    return lines + [f"note: {note}" for note in store.notes]


def _aims(store: StoreReport) -> Table:
    table = Table()
    for name in ("aim", "to reach", "reached", ""):
        table.add_column(name, justify="left" if name in ("aim", "") else "right")
    for aim in store.aims:
        table.add_row(aim.figure, aim.aim, f"{aim.value:,g}", "yes" if aim.met else "no")
    return table
