"""From a database URL to a store. Drivers are imported only when their database is asked for.

postgresql://user:password@host/db      also postgres:// and postgresql+driver://, as libpq reads them
sqlite:///relative.db                   sqlite:////absolute.db with one slash more
sqlite:///:memory:                      for tests: jobs live and die with the app
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from windlass.errors import ConfigurationError
from windlass.store.protocol import Store
from windlass.store.settings import StoreSettings

POSTGRES: Final = "postgresql"
SQLITE: Final = "sqlite"
MEMORY: Final = "sqlite:///:memory:"


def kind_of(url: str) -> str:
    """Which store a URL asks for: `postgresql` or `sqlite`."""
    scheme, mark, _ = url.partition("://")
    if not mark:  # whatever it is, it may hold a password
        raise ConfigurationError(
            "a database is named by a URL: set WINDLASS_DATABASE_URL to postgresql://… or sqlite:///path"
        )
    scheme = scheme.lower().partition("+")[0]
    scheme = POSTGRES if scheme == "postgres" else scheme
    if scheme not in (POSTGRES, SQLITE):
        raise ConfigurationError(
            f"Windlass has no store for {scheme}:// databases; set WINDLASS_DATABASE_URL to postgresql://… "
            "or sqlite:///path"
        )
    return scheme


def make_store(
    url: str,
    *,
    schema: str = "windlass",
    settings: StoreSettings | None = None,
    deadline: float | None = None,
) -> Store:
    """The store behind this URL, not opened yet. `deadline` is for stores behind a network: how many seconds
    a worker's call may take before it counts as unanswered."""
    settings = settings or StoreSettings()
    if kind_of(url) == POSTGRES:
        return _postgres(url, schema, settings, deadline)
    from windlass.store.sqlite import SQLiteStore

    return SQLiteStore(sqlite_path(url), settings=settings)


def read_ahead(url: str) -> None:
    """Import and read what a process needs once for a store behind this URL, so that what is forked from it
    shares it: the driver, and for PostgreSQL the statements."""
    make_store(url)
    if kind_of(url) == POSTGRES:
        from windlass.store.postgres import schema

        schema.read_ahead()


def describe(url: str) -> str:
    """The URL as it may be shown: without user, password and what else can hold secrets."""
    kind = kind_of(url)
    if kind == POSTGRES:
        from windlass.store.postgres.connections.url import shown

        return shown(url)
    return f"{kind}://{url.partition('://')[2].partition('?')[0]}"


def is_in_memory(url: str) -> bool:
    """Return whether jobs at this URL live in the memory of one process."""
    return kind_of(url) == SQLITE and sqlite_path(url) == ":memory:"


def sqlite_path(url: str) -> str:
    """The file that an sqlite:// URL names."""
    before, mark, _ = url.partition("://")[2].partition("?")
    path = unquote(before)
    if mark:
        raise ConfigurationError(
            "an sqlite:// URL has no options: leave out the ? and what follows it; a ? in the file's name is "
            "written %3F"
        )
    if path in ("", "/"):
        raise ConfigurationError(
            "this sqlite:// URL names no file; write sqlite:///jobs.db, or in a test sqlite:///:memory:"
        )
    if not path.startswith("/"):
        raise ConfigurationError(
            f"sqlite://{path} has one slash too few; write sqlite:///{path} for a file in this directory"
        )
    return path[1:]


def require_asyncpg() -> None:
    """Say what to install where the PostgreSQL driver is missing."""
    try:
        import asyncpg  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL needs the asyncpg driver: pip install 'windlass[postgres]'"
        ) from error


def _postgres(url: str, schema: str, settings: StoreSettings, deadline: float | None) -> Store:
    require_asyncpg()
    from windlass.store.postgres import PostgresStore

    dsn = f"{POSTGRES}://{url.partition('://')[2]}"
    if deadline is None:
        return PostgresStore(dsn, schema=schema, settings=settings)
    return PostgresStore(dsn, schema=schema, settings=settings, deadline=deadline)
