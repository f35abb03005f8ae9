"""`python -m tests.verify`: all steps, or the named ones; a table of figures, bounds and verdicts at the end.

    python -m tests.verify                          # everything, about three quarters of an hour on two cores
    python -m tests.verify bandit dead-code         # some steps
    python -m tests.verify mutation --only bucket   # a step on a part: modules of core, or tests for coverage
    python -m tests.verify --json figures.json      # the figures, and what each step found, for programs

The exit status is 1 when a figure is out of its bound, and 2 when nothing failed but something could not be
checked.
"""

import argparse
import functools
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tests.verify.figures import ROOT, Figure, exit_status, judged, say, table

STEPS: Final = {
    "bandit": ("tests.verify.tools", "risky"),
    "dead-code": ("tests.verify.dead_code", "check"),
    "types": ("tests.verify.tools", "types"),
    "audit": ("tests.verify.tools", "audit"),
    "build": ("tests.verify.packages", "check"),
    "mutation": ("tests.verify.mutation", "check"),
    "sql-mutation": ("tests.verify.sql_mutation", "check"),
    "coverage": ("tests.verify.coverage_step", "check"),
}
"""The quick ones first."""

Step = Callable[..., list[Figure]]


def run(name: str, wishes: argparse.Namespace, details: dict[str, Any]) -> list[Figure]:
    """One step; a tool that is not installed is a failure that says what to install."""
    module, function = STEPS[name]
    try:
        step: Step = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        say(f"{error.name} is not installed: pip install -e '.[verify]'")
        return [judged(name, "its tool", figure="not installed", bound="installed", holds=False)]
    if name == "sql-mutation":
        step = functools.partial(step, jobs=wishes.jobs, keep=wishes.keep, seconds=wishes.seconds)
    return step(wishes.only, details)


def main(arguments: Sequence[str]) -> int:
    """Run the steps and tell the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verify", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "steps", nargs="*", metavar="step", help=f"one of {', '.join(STEPS)}; all if none is named"
    )
    parser.add_argument("--only", action="append", default=[], help="a part, for mutation and coverage")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes of sql-mutation")
    parser.add_argument("--seconds", type=float, default=12.0, help="of tests for a fault in SQL")
    parser.add_argument(
        "--keep", type=Path, default=ROOT / ".sql-mutation", help="folder of what sql-mutation has found"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures and findings there")
    wishes = parser.parse_args(arguments)
    if unknown := set(wishes.steps) - STEPS.keys():
        parser.error(f"no step is called {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    for name in wishes.steps or STEPS:
        began = time.monotonic()
        say(f"── {name}")
        figures += run(name, wishes, details)
        say(f"── {name}: {time.monotonic() - began:.0f} s")
    if wishes.json:
        found = {"figures": [asdict(each) for each in figures], "details": details}
        wishes.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    say(table(figures))
    return exit_status(figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
