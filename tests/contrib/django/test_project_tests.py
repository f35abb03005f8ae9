"""The tests of a Django project, as its owner runs them: `manage.py test` in a process of its own [E1]."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.postgres import Server

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("project_tests.py")


RAN = "Ran 15 tests"


def run_tests(url: str, *options: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", PROGRAM, *options],
        env={**os.environ, "SHOP_DATABASE_URL": url, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **environment},
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
    assert RAN in run_tests(url)


@pytest.mark.parametrize("variable", ["SHOP_JOBS_URL", "WINDLASS_DATABASE_URL"])
def test_e1_tests_never_write_to_a_real_store(
    variable: str, pg_database: str, pg_dsn: str, tmp_path: Path
) -> None:
    """A URL in OPTIONS, or in the environment, led to the same store in tests as in production."""
    file = tmp_path / "jobs.db"
    for database, jobs in [
        (pg_database, pg_dsn),
        (f"sqlite:///{tmp_path.as_posix()}/shop.db", f"sqlite:///{file}"),
    ]:
        assert RAN in run_tests(database, **{variable: jobs})
    with psycopg.connect(pg_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM windlass.ready").fetchone() == (0,)
    assert not file.exists()


def test_e1_parallel_tests_have_a_schema_each(pg_server: Server, pg_database: str) -> None:
    """Copies of the test database are made from it, which nobody may be connected to then."""
    assert RAN in run_tests(pg_database, "--parallel", "2")
