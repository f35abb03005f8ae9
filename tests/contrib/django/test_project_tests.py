"""The tests of a Django project, as its owner runs them: `manage.py test` in a process of its own [E1]."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import Server

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("project_tests.py")


def run_tests(url: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", PROGRAM, *options],
        env={**os.environ, "SHOP_DATABASE_URL": url, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stderr


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_e1_a_projects_test_cases_run_their_jobs(kind: str, pg_database: str, tmp_path: Path) -> None:
    """Plain tasks ran in threads, on connections that do not see the test's transaction; the test database
    had no schema; and the backend went on writing to the real database once the runner had renamed it."""
    url = pg_database if kind == "postgres" else f"sqlite:///{tmp_path.as_posix()}/shop.db"
    assert "Ran 8 tests" in run_tests(url)


def test_e1_parallel_tests_have_a_schema_each(pg_server: Server, pg_database: str) -> None:
    """Copies of the test database are made from it, which nobody may be connected to then."""
    assert "Ran 8 tests" in run_tests(pg_database, "--parallel", "2")
