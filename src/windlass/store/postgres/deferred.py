"""Deferred jobs on PostgreSQL: the bounded steps that move jobs into lanes, and bring parents and jobs that
come after others up to date [P9] [P12]."""

from __future__ import annotations

import logging
import math
import time
from typing import Any, Final

from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.flow.limits import Limits
from windlass.store.postgres.parents import Parents
from windlass.store.records import Promoted

PARENTS_STEP: Final = 100
FOLLOW_STEP: Final = 500
SERVE_SECONDS: Final = 0.2
"""For how long one promotion takes steps of one kind; the next one comes at once."""
CANCEL_STEP: Final = 50
"""Each of these is ended by itself, while claims of its lane wait."""
SWEEP_STEP: Final = 500
SWEEP_PAUSE: Final = 10.0
"""Seconds between two looks for passes of jobs that have ended, by one store."""

logger: Final = logging.getLogger("windlass.store")


class Deferred:
    """The duties of a coordinator about once a second."""

    def __init__(self, database: Database, limits: Limits, parents: Parents) -> None:
        self._db = database
        self._limits = limits
        self._parents = parents
        self._swept = -math.inf

    async def promote(self, limit: int = 1000) -> Promoted:
        """See Store.promote. It publishes the horizon of holes as well, being called about once a second."""
        self._limits.promoting()
        async with self._db.connection(self._db.deadline) as connection:
            await connection.execute(schemas.call("publish_horizon", 0, self._db.schema))
            waiting = await connection.fetchrow(schemas.call("upkeep", 0, self._db.schema))
            if waiting["pressure"]:
                await connection.execute(schemas.call("note_pressure", 0, self._db.schema))
            if waiting["clock_back"]:
                logger.warning("the database's clock was set back: scheduled jobs are moved to match it")
                while (await self._steps(connection, "clock_back", limit=limit))[0] >= limit:
                    pass
            steps = [name for name in ("settle_rest", "replace_step") if waiting[name]]
            await self._steps(connection, *steps, limit=limit)
            served = True
            if waiting["expired"]:  # first, so that nothing is let through that has waited too long
                served &= await self._all(connection, "end_expired", limit)
            if waiting["put_off"]:
                served &= await self._all(connection, "cancel_put_off", CANCEL_STEP)
            if waiting["advance"] or waiting["cancel"]:
                await self._stir(connection)
            if waiting["signals"]:
                served &= await self._all(connection, "deliver_signals", limit)
            if waiting["passes"]:
                await self._sweep(connection)
            if waiting["follow"]:
                served &= await self._follow(connection, min(limit, FOLLOW_STEP))
            (due,) = await self._steps(connection, "promote", limit=limit)
            # What fell due, or is a part, may have been put aside for its fair key just now.
            aside = due or any(waiting[name] for name in ("admit", "advance", "changed_gates", "follow"))
            if not aside:
                return Promoted(due, next_in=None if served else 0.0)
            gates = await connection.fetchrow(schemas.call("sweep_gates", 1, self._db.schema), limit)
            (admitted,) = await self._steps(connection, "admit", limit=limit)
        return Promoted(due, gates["admitted"] + admitted, gates["next_in"] if served else 0.0)

    async def _stir(self, connection: Any) -> None:
        """Bring parents up to date with parts that ended where nobody did so at once: a rescue, a cancel, a
        worker that died right after its flush [P9]."""
        rows = await connection.fetch(schemas.query("unheard_cancels", self._db.schema), PARENTS_STEP)
        await self._parents.advance(connection, [row["id"] for row in rows], cancel=True)
        rows = await connection.fetch(schemas.call("parents_to_advance", 1, self._db.schema), PARENTS_STEP)
        await self._parents.advance(connection, [row["parent"] for row in rows], wait=0)

    async def _follow(self, connection: Any, limit: int) -> bool:
        """Serve those who come after jobs that have ended, as far as their enders could not; whether all of
        them are served [P12]. The end of one may be the end of the next."""
        until = time.monotonic() + SERVE_SECONDS
        while time.monotonic() < until:
            row = await connection.fetchrow(schemas.call("follow", 1, self._db.schema), limit)
            if row["around"]:
                return True
        return False

    async def _all(self, connection: Any, name: str, limit: int) -> bool:
        """Take bounded steps of one kind, while each finds as much as it may; whether that was all."""
        until = time.monotonic() + SERVE_SECONDS
        while (await self._steps(connection, name, limit=limit))[0] >= limit:
            if time.monotonic() >= until:
                return False
        return True

    async def _sweep(self, connection: Any) -> None:
        """Now and then look for passes of jobs that have ended, so that no gate stays shut [F3]."""
        now = time.monotonic()
        if now - self._swept >= SWEEP_PAUSE:
            self._swept = now
            await self._steps(connection, "sweep_passes", limit=SWEEP_STEP)

    async def _steps(self, connection: Any, *functions: str, limit: int = 1000) -> list[int]:
        """Bounded steps of moving jobs into lanes, one after another, each a transaction of its own."""
        return [
            await connection.fetchval(schemas.call(name, 1, self._db.schema), limit) for name in functions
        ]
