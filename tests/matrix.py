"""The Pythons that Windlass supports, as far as they are installed here: a part of the tests on each of them.

    python -m tests.matrix              every one that is found
    python -m tests.matrix 3.12         these

Found are those on PATH, pyenv's, and the one that runs this. Each gets a virtual environment under `.matrix/`
with what `[test]` names, and runs the tests of core and app, the golden files, the commands of operations,
and the suite of all stores, on SQLite and on PostgreSQL. Where a few fail, these run once more, alone (ADR
39). A table at the end says what ran where.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests import alone
from tests.__main__ import EVERY_TIME, ROOT, say, workers

PLACE: Final = ROOT / ".matrix"
OLDEST: Final = (3, 11)
APP: Final = ("app", "handles", "running", "tasks")
"""Folders that are counted as the tests of the app."""
OUTSIDE: Final = ("tests/golden", "tests/cli/test_operations.py")
NAMES: Final = "--deselect=tests/golden/test_golden.py::test_all_is_as_it_was_accepted[names]"
"""It needs every extra."""
SUITES: Final = (NAMES, "tests/core", *(f"tests/{folder}" for folder in APP), *OUTSIDE, "tests/conformance")
STORES: Final = ("memory", "sqlite", "postgres")
COLUMNS: Final = ("core", "app", "golden", "cli", *(f"conformance, {store}" for store in STORES))
ASK: Final = (
    "import sys, sysconfig, venv, ensurepip; "
    "print(*sys.version_info[:3], sys.implementation.name, sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
)
Minor = tuple[int, int]


@dataclass
class Ran:
    """What became of the tests on one interpreter."""

    version: str
    passed: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    error: str = ""
    told: str = ""
    """What became of tests that failed in company, if any."""


def find() -> dict[Minor, tuple[str, Path]]:
    """Version and path of the newest CPython of each minor version that is supported, oldest first."""
    found: dict[Minor, tuple[tuple[int, ...], Path]] = {}
    for path in candidates():
        if (version := version_of(path)) >= OLDEST:
            minor = version[0], version[1]
            if minor not in found or version > found[minor][0]:
                found[minor] = (version, path)
    return {minor: (".".join(map(str, version)), path) for minor, (version, path) in sorted(found.items())}


def candidates() -> Iterator[Path]:
    """Programs that may be a Python."""
    yield Path(getattr(sys, "_base_executable", sys.executable))  # not the virtual environment's
    for folder in os.get_exec_path():
        if Path(folder).is_dir():
            yield from (
                path for path in Path(folder).iterdir() if re.fullmatch(r"python3(\.\d+)?", path.name)
            )
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from pyenv.glob("versions/*/bin/python3")


def version_of(path: Path) -> tuple[int, ...]:
    """Which CPython this is; () where it is none that a virtual environment can be made with."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", ASK], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True
        ).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return ()  # a shim of pyenv for a version that is not chosen, or a distribution's without venv
    *numbers, kind, without_lock = done
    return tuple(map(int, numbers)) if (kind, without_lock) == ("cpython", "0") else ()


def run(version: str, python: Path) -> Ran:
    """Make the virtual environment, unless it is there, and run the tests."""
    began = time.monotonic()
    ran = Ran(version)
    home = PLACE / version
    own, report = home / "bin" / "python", home / "report.xml"
    steps: dict[str, list[str | Path]] = {
        "venv": [python, "-m", "venv", home],
        "pip": [own, "-m", "pip", "install", "-q", "-e", ".[test]"],
        "pytest": [
            *(own, "-m", "pytest", "-q", "-n", str(workers()), "--dist", "worksteal", "-m", EVERY_TIME),
            *(f"--junitxml={report}", "-o", f"cache_dir={home / '.pytest_cache'}", *SUITES),
        ],
    }
    if version_of(own):
        del steps["venv"]
    else:
        shutil.rmtree(home, ignore_errors=True)
    report.unlink(missing_ok=True)
    alone.forget(home)
    for name, command in steps.items():
        say(f"Python {version}: {name}")
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        ended = alone.judge(code, home, ROOT, own)
        ran.told = ended.told
        if not ended.passed:
            ran.error = f"{name} ended with {code}"
            break
    if report.exists():
        count(report, ran)
    ran.seconds = time.monotonic() - began
    return ran


def count(report: Path, ran: Ran) -> None:
    """Sort the tests of a report by suite and store."""
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it a moment ago
        outcome = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), None)
        if outcome:
            ran.others[outcome] += 1
        else:
            ran.passed[column(case.get("classname", ""), case.get("name", ""))] += 1


def column(module: str, test: str) -> str:
    """Where a test is counted; one of conformance that asks for no store is counted with memory's."""
    suite = module.split(".")[1]
    if suite != "conformance":
        return "app" if suite in APP else suite
    parameters = re.split(r"[\[\]-]", test)[1:]
    return f"conformance, {next((store for store in STORES if store in parameters), STORES[0])}"


def table(rows: Sequence[Ran]) -> Iterator[str]:
    """What ran where, and how it went."""
    heads = ("Python", *COLUMNS, "failed", "skipped", "seconds", "")
    cells = [
        (
            each.version,
            *(str(each.passed[name]) for name in COLUMNS),
            str(each.others["failure"] + each.others["error"]),
            str(each.others["skipped"]),
            f"{each.seconds:.0f}",
            (each.error or "passed") + each.told,
        )
        for each in rows
    ]
    widths = [max(map(len, texts)) for texts in zip(heads, *cells, strict=True)]
    for line in (heads, *cells):
        yield "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def main(arguments: Sequence[str]) -> int:
    """Run the tests on the interpreters that are asked for; 0 only when they passed on all of them."""
    found = list(find().values())
    asked = [each for each in arguments if not each.startswith("-")]
    unknown = [each for each in asked if not any(matches(version, each) for version, _ in found)]
    if unknown or set(arguments) - {*asked}:
        say(f"not found: {' '.join(unknown or arguments)}; there are {', '.join(v for v, _ in found)}")
        return 2
    chosen = [each for each in found if not asked or any(matches(each[0], name) for name in asked)]
    rows = [run(version, python) for version, python in chosen]
    say("Pythons: tests that passed, by suite and store")
    for line in table(rows):
        print(line, flush=True)  # noqa: T201 - this module is a command
    failed = [each.version for each in rows if each.error]
    alone = " · OTHER PYTHONS LEFT OUT, this is the only one found" if len(found) == 1 else ""
    say((f"FAILED: Python {', '.join(failed)}" if failed else "PASSED") + alone)
    return 1 if failed else 0


def matches(version: str, asked: str) -> bool:
    """Whether 3.12.1 is what somebody who says 3.12 means."""
    return f"{version}.".startswith(f"{asked}.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
