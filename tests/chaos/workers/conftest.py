"""Where the workers' jobs live: PostgreSQL 18, and SQLite where the fault makes sense there."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chaos.workers.kit import Scene


@pytest.fixture(params=["postgres", "sqlite"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """A store of the test's own, on either kind, and the hosts on it."""
    dsn = {"postgres": "pg_dsn", "stock": "stock_dsn"}.get(request.param)
    url = request.getfixturevalue(dsn) if dsn else f"sqlite:///{tmp_path}/jobs.db"
    async with Scene(url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def sqlite_scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """The same on SQLite alone, where the store has no part in the fault."""
    async with Scene(f"sqlite:///{tmp_path}/jobs.db", tmp_path) as opened:
        yield opened


@pytest.fixture
async def pg_scene(pg_dsn: str, tmp_path: Path) -> AsyncIterator[Scene]:
    """The same on PostgreSQL alone."""
    async with Scene(pg_dsn, tmp_path) as opened:
        yield opened
