"""Retention on PostgreSQL [K6]: forgetting what is old, and turning the ring of segments [rule 7].

    begin → seal → touch every lane → count → judge → move → reclaim

Each step is one short transaction, and the state between them is in the database: whoever comes next goes on
where the last one stopped. A victim that somebody has locked is left for another one, or for later.
"""

from __future__ import annotations

from typing import Any, Final

from windlass.errors import StoreError
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.diagnosis import HELD
from windlass.store.records import Expired, Rotation

STEP: Final = 2000
"""Rows that one step moves at most."""

LOCK_WAIT: Final = "100ms"


class Retention:
    """Reclaims segments and forgets what is old. Stateless: what a rotation must remember is in its row."""

    def __init__(self, database: Database, grace: float) -> None:
        self._db = database
        self._grace = grace

    async def rotate(self, *, force: bool = False) -> Rotation:
        """See Store.rotate."""
        skip: list[int] = []
        blocked: str | None = None
        while True:
            victim, turn = await self._row("rotation_begin", force, skip)
            if victim is None:
                return Rotation(blocked=blocked)
            try:
                who = await self._step("rotation_seal", turn)
                if who is None:
                    return await self._reclaim(turn, 0.0 if force else self._grace)
                blocked = f"segment {victim}: {who}"
            except StoreError as error:
                # A lock that was not to be had, or another rotator that was faster.
                if getattr(error.__cause__, "sqlstate", None) not in ("55P03", "WL008"):
                    raise
                held = await self._db.query("hold_ups", HELD)
                who = f"{held[0]['who']} holds {held[0]['what']}" if held else str(error)
                blocked = f"segment {victim}: {who}"
            skip.append(victim)

    async def expire(self, limit: int = 1000) -> Expired:
        """See Store.expire."""
        row = await self._db.call("expire", limit)
        return Expired(row["dead"], row["keys"], row["workers"], row["parents"], row["more"])

    async def _reclaim(self, turn: int, grace: float) -> Rotation:
        moved = again = removed = 0
        lanes = [row["id"] for row in await self._db.query("lanes")]
        for lane in lanes:
            await self._step("rotation_touch", turn, lane)
        await self._count()
        judged = False
        while not judged:
            row = await self._row("rotation_judge", turn, STEP)
            removed, judged = removed + row["removed"], row["done"]
        for lane in lanes:
            after: int | None = 0
            while after is not None:
                row = await self._row("rotation_move", turn, lane, after, STEP)
                moved += row["moved"]
                again += row["offered_again"]
                after = row["next_after"]
        after = 0
        while after is not None:
            row = await self._row("rotation_move_failures", turn, after, STEP)
            after = row["next_after"]
        # Where it is not done, the segment is kept for dumps in progress, and a later rotation takes it up:
        # nothing blocks that, so there is nothing to report.
        row = await self._row("rotation_reclaim", turn, grace)
        return Rotation(row["done"], moved + row["moved"], again, removed)

    async def _count(self) -> None:
        """Count what has ended, to the last claim [M7]: judged claims go. Where another one counts at this
        moment, the judgement finds out whether it has come far enough."""
        more = True
        while more:
            after, more = 0, False
            while after is not None:
                row = await self._row("count_ends", after, STEP)
                more |= row["more"]
                after = row["lane"]

    async def _step(self, function: str, *args: Any) -> Any:
        return (await self._row(function, *args))[0]

    async def _row(self, function: str, *args: Any) -> Any:
        """One step in its own READ COMMITTED transaction that does not wait long for any lock."""
        async with self._db.connection() as connection, connection.transaction(isolation="read_committed"):
            await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'")
            return await connection.fetchrow(schemas.call(function, len(args), self._db.schema), *args)
