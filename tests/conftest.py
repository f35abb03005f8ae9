"""Fixtures that every test may use: real PostgreSQL servers, and databases and schemas in them.

A server starts when the first test asks for it and ends with the test process. No fixture skips: a machine
that cannot run PostgreSQL fails the tests with a message that says what to install.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import hypothesis
import psycopg
import pytest
from psycopg import sql

from tests.postgres import Server, memory
from tests.postgres_install import STOCK, HarnessError

# Hundreds of tests start a process of ours, which takes twice as long where nobody may keep bytecode. A test
# that replaces a module within a second forbids it for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# SQLite waits for the disk at every commit, which takes longer than most tests and shows nothing: no test
# cuts the power. That it asks for the wait is what tests/sqlite looks at.
if place := memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))

# The machine is shared with servers and other tests, so how long one example takes says nothing.
hypothesis.settings.register_profile("windlass", deadline=None, print_blob=True)
hypothesis.settings.load_profile("windlass")


@dataclass(frozen=True)
class Schema:
    """A schema name that nobody else uses, and the database to create it in."""

    dsn: str
    name: str


@pytest.fixture(scope="session")
def pg_server() -> Iterator[Server]:
    """PostgreSQL 18 for this test process, without fsync. Tests that kill a server start their own."""
    with Server(18, fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def pg16_server() -> Iterator[Server]:
    """PostgreSQL 16, for what must hold on older servers too."""
    with Server(16, fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def stock_server() -> Iterator[Server]:
    """The distribution's PostgreSQL with its default settings, jit included; skipped where it is missing."""
    try:
        server = Server(STOCK, fsync=False)
    except HarnessError:
        pytest.skip("no PostgreSQL of the distribution is installed")
    with server:
        yield server


@pytest.fixture
def pg_database(pg_server: Server) -> Iterator[str]:
    """The DSN of an empty database, dropped after the test."""
    name = pg_server.create_database()
    yield pg_server.dsn(name)
    pg_server.drop_database(name)


@pytest.fixture(scope="session")
def pg_template(pg_server: Server) -> str:
    """The name of a migrated database that others are copied from. Nobody may connect to it."""
    name = pg_server.create_database()
    subprocess.run(
        [sys.executable, "-c", "from windlass.cli import main; main()", "migrate"],
        env={**os.environ, "WINDLASS_DATABASE_URL": pg_server.dsn(name)},
        check=True,
    )
    with psycopg.connect(pg_server.dsn(), autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name)))
    return name


@pytest.fixture
def pg_dsn(pg_server: Server, pg_template: str) -> Iterator[str]:
    """The DSN of a migrated database without jobs, dropped after the test."""
    name = pg_server.create_database(template=pg_template)
    yield pg_server.dsn(name)
    pg_server.drop_database(name)


@pytest.fixture(scope="session")
def pg_shared_database(pg_server: Server) -> str:
    """The DSN of the one database that all schemas of `pg_schema` live in."""
    return pg_server.dsn(pg_server.create_database())


@pytest.fixture
def pg_schema(pg_shared_database: str) -> Iterator[Schema]:
    """A schema of the test's own, not created yet, dropped with all it holds after the test."""
    schema = Schema(pg_shared_database, f"windlass_{secrets.token_hex(6)}")
    yield schema
    with psycopg.connect(schema.dsn, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema.name)))
