"""The report of `bench chunks` for people: one table per store, and the aims with what was reached."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

from windlass.bench.chunks_plan import MIB
from windlass.bench.figures import Figure, Report, StoreReport
from windlass.bench.table import print_report, rates_table, spread

LABELS: Final = {
    "plain": "plain loop, msgspec",
    "plain_json": "plain loop, json",
    "one": "one process",
    "two": "two processes",
    "one_threads": "one process, in threads",
    "two_threads": "two processes, in threads",
}
OWN_LINES: Final = ("checkpoint_overhead",)


def show(report: Report, console: Console) -> None:
    """Print the report."""
    plan = report.plan
    about = (
        f"{plan['bytes'] / MIB:,.0f} MiB of NDJSON, {plan['records']:,} records of "
        f"{plan['bytes'] / plan['records']:.0f} bytes; parts of {plan['part_bytes'] / MIB:g} MiB; a "
        f"checkpoint every {plan['batch']:,} records; each record is parsed and dropped"
    )
    print_report(report, console, about, _rates, _lines)


def _rates(store: StoreReport) -> Table:
    caption = "CPU: seconds for 1 GiB, all processes of the worker; memory: of its largest process, MB"
    table = rates_table(store, "MiB per second", ("÷ plain", "CPU", "memory"), caption)
    for name, rate in store.rates.items():
        table.add_row(
            LABELS.get(name, name),
            *spread(rate),
            _median(store.ratios.get(f"{name}_vs_plain"), ".2f"),
            _median(store.others.get(f"cpu_{name}"), ".2f"),
            _median(store.others.get(f"memory_{name}"), ".0f"),
        )
    return table


def _median(figure: Figure | None, form: str) -> str:
    return "" if figure is None else format(figure.median, form)


def _lines(store: StoreReport) -> list[str]:
    lines = []
    if store.settings:
        lines.append("settings: " + ", ".join(f"{name} = {value}" for name, value in store.settings.items()))
    lines += [f"{name}: {r.median:g} ({r.low:g} to {r.high:g})" for name, r in store.ratios.items()]
    others = ((name, store.others[name]) for name in OWN_LINES)
    lines += [f"{name}: {o.median:g} {o.unit} ({o.low:g} to {o.high:g})" for name, o in others]
    return lines + [f"note: {note}" for note in store.notes]
