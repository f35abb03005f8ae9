"""The database of a forced schedule: shared by tests that keep to their own queue, or the test's own."""

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.pg.kit import Base, connect
from tests.postgres import Server


@pytest.fixture(scope="session")
def pg_common(pg_server: Server, pg_template: str) -> str:
    """The DSN of a migrated database that many tests use, each with its own queue and workers."""
    return pg_server.dsn(pg_server.create_database(template=pg_template))


@pytest.fixture
async def base(pg_common: str) -> AsyncIterator[Base]:
    """A queue of the test's own in the common database. Nothing here may turn the ring or move the clock."""
    async with _based(pg_common) as base:
        yield base


@pytest.fixture
async def alone(pg_dsn: str) -> AsyncIterator[Base]:
    """A migrated database of the test's own, without jobs."""
    async with _based(pg_dsn) as base:
        yield base


@asynccontextmanager
async def _based(dsn: str) -> AsyncIterator[Base]:
    async with AsyncExitStack() as stack:
        queue = f"q-{secrets.token_hex(6)}"
        observer = await connect(dsn, queue)
        stack.push_async_callback(observer.connection.close)
        await observer.run(
            "SELECT windlass.adopt(false)"
        )  # a copy of the template: else the first open() does it
        yield Base(dsn, queue, stack, observer)
