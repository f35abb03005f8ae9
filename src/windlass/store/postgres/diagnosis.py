"""The checks of `windlass doctor` on a PostgreSQL store. Nothing here writes.

Each check gives one finding, or one for each thing that is wrong. What this role may not see is a finding,
too: a check that was not made is no good report."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Final

from windlass.core.counts import plural
from windlass.core.rollup import EVER
from windlass.errors import StoreForbidden
from windlass.store import findings
from windlass.store.measures import unpack
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.claims import Claims
from windlass.store.postgres.connections.database import SPARE, Database
from windlass.store.postgres.connections.listener import Listener
from windlass.store.postgres.connections.pooler import LOAN, TOO_SMALL, Pooling, lends
from windlass.store.records import Finding

SUPPORTED: Final = range(15, 19)
CLOCK_LIMIT: Final = 1.0
SLOW: Final = 0.25
"""Seconds that counting the queues may take beyond the round trip."""
CROWDED: Final = 0.8
"""The part of the server's connections from which on somebody should know."""
HELD: Final = 5.0
"""Seconds after which an open transaction that holds what others want is reported [S2]."""
OLD: Final = 3600.0
"""Seconds after which a snapshot or prepared transaction is reported."""


BEHIND: Final = 10_000
"""Claims that are not counted: as many of a lane are counted when somebody asks, see `ended` in SQL."""


