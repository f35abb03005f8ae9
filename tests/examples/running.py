"""An example as a user starts it: from the project's folder, without any set-up."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_example(name: str, *flags: str, **environ: str) -> list[str]:
    """What `python -m examples.NAME` prints, line by line. A warning is a failure, here as anywhere."""
    return run_module(f"examples.{name}", *flags, **environ).stdout.splitlines()


def run_module(name: str, *flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m NAME`, which must end well, without the databases of this process."""
    inherited = {name: value for name, value in os.environ.items() if not name.endswith("DATABASE_URL")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", name, *flags],
        cwd=ROOT,
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done
