"""Decides whether there is a pooler between us and the server, and in which mode.

A pooler shows process ids of its own. In session mode it is as good as the server: LISTEN and prepared
statements work. In transaction mode a client gets another session each time, which two clients find out by
taking turns. Statement mode cannot be used."""

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
logger: Final = logging.getLogger("windlass.store")


class Pooling(enum.Enum):
    """For how long a connection to the server is ours."""

    NONE = "none"
    SESSION = "session"
    TRANSACTION = "transaction"


async def pooling_of(first: Any, another: Callable[[], Awaitable[Any]]) -> Pooling:
    """The mode. `first` is a connection outside of a transaction; `another` makes a second one.

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
            "the pooler gives no second connection within %g s, so workers will wait for each other: %s",
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
            "the pooler is in statement mode, which allows no transactions: use pool_mode = transaction or "
            "session in PgBouncer, or a URL of the server itself"
        ) from error
