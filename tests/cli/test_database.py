"""migrate, sql and --version: what they print, what they exit with, and what they never print."""

import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.cli.kit import windlass
from windlass import __version__


def test_version() -> None:
    result = windlass("--version")
    assert (result.exit_code, result.output) == (0, f"windlass, version {__version__}\n")


def test_it_runs_as_a_module() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "windlass", "--help"], capture_output=True, text=True, check=True
    )
    assert "migrate" in result.stdout
    assert "sql" in result.stdout


def test_migrate_shows_before_and_after(pg_database: str) -> None:
    first = windlass("migrate", "--database", pg_database)
    again = windlass("migrate", WINDLASS_DATABASE_URL=pg_database)
    assert first.exit_code == again.exit_code == 0, first.output + again.output
    assert ", schema windlass: version 0 → " in first.output
    assert again.output.endswith("up to date\n")
    password = pg_database.partition(":")[2].partition("@")[0].rpartition(":")[2]
    assert password
    assert password not in first.output + again.output


def test_migrate_into_a_schema_of_another_name(pg_database: str) -> None:
    result = windlass("migrate", "--database", pg_database, "--schema", "jobs", "--json")
    answer = json.loads(result.stdout)
    assert (answer["before"], answer["after"] > 0) == (0, True)
    assert pg_database.rpartition("/")[2] in answer["database"]
    with psycopg.connect(pg_database) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname IN ('jobs', 'windlass')")
        assert found.fetchall() == [("jobs",)]


def test_migrate_on_sqlite(tmp_path: Path) -> None:
    result = windlass("migrate", "--database", f"sqlite:///{tmp_path.as_posix()}/jobs.db")
    assert result.exit_code == 0, result.output
    assert "jobs.db: version" in result.output
    assert (tmp_path / "jobs.db").exists()


def test_m6_an_error_is_one_line_without_the_password() -> None:
    url = "postgresql://ada:s3cret@127.0.0.1:1/shop"
    result = windlass("migrate", WINDLASS_DATABASE_URL=url)
    assert result.exit_code == 1
    assert result.output.startswith("Error: postgresql://127.0.0.1:1/shop: ")
    assert len(result.output.splitlines()) == 1
    assert "s3cret" not in result.output


@pytest.mark.parametrize(
    ("arguments", "noted"),
    [
        (("migrate", "--database", "postgresql://ada:s3cret@127.0.0.1:1/shop"), True),
        (("migrate", "--database", "postgresql://ada@127.0.0.1:1/shop?sslpassword=s3cret"), True),
        (("copy", "sqlite:///here.db", "postgresql://ada:s3cret@127.0.0.1:1/shop"), True),
        (("migrate", "--database", "postgresql://ada@127.0.0.1:1/shop?passfile=/nowhere"), False),
        (("migrate", "--database", "sqlite:////nowhere/p:ss@x.db"), False),
    ],
)
def test_m6_a_password_on_the_command_line_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], noted: bool
) -> None:
    """Others can list it. The command works all the same."""
    monkeypatch.chdir(tmp_path)
    windlass("migrate", "--database", "sqlite:///here.db")
    result = windlass(*arguments)
    assert result.exit_code == 1  # there is no server
    assert ("the list of processes shows the password" in result.stderr) is noted
    assert "s3cret" not in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("migrate", "--database", "mysql://ada:s3cret@h/db"), "no store for mysql://"),
        (("migrate", "--database", "ada:s3cret"), "this is not a URL"),
        (("migrate", "--database", "sqlite://"), "names no file"),
        (("migrate", "--schema", "No Schema"), "cannot be a schema"),
        (("sql", "--schema", "pg_catalog"), "cannot be a schema"),
    ],
)
def test_bad_settings_are_one_line_and_exit_code_1(arguments: tuple[str, ...], said: str) -> None:
    result = windlass(*arguments)
    assert result.exit_code == 1
    assert said in result.output
    assert "s3cret" not in result.output
    assert len(result.output.splitlines()) == 1


def test_sql_prints_what_migrate_would_do(pg_database: str) -> None:
    printed = windlass("sql", "--schema", "jobs")
    assert printed.exit_code == 0, printed.output
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute(printed.output.encode())
    result = windlass("migrate", "--database", pg_database, "--schema", "jobs")
    assert result.output.endswith("up to date\n")
