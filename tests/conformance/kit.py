"""What the conformance tests hold in their hands: a store, its clock, and short ways to say common things.

Nothing here writes rows: every state is reached through the store's own operations.
"""

import itertools
import secrets
import time
from collections.abc import Sequence
from typing import Any, Protocol

import asyncpg
import msgspec

from tests.postgres import Server
from windlass.core.abilities import NONE
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.fields import Field, Unit
from windlass.store.postgres import PostgresStore
from windlass.store.protocol import Store
from windlass.store.records import (
    JOB_OPTIONS,
    Claim,
    ClaimedJob,
    Depth,
    Failure,
    Finished,
    JobFilter,
    JobRecord,
    NewJob,
    Options,
    Outcome,
    ParentRecord,
    PartPlan,
    PartRecord,
    Plan,
    Receipt,
    Rescued,
    Room,
    WorkerInfo,
)
from windlass.store.settings import StoreSettings

OPTION_FIELDS = frozenset(Options.__struct_fields__)
PLAN_FIELDS = frozenset(Plan.__struct_fields__) - {"parts"}
POLICY = DeathPolicy()


class Clock(Protocol):
    """The store's time, which a test may move forward."""

    async def advance(self, seconds: float) -> None:
        """Let this much time pass for the store."""


class HandClock:
    """A clock that stands still but for one millisecond a reading, so that no two moments are the same."""

    def __init__(self) -> None:
        self._now = time.time()

    def __call__(self) -> float:
        self._now += 0.001
        return self._now

    async def advance(self, seconds: float) -> None:
        self._now += seconds


class ServerClock:
    """The clock of a PostgreSQL schema: real time and an offset that the test sets."""

    def __init__(self, dsn: str, schema: str = "windlass") -> None:
        self._dsn = dsn
        self._schema = schema
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def install(self) -> None:
        """Replace the one function that tells the time by one that adds the offset."""
        await (await self._connected()).execute(
            f"""
            CREATE TABLE {self._schema}.test_clock (offset_s float8 NOT NULL);
            INSERT INTO {self._schema}.test_clock VALUES (0);
            GRANT SELECT ON {self._schema}.test_clock TO public;
            CREATE OR REPLACE FUNCTION {self._schema}.now() RETURNS timestamptz LANGUAGE sql VOLATILE AS
            $$ SELECT clock_timestamp() + make_interval(secs => offset_s) FROM {self._schema}.test_clock $$
            """
        )

    async def advance(self, seconds: float) -> None:
        await (await self._connected()).execute(
            f"UPDATE {self._schema}.test_clock SET offset_s = offset_s + $1", seconds
        )

    async def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connected(self) -> "asyncpg.Connection[asyncpg.Record]":
        if self._connection is None:
            self._connection = await asyncpg.connect(self._dsn)
        return self._connection


def sample(field: Field, after: int = 1) -> dict[str, Any]:
    """An option that a job carries, not as by default, and the one beside it; by the names in `Options`."""
    by_unit: dict[Unit, Any] = {
        "time": 7.5, "attempts": 7, "jobs": 7, "key": "k", "text": "a text", "tags": ("a", "b"),
        "headers": {"a": "b"}, "ids": (after,), "abilities": "big-memory,gpu",
    }  # fmt: skip
    value = field.choices[-1] if field.choices else by_unit[field.unit]
    return {field.kept: value, **(sample(JOB_OPTIONS[field.beside], after) if field.beside else {})}


def unsaid(record: msgspec.Struct) -> set[str]:
    """Names of the fields that are as by default: a test that means all of them has none."""
    return {
        info.name
        for info in msgspec.structs.fields(record)
        if getattr(record, info.name) in (info.default, info.default_factory)
    }


def job(task: str = "t", **fields: Any) -> NewJob:
    """A job to enqueue; fields of its options may be given directly."""
    options = {name: fields.pop(name) for name in OPTION_FIELDS & fields.keys()}
    return NewJob(task=task, payload=fields.pop("payload", "{}"), options=Options(**options), **fields)


