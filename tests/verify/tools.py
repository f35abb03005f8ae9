"""The steps that ask one tool: pip-audit for known holes in what we depend on, bandit for risky code of ours,
pyright for public names whose type a user's type checker cannot know.

bandit and ruff's rules S share their numbers: B608 is S608. A finding counts as answered where the line bears
ruff's `noqa: S608` (or `nosec B608`, where ruff is content), with the reason behind it or in the comment
above; what is left out everywhere stands in pyproject.toml, with its reason.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.verify.figures import ROOT, Figure, Verdict, judged, say

NOT_RUNTIME: Final = {"all", "bench", "dev", "verify"}
TYPED: Final = 99
"""Percent of the public names."""


def audit(only: Sequence[str] = (), details: dict[str, Any] | None = None) -> list[Figure]:
    """Known vulnerabilities of the dependencies and of every extra that users install."""
    with tempfile.TemporaryDirectory(prefix="windlass-audit-") as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text("\n".join(requirements()) + "\n", encoding="utf-8")
        done = _run(
            "pip_audit", "--requirement", str(wanted), "--format", "json", "--progress-spinner", "off"
        )
    what = "dependencies with known holes"
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        say(done.stderr[-2000:])
        say("!! COULD NOT BE CHECKED: no answer. Run this step where the advisory service can be reached.")
        return [Figure("audit", what, "unknown", "0", Verdict.UNCHECKED)]
    skipped = [each["name"] for each in found if "skip_reason" in each]
    checked = [each for each in found if "skip_reason" not in each]
    holes = [f"{e['name']} {e['version']}: {hole['id']}" for e in checked for hole in e["vulns"]]
    for line in holes:
        say(f"  {line}")
    if details is not None:
        details["audit"] = {"holes": holes, "unchecked": skipped}
    figures = [judged("audit", what, figure=f"{len(holes)} in {len(checked)}", bound="0", holds=not holes)]
    if skipped:
        say(f"!! COULD NOT BE CHECKED, no answer about them: {', '.join(skipped)}")
        unknown = Figure("audit", "dependencies without an answer", str(len(skipped)), "0", Verdict.UNCHECKED)
        figures = [*(figures if checked else ()), unknown]
    return figures


def requirements() -> list[str]:
    """What users get with the package and its extras, as pyproject.toml says it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].items()
    lists = [project["dependencies"], *(each for name, each in extras if name not in NOT_RUNTIME)]
    return sorted({line for each in lists for line in each if not line.startswith(project["name"])})


def risky(only: Sequence[str] = (), details: dict[str, Any] | None = None) -> list[Figure]:
    """What bandit finds in the package and nobody answered for."""
    done = _run(
        "bandit", "--quiet", "--recursive", "src", "--configfile", "pyproject.toml", "--format", "json"
    )
    report = json.loads(done.stdout)
    open_ones = [each for each in report["results"] if not is_answered(each)]
    for each in open_ones:
        say(f"  {each['filename']}:{each['line_number']}  {each['test_id']} {each['issue_text']}")
    if details is not None:
        details["bandit"] = [f"{e['filename']}:{e['line_number']} {e['test_id']}" for e in open_ones]
    count = len(open_ones) + len(report["errors"])
    answered = len(report["results"]) - len(open_ones)
    what = f"risky lines ({answered} answered for in the code)"
    return [judged("bandit", what, figure=str(count), bound="0", holds=count == 0)]


def is_answered(finding: dict[str, Any]) -> bool:
    """Whether a line of the finding bears ruff's mark for the same rule."""
    number = finding["test_id"].removeprefix("B")
    lines = (ROOT / finding["filename"]).read_text(encoding="utf-8").splitlines()
    span = finding["line_range"]
    said = re.compile(rf"# noqa: [^#]*\bS{number}\b")
    return any(said.search(line) for line in lines[min(span) - 1 : max(span)])


def types(only: Sequence[str] = (), details: dict[str, Any] | None = None) -> list[Figure]:
    """How many of the public names have a type that every type checker infers alike. What comes from packages
    without types of their own, such as asyncpg, is not counted."""
    done = _run("pyright", "--verifytypes", "windlass", "--ignoreexternal", "--outputjson")
    try:
        report = json.loads(done.stdout)["typeCompleteness"]
    except (ValueError, KeyError):
        say(f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return [judged("types", "pyright", figure="failed", bound="passed", holds=False)]
    unknown = [each["name"] for each in report["symbols"] if each["isExported"] and not each["isTypeKnown"]]
    for name in unknown:
        say(f"  {name}")
    if details is not None:
        details["types"] = unknown
    share = 100 * report["completenessScore"]
    what = f"public names of {len(report['modules'])} modules with a known type"
    return [judged("types", what, figure=f"{share:.1f} %", bound=f"≥ {TYPED} %", holds=share >= TYPED)]


def _run(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it with this Python first on PATH: that is where pyright looks for the package."""
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))
    return subprocess.run(
        [sys.executable, "-m", tool, *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
