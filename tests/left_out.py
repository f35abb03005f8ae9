"""What a machine may lack, and a plugin that says at the end of a run, in lines that nobody misses, how many
tests were left out for want of it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests import postgres_install
from tests.browser import chromium


@dataclass(frozen=True)
class Missing:
    """A kind of tests, and why they cannot run; the reason is that of each skip."""

    tests: str
    reason: str

    def __str__(self) -> str:
        return f"{self.tests.upper()} LEFT OUT, {self.reason}"


BROWSER: Final = Missing("browser tests", f"no Chromium found: {chromium.HOW}")
STOCK: Final = Missing("stock PostgreSQL tests", f"no stock PostgreSQL found: {postgres_install.HOW}")
CLOCK: Final = Missing(
    "tests that set a server's clock", "libfaketime is not installed: apt-get install libfaketime"
)
POOLER: Final = Missing("tests of poolers", "PgBouncer is not installed: apt-get install pgbouncer")
FREEZER: Final = Missing("tests that freeze a process", "no control group can be made here")
ALL: Final = (BROWSER, STOCK, CLOCK, POOLER, FREEZER)
PLACES: Final = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin")


def faketime() -> str | None:
    """The library that sets a program's clock apart from the machine's; LIBFAKETIME may name another."""
    named = os.environ.get("LIBFAKETIME")
    found = next(map(str, Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
    return found if named is None else named or None


def pgbouncer() -> str | None:
    """Where PgBouncer is, also where PATH does not lead."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path=os.pathsep.join(PLACES))


def freezer(version: int) -> Path | None:
    """Where control groups can be made that freeze a process, of version 1 or 2."""
    places = ("freezer",) if version == 1 else ("unified", "")
    for place in (Path("/sys/fs/cgroup", name) for name in places):
        mark = place / ("cgroup.controllers" if version == 2 else "cgroup.clone_children")
        if mark.exists() and os.access(place, os.W_OK):
            return place
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count those that were skipped for each reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    for missing in ALL:
        count = sum(missing.reason in str(report.longrepr) for report in skipped)
        if count:
            terminalreporter.section(f"{missing.tests.upper()} LEFT OUT", red=True, bold=True)
            terminalreporter.line(
                f"{count} {missing.tests} did NOT run: {missing.reason}", red=True, bold=True
            )
