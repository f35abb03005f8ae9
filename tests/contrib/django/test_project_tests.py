"""The tests of a Django project, as its owner runs them: `manage.py test` in a process of its own [E1]."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import Server
from windlass import Windlass

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("project_tests.py")
WITHOUT_DATABASE = Path(__file__).with_name("without_database.py")


RAN = "Ran 19 tests"


def run_tests(url: str = "", *options: str, program: Path = PROGRAM, **environment: Any) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", program, *options],
        env={**os.environ, "SHOP_DATABASE_URL": url, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_e1_a_projects_test_cases_run_their_jobs(kind: str, pg_database: str, tmp_path: Path) -> None:
    """Plain tasks ran in threads, on connections that do not see the test's transaction; the test database
    had no schema; and the backend went on writing to the real database once the runner had renamed it."""
    url = pg_database if kind == "postgres" else f"sqlite:///{tmp_path.as_posix()}/shop.db"
    assert RAN in run_tests(url)


@pytest.mark.slow
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
        given: dict[str, Any] = {variable: jobs}
        assert RAN in run_tests(database, **given)
    assert stored_in(pg_dsn) == 0
    assert not file.exists()


@pytest.mark.parametrize("variable", ["SHOP_DATABASE_URL", "SHOP_JOBS_URL", "WINDLASS_DATABASE_URL"])
def test_e1_nor_do_those_without_a_database(variable: str, pg_dsn: str, tmp_path: Path) -> None:
    """An app that had been asked for before the tests began wrote its first job where it had been then; and
    the alias named the real database, as the runner had made no other."""
    file = tmp_path / "jobs.db"
    with Windlass(pg_dsn) as real:
        real.enqueue("shop.note", "theirs")
    for jobs in (pg_dsn, f"sqlite:///{file}"):
        given: dict[str, Any] = {"SHOP_DATABASE_URL": f"sqlite:///{tmp_path}/shop.db", variable: jobs}
        assert "Ran 2 tests" in run_tests(program=WITHOUT_DATABASE, **given)
    assert stored_in(pg_dsn) == 1
    assert not file.exists()


def stored_in(dsn: str) -> int:
    with Windlass(dsn) as real:
        return real.jobs(state="ready").count().jobs + real.jobs(state="scheduled").count().jobs


@pytest.mark.slow
def test_e1_parallel_tests_have_a_schema_each(pg_server: Server, pg_database: str) -> None:
    """Copies of the test database are made from it, which nobody may be connected to then."""
    assert RAN in run_tests(pg_database, "--parallel", "2")
