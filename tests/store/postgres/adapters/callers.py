"""The callers of these tests: one per kind of connection, each with a transaction of its own in real drivers.

Each opens a connection, lets the test enqueue on it, and then commits or rolls back in the way of its driver.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psycopg
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

SyncCaller = Callable[[str, bool], AbstractContextManager[Any]]
AsyncCaller = Callable[[str, bool], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def asyncpg_connection(dsn: str, commit: bool) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        yield connection
        await (transaction.commit() if commit else transaction.rollback())
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_from_pool(dsn: str, commit: bool) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield connection
        await (transaction.commit() if commit else transaction.rollback())


@contextmanager
def psycopg_sync(dsn: str, commit: bool) -> Iterator[Any]:
    connection = psycopg.connect(dsn, row_factory=dict_row)  # a factory of the caller must not disturb us
    try:
        yield connection
        (connection.commit if commit else connection.rollback)()
    finally:
        connection.close()


@asynccontextmanager
async def psycopg_async(dsn: str, commit: bool) -> AsyncIterator[Any]:
    connection = await psycopg.AsyncConnection.connect(dsn)
    try:
        yield connection
        await (connection.commit() if commit else connection.rollback())
    finally:
        await connection.close()


def _url(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://")


@contextmanager
def sqlalchemy_connection(dsn: str, commit: bool) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(_url(dsn, "psycopg"), poolclass=NullPool)
    with engine.connect() as connection:
        yield connection
        (connection.commit if commit else connection.rollback)()


@contextmanager
def sqlalchemy_session(dsn: str, commit: bool) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(_url(dsn, "psycopg"), poolclass=NullPool)
    with Session(engine) as session:
        yield session
        (session.commit if commit else session.rollback)()


@asynccontextmanager
async def sqlalchemy_async_connection(dsn: str, commit: bool) -> AsyncIterator[Any]:
    engine = create_async_engine(_url(dsn, "asyncpg"), poolclass=NullPool)
    async with engine.connect() as connection:
        yield connection
        await (connection.commit() if commit else connection.rollback())


@asynccontextmanager
async def sqlalchemy_async_session(dsn: str, commit: bool) -> AsyncIterator[Any]:
    engine = create_async_engine(_url(dsn, "asyncpg"), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        yield session
        await (session.commit() if commit else session.rollback())


@asynccontextmanager
async def sqlalchemy_async_psycopg(dsn: str, commit: bool) -> AsyncIterator[Any]:
    engine = create_async_engine(_url(dsn, "psycopg"), poolclass=NullPool)
    async with engine.connect() as connection:
        yield connection
        await (connection.commit() if commit else connection.rollback())


def django_wrapper(dsn: str) -> Any:
    """`django.db.connection` of a project that has this database as its default."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(USE_TZ=True, TIME_ZONE="UTC")
        django.setup()
    from django.db import connection, connections

    parts = urlsplit(dsn)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username,
        "PASSWORD": parts.password,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }
    connections.settings = connections.configure_settings({"default": database})
    if hasattr(connections._connections, "default"):
        del connections["default"]
    return connection


@contextmanager
def django_connection(dsn: str, commit: bool) -> Iterator[Any]:
    connection = django_wrapper(dsn)
    try:
        connection.set_autocommit(False)
        yield connection
        (connection.commit if commit else connection.rollback)()
    finally:
        connection.close()


SYNC: dict[str, SyncCaller] = {
    "psycopg": psycopg_sync,
    "sqlalchemy-connection": sqlalchemy_connection,
    "sqlalchemy-session": sqlalchemy_session,
    "django": django_connection,
}
ASYNC: dict[str, AsyncCaller] = {
    "asyncpg": asyncpg_connection,
    "asyncpg-pool": asyncpg_from_pool,
    "psycopg-async": psycopg_async,
    "sqlalchemy-async-connection": sqlalchemy_async_connection,
    "sqlalchemy-async-session": sqlalchemy_async_session,
    "sqlalchemy-async-psycopg": sqlalchemy_async_psycopg,
}