def failure(message: str = "boom") -> Failure:
    """An error as a worker reports it: attempt and time are the store's to fill in."""
    return Failure("ValueError", message, "Traceback ...")


async def make_template(server: Server, settings: StoreSettings) -> str:
    """Migrate a database that others are copied from, and give it a clock that can be moved."""
    name = server.create_database()
    store = PostgresStore(server.dsn(name), settings=settings)
    await store.migrate()
    await store.close()
    clock = ServerClock(server.dsn(name))
    await clock.install()
    await clock.close()
    return name


class Rig:
    """A store with its clock, and what most tests need of it."""

    def __init__(self, store: Store, clock: Clock, name: str, *, lends: bool = True) -> None:
        """`lends` says whether handlers get transactions of their own from this store."""
        self.store = store
        self.clock = clock
        self.name = name
        self.lends = lends
        self._flushes: dict[int, itertools.count[int]] = {}
        self._abilities: dict[int, frozenset[str]] = {}

    # -- producers --------------------------------------------------------------------------------------

    async def add(self, *tasks: str, **fields: Any) -> list[int]:
        """Enqueue one job per task name in one call and return their ids."""
        return [receipt.id for receipt in await self.store.enqueue([job(task, **fields) for task in tasks])]

    async def one(self, task: str = "t", **fields: Any) -> Receipt:
        """Enqueue one job."""
        (receipt,) = await self.store.enqueue([job(task, **fields)])
        return receipt

    # -- workers ----------------------------------------------------------------------------------------

    async def worker(self, *queues: str, **about: Any) -> int:
        """Register a worker that says it serves these queues, and return its id."""
        worker = secrets.randbits(62) + 1
        info = WorkerInfo(id=worker, label=f"w-{worker}", host="here", pid=1, queues=queues, **about)
        await self.store.register(info)
        self._flushes[worker] = itertools.count(1)
        self._abilities[worker] = info.abilities
        return worker

    async def claims(self, worker: int, *queues: str, limit: int = 100) -> list[Claim]:
        """Claim from these queues ("default" when none is named)."""
        able = self._abilities.get(worker, NONE)
        return await self.store.claim(worker, queues or ("default",), limit, abilities=able)

    async def claim(self, worker: int, *queues: str, limit: int = 100) -> list[ClaimedJob]:
        """The jobs of one call to claim, in the order of the answer."""
        return [job for claim in await self.claims(worker, *queues, limit=limit) for job in claim.jobs]

    async def run(self, worker: int, id: int, *queues: str) -> ClaimedJob:
        """Claim one job, which must be this one."""
        (claimed,) = await self.claim(worker, *queues, limit=1)
        assert claimed.id == id
        return claimed

    async def finish(
        self, worker: int, jobs: ClaimedJob | Sequence[ClaimedJob], kind: Kind = Kind.SUCCEEDED, **fields: Any
    ) -> Finished:
        """End these attempts all alike, in the worker's next flush."""
        jobs = [jobs] if isinstance(jobs, ClaimedJob) else jobs
        return await self.flush(worker, [Outcome(job=job, kind=kind, **fields) for job in jobs])

    async def flush(self, worker: int, outcomes: Sequence[Outcome], room: Room | None = None) -> Finished:
        """Send outcomes as the worker's next flush."""
        return await self.store.finish(worker, self.next_flush(worker), outcomes, room)

    async def die(self, worker: int, policy: DeathPolicy = POLICY) -> Rescued:
        """The worker is gone without a word, and somebody rescues its jobs."""
        rescued = await self.store.rescue(worker, await self.heartbeat_of(worker), policy)
        assert rescued is not None
        return rescued

    async def heartbeat_of(self, worker: int) -> int:
        """Where the worker's heartbeat counter stands, as an observer reads it."""
        return next(record.heartbeat for record in await self.store.workers() if record.id == worker)

    def next_flush(self, worker: int) -> int:
        """The number of the worker's next flush."""
        return next(self._flushes[worker])

    async def lead(self, candidate: int) -> int:
        """Lead for 30 s and return the term; nobody else may be leading."""
        term = await self.store.lead(candidate, 30)
        assert term is not None, "somebody else leads"
        return term

    # -- roads to a state -------------------------------------------------------------------------------

    async def bring(self, state: State, worker: int, task: str = "t", **fields: Any) -> int:
        """Make a job stand in this state and return its id; the default queue must be empty."""
        if state is State.SCHEDULED:
            return (await self.one(task, delay=3600, **fields)).id
        id = (await self.one(task, chunked=state is State.SPLITTING, **fields)).id
        if state is State.READY:
            return id
        claimed = await self.run(worker, id)
        if state is State.RETRYING:
            await self.finish(worker, claimed, Kind.RETRY, delay=3600, error=failure())
        elif state not in (State.RUNNING, State.SPLITTING):
            await self.finish(worker, claimed, Kind(state.value))
        return id

    # -- parents ----------------------------------------------------------------------------------------

    async def split(self, worker: int, job: ClaimedJob, parts: int = 3, **plan: Any) -> None:
        """Split a claimed job into so many parts, each of size 10."""
        plans = [PartPlan(f"[{index}]", size=10) for index in range(parts)]
        await self.store.split(worker, self.next_flush(worker), job, Plan(parts=plans, **plan))

    async def parent(self, worker: int, parts: int = 3, **fields: Any) -> int:
        """A job that was split into so many parts; the default queue must be empty. Fields of the plan may be
        given beside those of the job."""
        plan = {name: fields.pop(name) for name in PLAN_FIELDS & fields.keys()}
        (id,) = await self.add("t", chunked=True, **fields)
        await self.split(worker, await self.run(worker, id), parts, **plan)
        return id

    async def parent_record(self, id: int) -> ParentRecord:
        """The parent, which must exist, brought up to date with its parts."""
        await self.store.promote()
        record = await self.store.parent(id)
        assert record is not None, f"parent {id} is not found"
        return record

    async def strip(self, id: int) -> list[PartRecord]:
        """Every part of a parent that is up to date; their states alone are the same [P10]."""
        await self.store.promote()
        parts = await self.store.parts(id)
        assert await self.store.part_states(id) == [part.state for part in parts]
        return parts

    async def states(self, id: int) -> list[State]:
        """How every part of a parent stands."""
        return [part.state for part in await self.strip(id)]

    # -- looking ----------------------------------------------------------------------------------------

    async def look(self, id: int) -> JobRecord:
        """The job, which must exist."""
        record = await self.store.job(id)
        assert record is not None, f"job {id} is not found"
        return record

    async def state(self, id: int) -> State | None:
        """The job's state, or None where there is no such job."""
        record = await self.store.job(id)
        return record.state if record else None

    async def depth(self, queue: str = "default") -> Depth:
        """How many jobs of one queue stand where, without the age of the oldest and what was ever offered."""
        depth = (await self.store.depth([queue])).get(queue, Depth())
        return msgspec.structs.replace(depth, oldest=None, offered=0)

    async def offered(self, queue: str = "default") -> int:
        """How often a job was put into a lane of this queue."""
        return (await self.store.depth([queue])).get(queue, Depth()).offered

    async def listing(self, **filters: Any) -> list[JobRecord]:
        """Every job of a listing, over all its pages."""
        found: list[JobRecord] = []
        cursor: str | None = None
        while True:
            page = await self.store.jobs(JobFilter(**filters), 50, cursor)
            found += page.jobs
            cursor = page.cursor
            if cursor is None:
                return found

    async def turn(self, times: int = 10) -> None:
        """Force the logs to turn, often enough for every segment to have had its turn."""
        for _ in range(times):
            await self.store.rotate(force=True)