class Diagnosis:
    """Looks at a store that is open."""

    def __init__(self, database: Database, listener: Listener, claims: Claims) -> None:
        self._db = database
        self._listener = listener
        self._claims = claims

    async def diagnose(self) -> list[Finding]:
        """See Store.diagnose."""
        looks: dict[str, Callable[[], AsyncIterator[Finding]]] = {
            "schema": self._schema,
            "server": self._server,
            "writes": self._writes,
            "pooler": self._pooler,
            "connections": self._connections,
            "speed": self._speed,
            "wake-ups": self._wake_ups,
            "polling": self._polling,
            "queues": self._unserved,
            "budgets": self._over,
            "groups": self._circles,
            "counts": self._counts,
            "rotation": self._rotation,
            "locks": self._locks,
            "snapshots": self._snapshots,
        }
        found: list[Finding] = []
        for name, look in looks.items():
            try:
                found += [each async for each in look()]
            except StoreForbidden as error:
                hidden = f"this role may not see it: {str(error).partition('. ')[0]}"
                advice = "Run the doctor as a role of kind reader or worker (windlass.allow)."
                found.append(findings.warning(name, hidden, advice))
        return found

    async def _schema(self) -> AsyncIterator[Finding]:
        async with self._db.connection() as connection:
            version, stamped = await schemas.version_of(connection, self._db.schema)
        message = f"schema {self._db.schema!r} is at version {version}"
        if stamped == schemas.fingerprint(self._db.schema):
            yield findings.ok("schema", f"{message}, with the functions of this Windlass")
        else:
            yield findings.error(
                "schema",
                f"{message}, but its functions are those of another Windlass",
                "Run `windlass migrate` with the newest Windlass that is in use.",
            )

    async def _server(self) -> AsyncIterator[Finding]:
        before = time.time()
        (row,) = await self._db.query("server")
        after = time.time()
        if row["number"] // 10000 in SUPPORTED:
            yield findings.ok("server", f"PostgreSQL {row['version']}")
        else:
            yield findings.warning(
                "server",
                f"PostgreSQL {row['version']} is not a version tested with Windlass",
                f"Use PostgreSQL {SUPPORTED[0]} to {SUPPORTED[-1]}.",
            )
        # The server read its clock at some moment between the two: only what lies outside is a difference.
        away = max(before - row["now"], row["now"] - after, 0.0)
        if away <= CLOCK_LIMIT:
            yield findings.ok("clock", "this machine and the server agree on the time")
        else:
            yield findings.warning(
                "clock",
                f"this machine's clock is {away:.1f} s away from the server's",
                "Schedules go by the server's clock, so they look early or late here; let both keep time by "
                "NTP.",
            )

    async def _writes(self) -> AsyncIterator[Finding]:
        if self._db.read_only:
            yield findings.warning(
                "writes",
                f"{self._db.read_only}; no worker runs jobs from here",
                "Point workers and producers at the primary: several hosts in the URL with "
                "target_session_attrs=read-write find it.",
            )

    async def _pooler(self) -> AsyncIterator[Finding]:
        """A supervisor uses a few connections at once. Where the pooler has too few, the server seems
        slow."""
        if self._db.pooling is Pooling.NONE:
            return
        wanted = SPARE + 1
        lent = await lends(wanted, self._db.connect)
        message = f"there is a pooler in {self._db.pooling.value} mode, which gives"
        if lent == wanted:
            yield findings.ok("pooler", f"{message} {wanted} connections at once")
        else:
            yield findings.warning(
                "pooler",
                f"{message} no more than {lent} of {wanted} connections at once within {LOAN:g} s: a "
                "worker with one process may need as many, and one more for each other process",
                f"Enlarge its pool: {TOO_SMALL}.",
            )

    async def _connections(self) -> AsyncIterator[Finding]:
        (row,) = await self._db.query("connections")
        message = f"{row['used']} of the server's {row['most']} connections are in use"
        if row["used"] < CROWDED * row["most"]:
            yield findings.ok("connections", message)
        else:
            yield findings.warning(
                "connections",
                message,
                "Raise max_connections, or use fewer: a worker needs one for each process and about three "
                "for its supervisor, and a process that enqueues one.",
            )

    async def _speed(self) -> AsyncIterator[Finding]:
        compiled = [row["name"] for row in await self._db.query("compiled")]
        if compiled:
            yield findings.warning(
                "speed",
                f"jit is on, and the server compiles {plural(len(compiled), 'function')} anew at each call, "
                f"such as {compiled[0]}: calls take up to a hundred times longer",
                "Run `windlass migrate`, or ALTER FUNCTION … SET jit = off where somebody has reset it.",
            )
            return
        took: list[float] = []
        for look, name in ((self._db.query, "server"), (self._db.rows, "depth"), (self._db.rows, "depth")):
            before = time.monotonic()
            await look(name)
            took.append(time.monotonic() - before)
        # The first count may have to plan; the second is what workers and pages wait for.
        counted = took[2] - took[0]
        if counted <= SLOW:
            yield findings.ok("speed", f"counting the queues takes {max(counted, 0.001) * 1e3:.0f} ms")
        else:
            yield findings.warning(
                "speed",
                f"counting the queues takes {counted * 1e3:.0f} ms, usually a few; the round trip "
                f"takes {took[0] * 1e3:.1f} ms",
                "Look at the server's load, and for a transaction that keeps dead rows from being removed.",
            )

    async def _wake_ups(self) -> AsyncIterator[Finding]:
        if self._db.read_only:
            return  # nobody may listen there, and nobody needs to
        every = f"{self._listener.idle_poll:g} s"
        if self._db.pooled:
            yield findings.warning(
                "wake-ups",
                "the pooler is in transaction mode: NOTIFY does not arrive, and statements are "
                f"not prepared, so workers poll every {every} and each statement costs more",
                "Give the workers a URL of the server itself; producers may keep the pooler.",
            )
        elif await self._listener.check(10.0):
            yield findings.ok("wake-ups", "NOTIFY arrives")
        else:
            yield findings.warning(
                "wake-ups",
                f"a NOTIFY did not arrive within a second; workers poll every {every} instead",
                "Look for a proxy or pooler between here and the server that drops notifications.",
            )

    async def _polling(self) -> AsyncIterator[Finding]:
        if not self._db.read_only:
            queues = [row["name"] for row in await self._db.query("queues", None) if row["name"] is not None]
            yield findings.ok("polling", str(await self._claims.polling(queues)))

    async def _unserved(self) -> AsyncIterator[Finding]:
        rows = await self._db.query("unserved")
        for found in findings.unserved((row["queue"], row["waiting"]) for row in rows):
            yield found

    async def _over(self) -> AsyncIterator[Finding]:
        rows = await self._db.query("over")
        for found in findings.over((row["budget"], row["waiting"], row["need"]) for row in rows):
            yield found

    async def _circles(self) -> AsyncIterator[Finding]:
        rows = await self._db.query("circles", findings.CIRCLES)
        for found in findings.circles((row["group_end"], row["job"]) for row in rows):
            yield found

    async def _counts(self) -> AsyncIterator[Finding]:
        (row,) = await self._db.query("uncounted_claims", BEHIND)
        if row["claims"] >= BEHIND:
            yield findings.warning(
                "counts",
                f"{plural(row['claims'], 'claim', most=BEHIND)} are not counted yet, so counters of ended "
                "jobs may be too low",
                "Run `windlass maintain counts --once`; a running worker does it by itself.",
            )
            return
        ended = [row["n"] for row in await self._db.rows("ended") if row["kind"] == "succeeded"]
        reported = [
            unpack(row["sample"], 0, "", "").counts.get("succeeded", 0)
            for row in await self._db.query("measured", EVER, "", "", 0, 1)
        ]
        yield findings.counts(sum(ended), sum(reported))

    async def _rotation(self) -> AsyncIterator[Finding]:
        rows = await self._db.query("blocked_rotation")
        for row in rows:
            yield findings.warning(
                "rotation",
                f"{_segment(row['victim'])} could not be reclaimed for {_span(row['seconds'])}: "
                f"{row['blocked']}",
                "End that transaction: SELECT pg_terminate_backend(PROCESS), or ROLLBACK PREPARED.",
            )
        if not rows:
            yield findings.ok("rotation", "nothing keeps the logs from being reclaimed")

    async def _locks(self) -> AsyncIterator[Finding]:
        rows = await self._db.query("hold_ups", HELD)
        for row in rows:
            yield findings.warning(
                "locks",
                f"{row['who']} has been in a transaction for {_span(row['seconds'])} and holds "
                f"{row['what']}: calls that need these wait until it ends",
                "Let it commit, or end it with SELECT pg_terminate_backend(PROCESS) or ROLLBACK PREPARED; "
                "give such sessions an idle_in_transaction_session_timeout.",
            )
        if not rows:
            yield findings.ok("locks", "no open transaction holds what others want")

    async def _snapshots(self) -> AsyncIterator[Finding]:
        rows = await self._db.query("old_snapshots", OLD)
        for row in rows:
            yield findings.warning(
                "snapshots",
                f"{row['who']} has held its snapshot for {_span(row['seconds'])}: dead rows of the whole "
                "server stay until it ends",
                "End it, or give it an idle_in_transaction_session_timeout.",
            )
        if not rows:
            yield findings.ok("snapshots", "no visible transaction is older than an hour")


def _segment(victim: int | None) -> str:
    """None: the rotation has let go of the one that was blocked, and will take it up again."""
    return "a segment" if victim is None else f"segment {victim}"


def _span(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))
