"""Connections of the benchmark to PostgreSQL: named for the meters, one that pins a snapshot, and cleaning
up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


def named(url: str, application: str) -> str:
    """The URL with an application name, by which the meters know a session."""
    return f"{url}{'&' if '?' in url else '?'}application_name={application}"


@asynccontextmanager
async def connection(url: str, application: str) -> AsyncIterator[Any]:
    """A connection under this application name."""
    import asyncpg

    from windlass.store.postgres.faults import translated

    with translated():
        dsn = f"postgresql://{url.partition('://')[2]}"
        opened = await asyncpg.connect(dsn, server_settings={"application_name": application})
    try:
        yield opened
    finally:
        await opened.close()


@asynccontextmanager
async def dropped_afterwards(control: Any, schema: str) -> AsyncIterator[None]:
    """Drop the schema when the block ends, however that comes."""
    try:
        yield
    finally:
        await control.execute("SET client_min_messages = warning")
        await control.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@asynccontextmanager
async def pinned_snapshot(url: str, schema: str) -> AsyncIterator[None]:
    """A transaction that reads once and then stays open: no tuple that dies now can be cleaned away."""
    async with (
        connection(url, f"{schema} pin") as pin,
        pin.transaction(isolation="repeatable_read", readonly=True),
    ):
        await pin.fetch(f"SELECT FROM {schema}.lane")  # nosec B608 - a schema of the benchmark
        yield
