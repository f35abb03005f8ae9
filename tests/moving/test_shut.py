"""A file whose jobs were copied elsewhere: a worker does not wait on it, and doctor says what it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass.store.sqlite import SQLiteStore

SHOP = """
from windlass import Windlass

app = Windlass()

@app.task(queue="mail")
def send() -> None: ...
"""


@pytest.fixture
def moved(tmp_path: Path) -> Desk:
    desk = Desk(f"sqlite:///{tmp_path.as_posix()}/jobs.db")
    desk.ok("migrate")

    async def shut(rig: Rig) -> None:
        assert isinstance(rig.store, SQLiteStore)
        await rig.store.shut("its jobs were copied to Ann's store: use that store")

    desk.visit(shut)
    return desk


def test_a_worker_leaves_and_says_where_the_jobs_are(moved: Desk, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    command = [sys.executable, "-m", "windlass", "worker", "shop:app"]
    environ = os.environ | {"WINDLASS_DATABASE_URL": moved.url, "PYTHONPATH": str(tmp_path)}
    left = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert left.returncode == 1
    assert left.stderr.splitlines()[-1].startswith("Error: ")
    assert left.stderr.rstrip().endswith("its jobs were copied to Ann's store: use that store")


def test_doctor_says_so_until_it_is_reopened(moved: Desk) -> None:
    (found,) = [each for each in moved.json("doctor")["findings"] if each["name"] == "moved"]
    assert found["text"] == "this file takes no jobs and no workers: its jobs were copied to Ann's store"
    assert (found["level"], found["advice"]) == ("warning", "use that store")
    moved.ok("copy", moved.url, "--reopen")
    assert "moved" not in [each["name"] for each in moved.json("doctor")["findings"]]
