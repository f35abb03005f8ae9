"""Says at the end of a run, where nobody overlooks it, which outage could not be tested on this machine."""

import pytest

from tests.chaos.outages.pooler import MISSING


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each test that was left out because a program is missing."""
    for report in terminalreporter.stats.get("skipped", ()):
        if MISSING in str(report.longrepr):
            terminalreporter.write_line(
                f"WARNING: {report.nodeid} NOT TESTED: {MISSING}", red=True, bold=True
            )
