"""[S2] [fault 27] Nobody's open transaction stops the chores, claims or outcomes of others.

Each function that users, producers or handlers may call in a transaction of their own is called, and its
transaction is left open. Meanwhile all chores run, for that queue and another one: none waits for long, and
of the other queue nothing is left undone. When it has ended, what was passed over is found again."""

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from tests.postgres import Server
from tests.stopwatch import Stopwatch
from tests.store.postgres.claims.open_calls import RUNS, Scene, calls
from tests.store.postgres.conftest import based
from tests.store.postgres.kit import Base, Session
from tests.store.postgres.schema.test_headers import FUNCTIONS, callers
from windlass.cluster import duties, schedules
from windlass.core.states import Kind
from windlass.store.postgres import PostgresStore
from windlass.store.records import NewJob, Outcome

LONG = 2.0
"""Seconds that one chore may take. One that waits without a bound is cut off after STUCK milliseconds."""
STUCK = 20_000

WHOLE = {"adopt"}
"""What an operator does to the whole store, while nobody else may do anything."""
LAST = {"finish"}
"""What the store itself says at the end of a handler's transaction, and commits right after."""


def public() -> list[str]:
    """The functions that may be called in somebody's own transaction, as their headers say."""
    said = [name for name in FUNCTIONS if re.search(r"users|adapters|own transaction", callers(name))]
    granted = [name for name, each in FUNCTIONS.items() if each.may_call == {"worker", "producer"}]
    return sorted({*said, *granted, "declare_lane"} - WHOLE - LAST)


@pytest.fixture(scope="module")
def dsn(pg_server: Server, pg_template: str) -> str:
    """A database of these tests' own: what is kept for a time is kept for none."""
    return pg_server.dsn(pg_server.create_database(template=pg_template))


@pytest.fixture
async def base(dsn: str) -> AsyncIterator[Base]:
    """Sessions on it."""
    async with based(dsn) as base:
        await base.look.run("UPDATE windlass.meta SET idempotency_retention = 0")
        yield base


@pytest.fixture
async def store(base: Base) -> PostgresStore:
    """One whose statements fail where they wait without a bound."""
    return await base.store(f"{base.dsn}?options=-c%20statement_timeout%3D{STUCK}")


class Chores:
    """Runs what a cluster runs, and notes what took how long."""

    def __init__(self, store: PostgresStore, candidate: int) -> None:
        self.store = store
        self.candidate = candidate
        self.times: dict[str, float] = {}
        self.failed: dict[str, str] = {}

    async def once(self, name: str, chore: Callable[[], Awaitable[Any]]) -> Any:
        watch = Stopwatch()
        try:
            return await chore()
        except Exception as error:  # noqa: BLE001 - all that fail are told of together
            self.failed[name] = repr(error)
        finally:
            self.times[name] = max(self.times.get(name, 0.0), watch.seconds())

    async def all(self) -> None:
        store = self.store
        term = await store.lead(self.candidate, 60.0)
        assert term is not None
        for _ in range(3):  # what follows from what: a job that may go on now is promoted next time
            await self.once("promote", store.promote)
        await self.once("fire", lambda: schedules.fire_due(store, term))
        await self.once("govern", lambda: duties.govern(store, term))
        await self.once("expire", store.expire)
        await self.once("rollup", lambda: duties.rollup(store))
        await self.once("count", lambda: duties.count_ends(store))
        await self.once("assign", lambda: duties.assign_slots(store, term, None))
        await self.once("rotate", store.rotate)
        await self.once("workers", store.workers)
        await store.resign(self.candidate)

    def check(self) -> None:
        assert self.failed == {}
        assert {name: took for name, took in self.times.items() if took > LONG} == {}


@pytest.mark.parametrize("function", public())
async def test_an_open_call_holds_up_nobody_else(base: Base, store: PostgresStore, function: str) -> None:
    """[S2] [fault 27] One open `SELECT windlass.cancel(x)` kept promote of all queues waiting."""
    worker = await base.worker()
    mine, free = await Scene(base, store, worker).build(), await Scene(base, store, worker).build()
    caller = await base.session()
    await caller.begin()
    assert function in calls(mine), f"{function} is public and has no call in open_calls.py"
    for call in calls(mine)[function]:
        await caller.run(f"SELECT windlass.{call}")
    chores = Chores(store, worker)
    await chores.all()
    job = NewJob(task=f"{free.queue}.added", payload="{}", queue=free.queue)
    await chores.once("enqueue", lambda: store.enqueue([job, job]))
    got = await chores.once("claim and finish", free.got)
    outcome = Outcome(job=free.running["runs"], kind=Kind.RETRY, delay=60.0)
    await chores.once("outcome", lambda: store.finish(worker, next(base._flushes[worker]), [outcome]))
    await chores.once("claim here", mine.got)
    outcome = Outcome(job=mine.running["runs_too"], kind=Kind.RETRY, delay=60.0)
    await chores.once("outcome here", lambda: store.finish(worker, next(base._flushes[worker]), [outcome]))
    chores.check()
    assert got == RUNS | {"added"}
    assert await base.state(free.id["dead"]) is None
    assert await base.state(free.id["not_after"]) == "cancelled"
    await caller.rollback()


async def opened(base: Base, mine: Scene) -> list[Session]:
    """Open transactions, one for each function, that hold all they can get beside each other."""
    callers = []
    for made in calls(mine).values():
        caller = await base.session(lock_timeout="10ms", application_name="left-open")
        await caller.begin()
        for call in made:
            await caller.run("SAVEPOINT one")
            try:
                await caller.run(f"SELECT windlass.{call}")
            except asyncpg.LockNotAvailableError:  # another of these has it
                await caller.run("ROLLBACK TO one")
        callers.append(caller)
    return callers


async def test_what_was_passed_over_is_found_again(base: Base, store: PostgresStore) -> None:
    """[S2] [rule 3] The locks of every call at once, and then none: nothing is lost."""
    worker = await base.worker()
    mine = await Scene(base, store, worker).build()
    callers = await opened(base, mine)
    chores = Chores(store, worker)
    await chores.all()
    for caller in callers:
        await caller.rollback()
    await chores.all()
    assert await mine.got() == RUNS


@pytest.mark.soak
async def test_a_minute_of_open_calls(base: Base, store: PostgresStore) -> None:
    """[S2] [fault 27] All of them at once, for a minute; the doctor names them."""
    worker = await base.worker()
    mine = await Scene(base, store, worker).build()
    callers = await opened(base, mine)
    chores = Chores(store, worker)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        free = await Scene(base, store, worker).build()
        await chores.all()
        assert await chores.once("claim and finish", free.got) == RUNS
        chores.check()
    findings = [finding.text for finding in await store.diagnose() if finding.name == "locks"]
    assert findings
    assert all("(left-open) has been in a transaction for 0:01:" in text for text in findings)
    for caller in callers:
        await caller.rollback()
    await chores.all()
    assert await mine.got() == RUNS
