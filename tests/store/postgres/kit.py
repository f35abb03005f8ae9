"""Real connections that a test steps by hand, and short ways to say what happens on them.

A schedule is a list of steps of several sessions. No step waits for luck: where a session must be blocked
before the next step, the test waits until PostgreSQL says so (`Base.blocked`), and where the engine leaves
something alone for a while, the test waits for exactly that moment (`Base.probe_due`).
"""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Literal

import asyncpg

from tests.conformance.kit import ServerClock
from tests.stopwatch import within
from windlass.core.states import Kind
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.outcomes import write
from windlass.store.postgres.rows import decode_options
from windlass.store.records import ClaimedJob, Finished, Outcome

Isolation = Literal["read committed", "repeatable read", "serializable"]
PATIENCE = 20.0


class Session:
    """One connection. Statements outside `begin` and `commit` are transactions of their own."""

    def __init__(self, connection: Any, queue: str) -> None:
        self.connection = connection
        self.queue = queue
        self.pid: int = connection.get_server_pid()

    async def run(self, sql: str, *args: Any) -> None:
        """A statement whose answer does not matter."""
        await self.connection.execute(sql, *args)

    async def value(self, sql: str, *args: Any) -> Any:
        """The first column of the first row."""
        return await self.connection.fetchval(sql, *args)

    async def row(self, sql: str, *args: Any) -> Any:
        """The first row."""
        return await self.connection.fetchrow(sql, *args)

    async def rows(self, sql: str, *args: Any) -> list[Any]:
        """Every row."""
        found: list[Any] = await self.connection.fetch(sql, *args)
        return found

    async def begin(self, isolation: Isolation = "read committed") -> None:
        """Open a transaction."""
        await self.run(f"BEGIN ISOLATION LEVEL {isolation}")

    async def commit(self) -> None:
        """Commit it."""
        await self.run("COMMIT")

    async def rollback(self) -> None:
        """Roll it back."""
        await self.run("ROLLBACK")

    async def enqueue(self, task: str = "t", **options: Any) -> int:
        """The SQL interface, options by name; into the test's own queue unless told otherwise."""
        options.setdefault("queue", self.queue)
        named = "".join(f", {name} => ${i}" for i, name in enumerate(options, 2))
        job: int = await self.value(f"SELECT windlass.enqueue($1{named})", task, *options.values())
        return job


@dataclass(frozen=True)
class Answer:
    """What a claim answered."""

    status: str
    claim: int
    jobs: list[ClaimedJob]

    @property
    def ids(self) -> list[int]:
        """The ids of the jobs, in the order of the answer."""
        return [job.id for job in self.jobs]

    @property
    def seqs(self) -> list[int]:
        """Their positions."""
        return [job.seq for job in self.jobs]


def answer(lane: int, row: Any) -> Answer:
    """A claim's row as jobs."""
    fields = ("seqs", "ids", "tasks", "payloads", "options", "attempts", "deaths", "enqueued", "offered")
    jobs = [
        ClaimedJob(
            lane << 44 | seq if id is None else id, lane, row["claim"], seq, task, payload, "", 2,
            attempt, deaths, decode_options(options), enqueued,
            enqueued if offered is None else offered,
        )
        for seq, id, task, payload, options, attempt, deaths, enqueued, offered in zip(
            *(row[field] or [] for field in fields), strict=True
        )
    ]  # fmt: skip
    return Answer(row["status"], row["claim"], jobs)


