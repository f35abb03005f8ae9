"""Rehearsing: the first call of each kind on a connection reads catalogues and plans the statements of its
functions, which takes the server five to ten times as long as the call itself. So a worker's connections do
what is frequent once, to no effect, when nobody waits for them: when the worker begins, and when one was lost
and replaced."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import asyncpg

from windlass.errors import StoreError
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.claims import Claims
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.pool import GONE

NOBODY: Final = 0
"""The identity of nobody: what is claimed in its name is not given out."""

NO_FLUSH: Final = 0
LONGEST: Final = 5.0
"""Seconds that one of the calls may take."""


class Rehearsal:
    """The frequent calls of one worker, without their effects."""

    def __init__(self, database: Database, claims: Claims) -> None:
        self._db = database
        self._claims = claims
        self._worker = NOBODY
        self._queues: list[str] = []

    async def rehearse(self, worker: int, queues: Sequence[str]) -> None:
        """See Store.rehearse. Behind a transaction pooler sessions are anybody's."""
        self._worker, self._queues = worker, list(queues)
        if self._db.pooled:
            return
        self._db.rehearse(self._run)
        with suppress(StoreError):  # whoever claims next says what is wrong
            async with self._db.connection(self._db.deadline) as connection:
                await self._run(connection)

    async def _run(self, connection: Any) -> None:
        with suppress(*GONE):
            heads = schemas.call("lane_heads", 1, self._db.schema)
            lanes = await connection.fetch(heads, self._queues, timeout=LONGEST)
            with suppress(asyncpg.PostgresError):  # there is something to claim, and nobody may have it
                for lane in lanes[:1]:
                    args = (lane["lane"], NOBODY, 1, 1)
                    await connection.fetchrow(self._claims.plain, *args, timeout=LONGEST)
            # A flush of nothing leaves nothing behind, and is refused where the worker is not alive any more.
            finish = schemas.call("finish", 13, self._db.schema)
            nothing: list[Any] = [[], [], [], [], *[None] * 7]
            await connection.fetchrow(finish, self._worker, NO_FLUSH, *nothing, timeout=LONGEST)
