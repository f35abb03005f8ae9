"""The check of a commit, in one command that needs nothing but Python: lint, format, types, tests.

`python -m tests` runs every step even after one has failed, so that one run shows everything that is wrong,
and ends with a line that says how it went. `python -m tests --lint` stops before the tests. Other arguments
go to pytest: `python -m tests -k sqlite`.

It leaves out what takes long and seldom finds more: slow tests, and the repetition of others on a stock
PostgreSQL, on an older one, and on SQLite in memory. `python -m tests --rest` runs just that, as `.ci/run`
does at each push.

Lint and types are checked beside the tests, on one core at most, and reported after them.

Most tests share two cores with others, and many of them kill processes and watch clocks. Where at most three
fail, these run once more, alone. One that passes then is named in the last line, so that nobody overlooks it;
one that fails again fails the run.

The browser tests need a Chromium. Where none is found, one is brought into the virtual environment. Some
tests need a stock PostgreSQL, which only the system's packages bring. What is missing leaves its tests out,
and the last line says so.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import alone, left_out, postgres_install
from tests.browser import chromium

ROOT = Path(__file__).resolve().parent.parent
LINT = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
}
EVERY_TIME = "not (slow or stock or postgres16 or sqlite_memory or soak)"
REST = "(slow or stock or postgres16 or sqlite_memory) and not soak"
Done = subprocess.CompletedProcess[str]


def workers() -> int:
    """How many tests run side by side: two more than there are cores, since many wait for real time to pass.
    Each test process starts servers of its own, hence the cap."""
    return min(4, (os.cpu_count() or 2) + 2)


def run(command: list[str], *, quiet: bool = False) -> Done:
    """Run one step in the project's root. A quiet one keeps what it says to itself."""
    out, err = (subprocess.PIPE, subprocess.STDOUT) if quiet else (None, None)
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, stdout=out, stderr=err, text=True, check=False
    )


def lint() -> dict[str, Done]:
    """What lint, format and types have to say, one after the other."""
    return {name: run(command, quiet=True) for name, command in LINT.items()}


def tests(arguments: list[str]) -> tuple[bool, str]:
    """Run the tests on the screen. Return whether they passed, and an addition to the verdict."""
    say("pytest")
    alone.forget(ROOT)
    marks = REST if "--rest" in arguments else EVERY_TIME
    rest = [each for each in arguments if each != "--rest"]
    done = run(["pytest", "-n", str(workers()), "--dist", "worksteal", "-m", marks, *rest])
    second = alone.judge(done.returncode, ROOT, ROOT)
    return second.passed, second.told


def say(text: str) -> None:
    """A line that stands out between those of the steps."""
    print(f"── {text}", flush=True)  # noqa: T201 - this module is a command


def missing() -> str:
    """See to it that the tests find a browser and a stock server, and what to add to the verdict if not."""
    browser, stock = chromium.bring(), postgres_install.find_stock()
    os.environ[chromium.VARIABLE] = browser or ""  # the test processes need not look again
    os.environ[postgres_install.VARIABLE] = str(stock or "")
    lacking = {
        left_out.BROWSER: browser,
        left_out.STOCK: stock,
        left_out.CLOCK: left_out.faketime(),
        left_out.POOLER: left_out.pgbouncer(),
        left_out.FREEZER: left_out.freezer(1) or left_out.freezer(2),
    }
    left = [str(each) for each, found in lacking.items() if found is None]
    for each in left:
        say(each)
    return "".join(f" · {each}" for each in left)


def main(arguments: list[str]) -> int:
    """Run the steps; 0 only when all of them passed."""
    began = time.monotonic()
    passed: dict[str, bool] = {}
    warning = ""
    with ThreadPoolExecutor(1) as beside:
        linting = beside.submit(dict if "--rest" in arguments else lint)
        if "--lint" not in arguments:
            warning = missing()
            passed["pytest"], told = tests(arguments)
            warning += told
        linted = linting.result()
    for name, done in linted.items():
        say(name)
        sys.stdout.write(done.stdout)
    passed = {name: done.returncode == 0 for name, done in linted.items()} | passed
    failed = [name for name, well in passed.items() if not well]
    verdict = f"FAILED: {', '.join(failed)}" if failed else f"PASSED: {', '.join(passed)}"
    say(f"{verdict} ({time.monotonic() - began:.0f} s){warning}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