class Base:
    """A migrated database, a queue of the test's own, and an observer that is never in a transaction."""

    def __init__(self, dsn: str, queue: str, stack: AsyncExitStack, observer: Session) -> None:
        self.dsn = dsn
        self.queue = queue
        self.look = observer
        self._stack = stack
        self._flushes: dict[int, itertools.count[int]] = {}

    async def session(self, dsn: str | None = None, **settings: str) -> Session:
        """One more connection, closed after the test."""
        session = await connect(dsn or self.dsn, self.queue, **settings)
        self._stack.push_async_callback(_hang_up, session)
        return session

    async def sessions(self, n: int) -> list[Session]:
        """Several of them."""
        return [await self.session() for _ in range(n)]

    async def store(self, dsn: str | None = None, **fields: Any) -> PostgresStore:
        """An opened store on this database."""
        store = PostgresStore(dsn or self.dsn, **{"head_cache": 0.0, "dump_grace": 0.0, **fields})
        self._stack.push_async_callback(store.close)
        await store.open()
        return store

    async def clock(self) -> ServerClock:
        """A clock that the test moves, in place of the real one. Only for a database of the test's own."""
        clock = ServerClock(self.dsn)
        self._stack.push_async_callback(clock.close)
        await clock.install()
        return clock

    async def lane(self, queue: str | None = None, priority: int = 2) -> int:
        """A lane, declared if need be: of the test's own queue unless told otherwise."""
        lane: int = await self.look.value(
            "SELECT windlass.declare_lane($1, $2)", queue or self.queue, priority
        )
        return lane

    async def worker(self) -> int:
        """A registered worker."""
        worker = secrets.randbits(62) + 1
        await self.look.run("SELECT windlass.register($1, 'w', 'here', 1, '{}')", worker)
        self._flushes[worker] = itertools.count(1)
        return worker

    # -- claim and finish -------------------------------------------------------------------------------

    async def claim(self, lane: int, worker: int, limit: int = 100, *, by: Session | None = None) -> Answer:
        """One call of the claim procedure."""
        return answer(
            lane, await (by or self.look).row("CALL windlass.claim($1, $2, $3, 100)", lane, worker, limit)
        )

    async def claim_late(self, lane: int, worker: int, limit: int = 100) -> Answer:
        """A claim that looks into the holes."""
        await self.probe_due(lane)
        return await self.claim(lane, worker, limit)

    async def finish(
        self,
        worker: int,
        jobs: Sequence[ClaimedJob],
        kind: Kind = Kind.SUCCEEDED,
        *,
        flush: int | None = None,
        by: Session | None = None,
        **fields: Any,
    ) -> Finished:
        """End these attempts all alike, in the worker's next flush unless told which."""
        outcomes = [Outcome(job=job, kind=kind, **fields) for job in jobs]
        return await self.flush(worker, outcomes, flush, by=by)

    async def flush(
        self,
        worker: int,
        outcomes: Sequence[Outcome],
        number: int | None = None,
        *,
        by: Session | None = None,
    ) -> Finished:
        """Send outcomes: as the worker's next flush, or again as the one of this number."""
        number = next(self._flushes[worker]) if number is None else number
        finished, _ = await write((by or self.look).connection, "windlass", worker, number, outcomes, set())
        return finished

    async def drain(self, lane: int, worker: int, limit: int = 100) -> list[int]:
        """Claim and finish until nothing is left, holes included; the ids in the order they came."""
        ids: list[int] = []
        async with within(PATIENCE):
            while (got := await self.claim(lane, worker, limit)).status != "empty":
                ids += got.ids
                if got.jobs:
                    await self.finish(worker, got.jobs)
                else:
                    await asyncio.sleep(0.02)
        return ids

    # -- looking ----------------------------------------------------------------------------------------

    async def cursor(self, lane: int) -> Any:
        """The cursor row of a lane."""
        return await self.look.row("SELECT * FROM windlass.cursor_of($1)", lane)

    async def holes(self, lane: int) -> int:
        """How many numbers the cursor carries as holes."""
        return int((await self.cursor(lane))["holes"])

    async def depth(self, lane: int) -> int:
        """How many jobs wait in a lane, by position."""
        return int(await self.look.value("SELECT windlass.lane_depth($1)", lane))

    async def state(self, job: int) -> str | None:
        """The job's state as the view shows it; a job shown twice fails."""
        rows = await self.look.rows("SELECT state FROM windlass.job WHERE id = $1", job)
        assert len(rows) <= 1, f"job {job} is shown {len(rows)} times"
        return rows[0][0] if rows else None

    # -- waiting for events -----------------------------------------------------------------------------

    async def until(self, sql: str, *args: Any) -> None:
        """Wait until a query answers true."""
        async with within(PATIENCE):
            while not await self.look.value(sql, *args):  # noqa: ASYNC110 - the event is in the server
                await asyncio.sleep(0.005)

    async def blocked(self, session: Session) -> None:
        """Wait until a session waits for a lock that another one holds."""
        await self.until("SELECT cardinality(pg_blocking_pids($1)) > 0", session.pid)

    async def probe_due(self, lane: int) -> None:
        """Wait for the moment from which a claim looks into the lane's holes again."""
        sql = (
            "SELECT date_part('epoch', c.probed_at + windlass.probe_pause(c) - clock_timestamp()) "
            "FROM windlass.cursor_of($1) AS c"
        )
        while (left := await self.look.value(sql, lane)) > 0:  # noqa: ASYNC110 - as above
            await asyncio.sleep(left)


async def connect(dsn: str, queue: str, **settings: str) -> Session:
    """A session that nobody closes for the caller."""
    return Session(await asyncpg.connect(dsn, server_settings=settings), queue)


async def _hang_up(session: Session) -> None:
    with contextlib.suppress(TimeoutError):
        await session.connection.close(timeout=2)
