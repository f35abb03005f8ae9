"""What stands between us and the server: nothing, or a pooler, and how it shares its connections out.

A pooler hands out process ids of its own. One that lends a connection for a session is as good as the server:
LISTEN works there, and so do prepared statements. One that lends it for a transaction gives another each
time, which two clients find out by taking turns. One that lends it for a statement cannot be worked with."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncpg

from windlass.errors import ConfigurationError, StoreUnavailable

LOAN: Final = 3.0
"""Seconds in which a pooler should lend a second connection."""

TOO_SMALL: Final = (
    "raise its pool (PgBouncer: default_pool_size) above what all workers and producers use at once"
)
logger = logging.getLogger("windlass.store")


class Pooling(enum.Enum):
    """For how long a connection to the server is ours."""

    NONE = "none"
    SESSION = "session"
    TRANSACTION = "transaction"


async def pooling_of(first: Any, another: Callable[[], Awaitable[Any]]) -> Pooling:
    """Find out. `first` is a connection outside of a transaction; `another` makes a second one.

    A process of the server that two clients have in turn, or a client whose process changes, is lent for a
    transaction. Nothing is held meanwhile: many workers that begin at once would wait for each other."""
    if await _process(first) == first.get_server_pid():
        return Pooling.NONE
    await _begin(first)
    await first.execute("COMMIT")
    second: Any = None
    seen: dict[Any, set[int]] = {}
    try:
        async with asyncio.timeout(LOAN):
            second = await another()
            # One after the other, and each twice in a row: whatever the order in which it lends, one differs.
            for client in (first, second, second, first) * 2:
                seen.setdefault(client, set()).add(await _process(client))
    except (TimeoutError, StoreUnavailable):
        logger.warning(
            "the pooler lends no second connection within %g s, so workers will wait for each other: %s",
            LOAN, TOO_SMALL,
        )  # fmt: skip
        return Pooling.TRANSACTION  # which is safe, whatever it is
    finally:
        if second is not None:
            second.terminate()
    lent = [process for processes in seen.values() for process in processes]
    return Pooling.SESSION if len(lent) == len(set(lent)) == 2 else Pooling.TRANSACTION


async def lends(wanted: int, another: Callable[[], Awaitable[Any]]) -> int:
    """How many transactions a pooler lets go on at once, up to so many as are wanted."""
    made: list[Any] = []

    async def hold() -> None:
        connection = await another()
        made.append(connection)
        await _begin(connection)
        await _process(connection)

    holding = [asyncio.create_task(hold()) for _ in range(wanted)]
    try:
        done, _ = await asyncio.wait(holding, timeout=LOAN)
        return sum(1 for each in done if each.exception() is None)
    finally:
        for each in holding:
            each.cancel()
        await asyncio.gather(*holding, return_exceptions=True)
        for connection in made:
            connection.terminate()


async def _process(connection: Any) -> int:
    return int(await connection.fetchval("SELECT pg_backend_pid()"))


async def _begin(connection: Any) -> None:
    try:
        await connection.execute("BEGIN")
    except asyncpg.PostgresError as error:
        if "statement pooling" not in str(error):
            raise
        raise ConfigurationError(
            "a pooler in statement mode stands between, where no transaction can be kept: use pool_mode = "
            "transaction or session in PgBouncer, or a URL that leads to the server itself"
        ) from error
