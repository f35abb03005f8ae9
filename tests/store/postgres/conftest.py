"""The database of a schedule: shared by tests that keep to their own queue, or the test's own; and roles."""

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from tests.postgres import Server
from tests.store.postgres.kit import Base, connect


@pytest.fixture(scope="session")
def pg_common(pg_server: Server, pg_template: str) -> str:
    """The DSN of a migrated database that many tests use, each with its own queue and workers."""
    return pg_server.dsn(pg_server.create_database(template=pg_template))


@pytest.fixture
async def base(pg_common: str) -> AsyncIterator[Base]:
    """A queue of the test's own in the common database. Nothing here may turn the ring or move the clock."""
    async with based(pg_common) as base:
        yield base


@pytest.fixture
async def alone(pg_dsn: str) -> AsyncIterator[Base]:
    """A migrated database of the test's own, without jobs."""
    async with based(pg_dsn) as base:
        yield base


@asynccontextmanager
async def based(dsn: str) -> AsyncIterator[Base]:
    async with AsyncExitStack() as stack:
        queue = f"q-{secrets.token_hex(6)}"
        observer = await connect(dsn, queue)
        stack.push_async_callback(observer.connection.close)
        await observer.run(
            "SELECT windlass.adopt(false)"
        )  # a copy of the template: else the first open() does it
        yield Base(dsn, queue, stack, observer)


@pytest.fixture
def role(pg_dsn: str) -> Iterator[Callable[[str | None], str]]:
    """Makes a role of a kind that `windlass.allow` knows (None: of no kind) and answers with its DSN."""
    made: list[str] = []
    with psycopg.connect(pg_dsn, autocommit=True) as owner:

        def make(kind: str | None) -> str:
            name, password = f"role_{secrets.token_hex(4)}", secrets.token_hex(8)
            made.append(name)
            owner.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), password))
            if kind is not None:
                owner.execute("SELECT windlass.allow(%s, %s)", (name, kind))
            url = urlsplit(pg_dsn)
            return urlunsplit(url._replace(netloc=f"{name}:{password}@{url.hostname}:{url.port}"))

        yield make
        for name in made:
            # Its schemas and grants leave first; both belong to the database of the test.
            owner.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
            owner.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
