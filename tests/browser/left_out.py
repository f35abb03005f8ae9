"""A plugin that says at the end of a run, in a line nobody misses, that the browser tests were left out.

The tests' own conftest registers it. Where several processes run the tests, the one that reports does not
load that conftest, so `python -m tests` names the plugin itself.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.browser.chromium import HOW

NAME: Final = "tests.browser.left_out"
FOLDER: Final = "tests/browser/"
REASON: Final = f"no Chromium found: {HOW}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count those that were skipped for want of a browser."""
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(FOLDER in report.nodeid and REASON in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.section("BROWSER TESTS LEFT OUT", red=True, bold=True)
        terminalreporter.line(f"{count} browser tests did NOT run: {REASON}", red=True, bold=True)
