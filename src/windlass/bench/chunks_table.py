"""The report of `bench chunks` for people: one table per store, and the aims with what was reached."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

from windlass.bench.chunks_plan import MIB
from windlass.bench.figures import Figure, Report, StoreReport

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
    machine, plan = report.machine, report.plan
    console.print(
        f"Windlass {report.windlass} on {machine['os']}, {machine['processor']}, {machine['cores']} cores, "
        f"Python {machine['python']}, asyncpg {machine['asyncpg']}, uvloop {machine['uvloop']}, "
        f"apsw {machine['apsw']}",
        highlight=False,
    )
    console.print(
        f"{plan['bytes'] / MIB:,.0f} MiB of NDJSON, {plan['records']:,} records of "
        f"{plan['bytes'] / plan['records']:.0f} bytes; parts of {plan['part_bytes'] / MIB:g} MiB; a "
        f"checkpoint every {plan['batch']:,} records; each record is parsed and dropped",
        highlight=False,
    )
    for store in report.stores:
        console.print()
        console.print(_rates(store))
        for line in _lines(store):
            console.print(line, highlight=False)
        console.print(_aims(store))


def _rates(store: StoreReport) -> Table:
    versions = ", ".join(f"{name} {version}" for name, version in store.versions.items())
    table = Table(
        title=f"{versions}: {store.place}; medians of {store.rounds} rounds, {store.seconds:g} s",
        title_justify="left",
        caption="CPU: seconds for 1 GiB, all processes of the worker; memory: of its largest process, MB",
        caption_justify="left",
    )
    table.add_column("MiB per second", no_wrap=True)
    for name in ("median", "low", "high", "÷ plain", "CPU", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, rate in store.rates.items():
        table.add_row(
            LABELS.get(name, name),
            *(f"{value:,.0f}" for value in (rate.median, rate.low, rate.high)),
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


def _aims(store: StoreReport) -> Table:
    table = Table()
    for name in ("aim", "to reach", "reached", ""):
        table.add_column(name, justify="left" if name in ("aim", "") else "right")
    for aim in store.aims:
        table.add_row(aim.figure, aim.aim, f"{aim.value:,g}", "yes" if aim.met else "no")
    return table
