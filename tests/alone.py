"""Run the tests that failed in company once more, one after the other (ADR 39).

A test that passes then has passed; one that fails again, or is skipped this time, has not. Each that passed
only alone is written to `.alone.jsonl`, which stays in the checkout, and its count there is printed: a test
that is named again and again has a fault.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import gmtime, strftime
from xml.etree import ElementTree

MOST = 3
"""The most failures for which a second run says something: more of them are no accident."""
TESTS_FAILED = 1
"""pytest's exit status where tests ran and some failed."""
RECORD = "WINDLASS_TEST_ALONE"
"""The environment variable that names another file than `.alone.jsonl`."""


@dataclass(frozen=True)
class Again:
    """The outcome of a run, and of the second one where there was one."""

    passed: bool
    told: str = ""
    """An addition to the verdict of the whole run."""


def last_failed(root: Path) -> list[str]:
    """Return the tests that failed in the last run whose cache is there, as pytest names them."""
    try:
        return sorted(json.loads(_cache(root).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []


def forget(root: Path) -> None:
    """Remove what an earlier run left there: a run that is broken off leaves it as it was."""
    _cache(root).unlink(missing_ok=True)


def judge(status: int, home: Path, root: Path, python: str | Path = sys.executable) -> Again:
    """Say whether a run passed that ended with this status and has its cache in `home`. Where only a few
    tests failed, that is how they fare alone."""
    failed = last_failed(home)
    if status != TESTS_FAILED or not 0 < len(failed) <= MOST:
        return Again(passed=status == 0)
    print(f"── failed in company, once more alone: {', '.join(failed)}", flush=True)  # noqa: T201 - of a command
    return again(failed, root, python)


def again(failed: Sequence[str], root: Path, python: str | Path = sys.executable) -> Again:
    """Run these tests on a machine that does nothing else, and record those that pass."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = ["pytest", "-n", "0", "-p", "no:cacheprovider", f"--junitxml={report}", *failed]
        status = subprocess.run([python, "-m", *command], cwd=root, check=False).returncode
        passed = count_passed(report.read_text(encoding="utf-8")) if report.exists() else 0
    if status != 0:
        return Again(passed=False)
    if passed < len(failed):
        return Again(passed=False, told=f" · {len(failed) - passed} of {len(failed)} DID NOT RUN ALONE")
    times = record(failed, Path(os.environ.get(RECORD, root / ".alone.jsonl")))
    named = ", ".join(f"{name} ({times[name]} × in this checkout)" for name in failed)
    return Again(passed=True, told=f" · PASSED ONLY ALONE: {named}")


def count_passed(report: str) -> int:
    """Count the tests of a JUnit report that ran and did not fail."""
    cases = ElementTree.fromstring(report).iter("testcase")  # noqa: S314 - pytest has just written it
    return sum(not any(child.tag in {"skipped", "failure", "error"} for child in case) for case in cases)


def record(names: Sequence[str], file: Path) -> Counter[str]:
    """Add a line for each test, and count the lines of every test there."""
    now = strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())
    with file.open("a", encoding="utf-8") as out:
        out.writelines(json.dumps({"at": now, "test": name}) + "\n" for name in names)
    return Counter(json.loads(line)["test"] for line in file.read_text(encoding="utf-8").splitlines())


def _cache(root: Path) -> Path:
    return root / ".pytest_cache" / "v" / "cache" / "lastfailed"
