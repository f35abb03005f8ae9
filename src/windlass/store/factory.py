"""From a database URL to a store. Drivers are imported only when their database is asked for.

postgresql://user:password@host/db      also postgres:// and postgresql+driver://, see store.postgres.url
sqlite:///relative.db                   sqlite:////absolute.db with one slash more
memory://                               jobs live and die with the process
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

from windlass.errors import ConfigurationError
from windlass.store.postgres import url as urls
from windlass.store.protocol import Store
from windlass.store.settings import StoreSettings

POSTGRES: Final = "postgresql"
SQLITE: Final = "sqlite"
MEMORY: Final = "memory"


def kind_of(url: str) -> str:
    """Which store a URL asks for: `postgresql`, `sqlite` or `memory`."""
    scheme, mark, _ = url.partition("://")
    if not mark:  # whatever it is, it may hold a password
        raise ConfigurationError(
            "a database is named by a URL: set WINDLASS_DATABASE_URL to postgresql://…, sqlite:///path or memory://"
        )
    scheme = scheme.lower().partition("+")[0]
    scheme = POSTGRES if scheme == "postgres" else scheme
    if scheme not in (POSTGRES, SQLITE, MEMORY):
        raise ConfigurationError(
            f"Windlass has no store for {scheme}:// databases; set WINDLASS_DATABASE_URL to postgresql://…, "
            "sqlite:///path or memory://"
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
    makers: dict[str, Callable[[str, str, StoreSettings, float | None], Store]] = {
        POSTGRES: _postgres,
        SQLITE: _sqlite,
        MEMORY: _memory,
    }
    return makers[kind_of(url)](url, schema, settings or StoreSettings(), deadline)


def describe(url: str) -> str:
    """The URL as it may be shown: without user, password and what else can hold secrets."""
    kind = kind_of(url)
    if kind == POSTGRES:
        return urls.shown(url)
    return f"{kind}://{url.partition('://')[2].partition('?')[0]}"


def sqlite_path(url: str) -> str:
    """The file that an sqlite:// URL names."""
    before, mark, _ = url.partition("://")[2].partition("?")
    path = unquote(before)
    if mark:
        raise ConfigurationError(
            "an sqlite:// URL has no options: leave out the ? and what follows it; a ? in the file's name is "
            "written %3F"
        )
    if path in ("", "/", "/:memory:"):
        raise ConfigurationError(
            "this sqlite:// URL names no file; write sqlite:///jobs.db, or memory:// for a store in memory"
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


def _sqlite(url: str, schema: str, settings: StoreSettings, deadline: float | None) -> Store:
    from windlass.store.sqlite import SQLiteStore

    return SQLiteStore(sqlite_path(url), settings=settings)


def _memory(url: str, schema: str, settings: StoreSettings, deadline: float | None) -> Store:
    from windlass.store.memory import MemoryStore

    return MemoryStore(settings)
