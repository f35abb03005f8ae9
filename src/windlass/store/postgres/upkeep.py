"""Upkeep on PostgreSQL: the bounded steps that move jobs into lanes, bring parents up to date, turn the logs
and forget what is old."""

from __future__ import annotations

import logging
import math
import time
from typing import Any, Final

from windlass.store.postgres import schema as schemas
from windlass.store.postgres.gates import ASIDE
from windlass.store.postgres.parents import Parents
from windlass.store.postgres.rotation import Rotator
from windlass.store.records import Expired, Promoted, Rotation

PARENTS_STEP: Final = 100
FOLLOW_STEP: Final = 500
SWEEP_STEP: Final = 500
SWEEP_PAUSE: Final = 10.0
"""Seconds between two looks for parts that ended unnoticed, by one store."""

logger = logging.getLogger("windlass.store")


class Upkeep(Parents):
    """What a coordinator does about once a second, and from time to time."""

    _rotator: Rotator
    _swept: float = -math.inf
    _sweep_from: int = 0

    # -- moving jobs into lanes -------------------------------------------------------------------------

    async def promote(self, limit: int = 1000) -> Promoted:
        """See Store.promote. It publishes the horizon of holes as well, being called about once a second."""
        self._promoted, self._promoted_at = self._listener.heard_of(ASIDE), time.monotonic()
        async with self._db.connection(self._db.deadline) as connection:
            await connection.execute(schemas.call("publish_horizon", 0, self._db.schema))
            waiting = await connection.fetchrow(schemas.call("upkeep", 0, self._db.schema))
            if waiting["pressure"]:
                await connection.execute(schemas.call("note_pressure", 0, self._db.schema))
            if waiting["clock_back"]:
                logger.warning("the database's clock was set back: what waits for a time goes on from now")
                while (await self._steps(connection, "clock_back", limit=limit))[0] >= limit:
                    pass
            steps = [name for name in ("settle_rest", "replace_step") if waiting[name]]
            await self._steps(connection, *steps, limit=limit)
            if waiting["advance"] or waiting["cancel"]:
                await self._stir(connection)
            if waiting["sweep"] or waiting["passes"]:
                await self._sweep(connection, waiting["passes"])
            if waiting["follow"]:
                await self._steps(connection, "follow", limit=min(limit, FOLLOW_STEP))
            (due,) = await self._steps(connection, "promote", limit=limit)
            # What fell due, or is a part, may have been put aside for its fair key just now.
            aside = waiting["admit"] or waiting["advance"] or waiting["stirred"] or due
            if not aside:
                return Promoted(due)
            gates = await connection.fetchrow(schemas.call("sweep_gates", 1, self._db.schema), limit)
            (admitted,) = await self._steps(connection, "admit", limit=limit)
        return Promoted(due, gates["admitted"] + admitted, gates["again"])

    async def _stir(self, connection: Any) -> None:
        """Bring parents up to date with parts that ended where nobody did so at once: a rescue, a cancel, a
        worker that died right after its flush [P9]."""
        rows = await connection.fetch(schemas.query("unheard_cancels", self._db.schema), PARENTS_STEP)
        await self._advance(connection, [row["id"] for row in rows], cancel=True)
        rows = await connection.fetch(schemas.query("stirred", self._db.schema), PARENTS_STEP)
        await self._advance(connection, [row["parent"] for row in rows], wait=0)

    async def _sweep(self, connection: Any, passes: bool) -> None:
        """Now and then look for parts whose end nobody has noted, so that no parent waits for ever [P9], and
        for passes of jobs that have ended, so that no gate stays shut [F3]."""
        now = time.monotonic()
        if now - self._swept < SWEEP_PAUSE:
            return
        self._swept = now
        if passes:
            await self._steps(connection, "sweep_passes", limit=SWEEP_STEP)
        row = await connection.fetchrow(
            schemas.call("note_missed", 2, self._db.schema), self._sweep_from, SWEEP_STEP
        )
        self._sweep_from = row["last"]
        if row["jobs"]:
            logger.warning(
                "%d parts had ended unnoticed, the first as job %d; is a worker of an older version at work? "
                "Their parents are brought up to date now",
                len(row["jobs"]),
                row["jobs"][0],
            )
            await self._advance(connection, row["parents"])

    async def _steps(self, connection: Any, *functions: str, limit: int = 1000) -> list[int]:
        """Bounded steps of moving jobs into lanes, one after another, each a transaction of its own."""
        return [
            await connection.fetchval(schemas.call(name, 1, self._db.schema), limit) for name in functions
        ]

    # -- room -------------------------------------------------------------------------------------------

    async def rotate(self, *, force: bool = False) -> Rotation:
        """See Store.rotate."""
        return await self._rotator.rotate(force)

    async def expire(self, limit: int = 1000) -> Expired:
        """See Store.expire."""
        row = await self._db.call("expire", limit)
        return Expired(row["dead"], row["keys"], row["workers"], row["parents"], row["more"])
