"""Fixtures of the chaos tests, and the list of figures at the end of a run (without xdist)."""

import pytest

from tests.chaos.figures import Figure, recorder


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    """Note a figure: `figure("claim with holes ÷ without", 1.2)`."""
    return recorder(request)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures of every test that noted some."""
    shown = False
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for name, value in getattr(report, "user_properties", ()):
                if name == "figure":
                    if not shown:
                        terminalreporter.section("figures")
                        shown = True
                    terminalreporter.write_line(f"{report.nodeid.rpartition('/')[2]}: {value}")
