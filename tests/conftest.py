"""Fixtures that every test may use: real PostgreSQL servers, and databases and schemas in them.

A server starts when the first test asks for it and ends with the test process. A machine that cannot run
PostgreSQL fails the tests with a message that says what to install. Only the stock server may be missing,
since no wheel brings it; the tests that ask for it are left out then, and the run says so.
"""

import functools
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import hypothesis
import psycopg
import pytest
from psycopg import sql

from tests import left_out
from tests.postgres import Server, memory
from tests.postgres_install import STOCK, find_stock

# Hundreds of tests start a process of ours, which takes twice as long where nobody may keep bytecode. A test
# that replaces a module within a second forbids it for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts the run in the background has it ignore Ctrl-C, and so would every process of a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# SQLite waits for the disk at every commit, which takes longer than most tests and shows nothing: no test
# cuts the power. That it asks for the wait is what tests/store/sqlite looks at.
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a slow test more time: on a busy machine one of 20 seconds may take minutes."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


def pytest_configure(config: pytest.Config) -> None:
    """See to it that nobody misses that tests were left out."""
    config.pluginmanager.register(left_out)


@pytest.fixture(scope="session")
def wheel_server() -> Iterator[Server]:
    """PostgreSQL 18 for this test process, without fsync."""
    with Server(18, fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def pg16_server() -> Iterator[Server]:
    """PostgreSQL 16, for what must hold on older servers too."""
    with Server(16, fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def stock_server() -> Iterator[Server]:
    """PostgreSQL as the system's packages bring it, with its default settings, jit among them; no fsync."""
    if find_stock() is None:
        pytest.skip(left_out.STOCK.reason)
    with Server(STOCK, fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def pg_server(request: pytest.FixtureRequest) -> Server:
    """PostgreSQL 18, or what `tests.stock` says. Tests that kill a server start their own."""
    server: Server = request.getfixturevalue(getattr(request, "param", "wheel_server"))
    return server


@pytest.fixture
def pg_database(pg_server: Server) -> Iterator[str]:
    """The DSN of an empty database, dropped after the test."""
    name = pg_server.create_database()
    yield pg_server.dsn(name)
    pg_server.drop_database(name)


@pytest.fixture(scope="session")
def migrated() -> Callable[[Server], str]:
    """Answers with the name of a server's migrated database, made once, that others are copied from. Nobody
    may connect to it."""

    @functools.cache
    def make(server: Server) -> str:
        name = server.create_database()
        subprocess.run(
            [sys.executable, "-c", "from windlass.cli import main; main()", "migrate"],
            env={**os.environ, "WINDLASS_DATABASE_URL": server.dsn(name)},
            check=True,
        )
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(
                sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name))
            )
        return name

    return make


@pytest.fixture(scope="session")
def pg_template(pg_server: Server, migrated: Callable[[Server], str]) -> str:
    """The name of a migrated database that others are copied from."""
    return migrated(pg_server)


@pytest.fixture
def pg_dsn(pg_server: Server, pg_template: str) -> Iterator[str]:
    """The DSN of a migrated database without jobs, dropped after the test."""
    name = pg_server.create_database(template=pg_template)
    yield pg_server.dsn(name)
    pg_server.drop_database(name)


@pytest.fixture
def stock_dsn(stock_server: Server, migrated: Callable[[Server], str]) -> Iterator[str]:
    """The same on the stock server."""
    name = stock_server.create_database(template=migrated(stock_server))
    yield stock_server.dsn(name)
    stock_server.drop_database(name)


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
