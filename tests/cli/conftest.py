"""Databases for the command: a SQLite file for most tests, PostgreSQL where the store matters."""

from pathlib import Path

import pytest

from tests.cli.kit import Desk


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WINDLASS_DATABASE_URL", "DATABASE_URL", "WINDLASS_SCHEMA", "WINDLASS_RETENTION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A URL of a file that is not there yet."""
    return f"sqlite:///{tmp_path.as_posix()}/jobs.db"


@pytest.fixture
def desk(path: str) -> Desk:
    """A SQLite file without jobs."""
    desk = Desk(path)
    desk.ok("migrate")
    return desk


@pytest.fixture(params=["sqlite", "postgresql"])
def any_desk(request: pytest.FixtureRequest, path: str) -> Desk:
    """A database of each kind that outlives a process, migrated and empty."""
    desk = Desk(path if request.param == "sqlite" else request.getfixturevalue("pg_dsn"))
    desk.ok("migrate")
    return desk
