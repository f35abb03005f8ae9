"""Apps for tests: on every store where the store matters, in memory where it does not.

A `conftest.py` that wants these fixtures imports them.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from windlass import Task, Windlass
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


def endless(app: Windlass) -> tuple[Task[[], None], asyncio.Event]:
    """A task that runs until it is stopped, and the event of its start."""
    started = asyncio.Event()

    @app.task
    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    return waits, started


@contextmanager
def clocked() -> Iterator[tuple[Windlass, Clock]]:
    """An app in memory whose time stands still, so that tokens that are booked would never come."""
    clock = Clock(1_700_000_000)
    with Windlass(store=SQLiteStore(":memory:", clock=clock, books=False)) as app:
        yield app, clock
