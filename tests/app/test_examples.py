"""The examples run as they are printed in the README."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_hello_runs_without_any_set_up(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.endswith("DATABASE_URL")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "hello.py")],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert words == ["enqueued", "result", "retried", "scheduled", "ran"]
    assert "ran       302 jobs to success" in done.stdout
    assert "the mail server hung up" in done.stderr
    assert list(tmp_path.iterdir()) == []
