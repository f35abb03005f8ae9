"""The table of a report: figures are whole in a narrow terminal, and another unit is said."""

import io

from rich.console import Console

from bench.engine.figures import Cpu, Report, StoreReport, at_least, figure
from bench.engine.table import show

MACHINE = dict.fromkeys(("os", "processor", "cores", "python", "asyncpg", "uvloop", "apsw"), "x")


def test_labels_give_way_and_figures_never() -> None:
    store = StoreReport(
        store="sqlite",
        place="here",
        versions={"sqlite": "3"},
        settings={"synchronous": "FULL"},
        seconds=1.0,
        rounds=1,
        rates={"many": figure([1_234_567.0], "jobs/s"), "acquire": figure([89.0], "calls/s")},
        ratios={"over": figure([0.5], "×")},
        cpu_per_1000_jobs={"many": Cpu(0.0123, None)},
        aims=[at_least("many", 7.0, 5)],
    )
    report = Report(windlass="1", measured_at="now", machine=MACHINE, plan={}, stores=[store])
    out = io.StringIO()
    label = "a label of many words that does not fit into a narrow column of a narrow terminal"
    show(report, Console(file=out, width=80), "about", {"many": label})
    message = out.getvalue()
    assert message.count("1,234,567") == 3  # median, low, high
    assert "acquire, calls/s" in message
    assert "12.3" in message
    assert "over: 0.5 × (0.5 to 0.5)" in message
