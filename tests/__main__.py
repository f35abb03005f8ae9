"""The full check, in one command that needs nothing but Python: lint, format, types, tests.

`python -m tests` runs every step even after one has failed, so that one run shows everything that is wrong,
and ends with a line that says how it went. `python -m tests --lint` stops before the tests. Other arguments
go to pytest: `python -m tests -k sqlite`.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINT = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
}


def workers() -> int:
    """How many tests run side by side: one more than there are cores, since many wait for real time to pass.
    Each test process starts servers of its own, hence the cap."""
    return min(4, (os.cpu_count() or 2) + 1)


def run(name: str, command: list[str]) -> bool:
    """Run one step in the project's root and tell whether it passed."""
    print(f"── {name}", flush=True)  # noqa: T201 - this module is a command
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode == 0


def main(arguments: list[str]) -> int:
    """Run the steps; 0 only when all of them passed."""
    began = time.monotonic()
    steps = dict(LINT)
    if "--lint" not in arguments:
        steps["pytest"] = ["pytest", "-n", str(workers()), "--dist", "worksteal", *arguments]
    failed = [name for name, command in steps.items() if not run(name, command)]
    verdict = f"FAILED: {', '.join(failed)}" if failed else f"PASSED: {', '.join(steps)}"
    print(f"── {verdict} ({time.monotonic() - began:.0f} s)", flush=True)  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
