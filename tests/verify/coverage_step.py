"""The step that measures branch coverage of the package over the whole suite, worker processes included.

coverage.py starts itself in every Python that the tests start (`patch = subprocess` in pyproject.toml). A
process that is killed with SIGKILL, or started with an environment of its own, takes what it knew with it; so
the figure is the least that was run.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.verify.figures import ROOT, Figure, judged, say

STEP: Final = "coverage"
LEAST: Final = 85.0
WORST: Final = 10


def check(only: Sequence[str] = (), details: dict[str, Any] | None = None) -> list[Figure]:
    """Run the suite, or the named tests, under coverage."""
    with tempfile.TemporaryDirectory(prefix="windlass-coverage-") as folder:
        environment = {**os.environ, "COVERAGE_FILE": str(Path(folder) / "data")}
        ran = _coverage(environment, "run", "-m", "pytest", *_arguments(only))
        _coverage(environment, "combine", "--quiet")
        answer = Path(folder) / "coverage.json"
        _coverage(environment, "json", "--quiet", "-o", str(answer))
        report = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else None
    if report is None:
        return [judged(STEP, "data", figure="none", bound="some", holds=False)]
    files = {name: found["summary"]["percent_covered"] for name, found in report["files"].items()}
    for name in sorted(files, key=lambda each: files[each])[:WORST]:
        say(f"  {files[name]:5.1f} %  {name}")
    if details is not None:
        details[STEP] = dict(sorted(files.items()))
    whole = report["totals"]["percent_covered"]
    bound = f"≥ {LEAST:.0f} %"
    return [
        judged(STEP, "the suite", figure="failed" if ran else "passed", bound="passed", holds=ran == 0),
        judged(STEP, "lines and branches run", figure=f"{whole:.1f} %", bound=bound, holds=whole >= LEAST),
    ]


def _arguments(only: Sequence[str]) -> list[str]:
    """For pytest: as in the commit's check, but with more time, since counting costs some."""
    workers = str(os.cpu_count() or 2)
    return ["-n", workers, "--dist", "worksteal", "-p", "no:cacheprovider", "-q", "--timeout", "300", *only]


def _coverage(environment: dict[str, str], *arguments: str) -> int:
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
