"""A report for people: one table per store, and the aims with what was reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from windlass.bench.figures import Cpu, Figure, Report, StoreReport

_LABELS = {
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
    "drain_one": "drain, one child",
    "drain_two": "drain, two children",
    "drain_threads": "drain, plain functions in threads",
    "sustained": "sustained, last third",
    "sustained_pinned": "sustained, snapshot pinned, last third",
}


def show(report: Report, console: Console) -> None:
    """Print the report."""
    plan = report.plan
    about = (
        f"{plan['jobs']:,} jobs or {plan['seconds']:g} s each; payload {plan['payload_bytes']} bytes; "
        f"batches: enqueue {plan['enqueue_batch']:,}, claim {plan['claim_batch']:,}, SKIP LOCKED "
        f"{plan['reference_batch']:,}; one producer, one worker"
    )
    print_report(report, console, about, _rates, _lines)


def print_report(
    report: Report,
    console: Console,
    about: str,
    rates: Callable[[StoreReport], Table],
    lines: Callable[[StoreReport], list[str]],
) -> None:
    """Print a report: the machine, what was done, and for each store its table, its lines and the aims."""
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
        console.print(rates(store))
        for line in lines(store):
            console.print(line, highlight=False)
        console.print(_aims(store))


def rates_table(store: StoreReport, unit: str, more: Sequence[str], caption: str) -> Table:
    """An empty table of rates in this unit, with further columns."""
    versions = ", ".join(f"{name} {version}" for name, version in store.versions.items())
    table = Table(
        title=f"{versions}: {store.place}; medians of {store.rounds} rounds, {store.seconds:g} s",
        title_justify="left",
        caption=caption,
        caption_justify="left",
    )
    table.add_column(unit, no_wrap=True)
    for name in ("median", "low", "high", *more):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _rates(store: StoreReport) -> Table:
    table = rates_table(store, "jobs per second", ("client µs", "server µs"), "µs: CPU time per job")
    for name, figure in store.rates.items():
        cpu = store.cpu_per_1000_jobs.get(name)
        table.add_row(_LABELS.get(name, name), *spread(figure), *_cpu(cpu))
    return table


def spread(figure: Figure) -> tuple[str, str, str]:
    """A figure in three columns."""
    return f"{figure.median:,.0f}", f"{figure.low:,.0f}", f"{figure.high:,.0f}"


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
    lines += [f"{name}: {r.median:g} ({r.low:g} to {r.high:g})" for name, r in store.ratios.items()]
    lines += [f"{name}: {o.median:g} {o.unit} ({o.low:g} to {o.high:g})" for name, o in store.others.items()]
    lines += [f"note: {note}" for note in store.notes]
    return lines


def _aims(store: StoreReport) -> Table:
    table = Table()
    for name in ("aim", "to reach", "reached", ""):
        table.add_column(name, justify="left" if name in ("aim", "") else "right")
    for aim in store.aims:
        table.add_row(aim.figure, aim.aim, f"{aim.value:,g}", "yes" if aim.met else "no")
    return table
