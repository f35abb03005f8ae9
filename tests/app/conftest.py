"""Apps for the tests: on every store where the store matters, in memory where it does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import Windlass


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WINDLASS_DATABASE_URL", "DATABASE_URL", "WINDLASS_SCHEMA", "WINDLASS_RETENTION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def app() -> Iterator[Windlass]:
    """An app in memory."""
    with Windlass("memory://") as app:
        yield app


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind, empty and migrated."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("pg_dsn"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path.as_posix()}/jobs.db"


@pytest.fixture
def any_app(url: str) -> Iterator[Windlass]:
    """An app on each kind of store."""
    with Windlass(url) as app:
        yield app
