"""Apps for tests: on every store where the store matters, in memory where it does not.

A `conftest.py` that wants these fixtures imports them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from windlass import Windlass
from windlass.store.sqlite import SQLiteStore
from windlass.testing import Clock


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WINDLASS_DATABASE_URL", "DATABASE_URL", "WINDLASS_SCHEMA", "WINDLASS_RETENTION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def app() -> Iterator[Windlass]:
    """An app in memory."""
    with Windlass("sqlite:///:memory:") as app:
        yield app


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind, empty and migrated."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("pg_dsn"))
    return "sqlite:///:memory:" if request.param == "memory" else f"sqlite:///{tmp_path.as_posix()}/jobs.db"


@pytest.fixture
def any_app(url: str) -> Iterator[Windlass]:
    """An app on each kind of store."""
    with Windlass(url) as app:
        yield app


@contextmanager
def clocked() -> Iterator[tuple[Windlass, Clock]]:
    """An app in memory whose time stands still."""
    clock = Clock(1_700_000_000)
    with Windlass(store=SQLiteStore(":memory:", clock=clock)) as app:
        yield app, clock
