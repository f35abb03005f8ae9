"""The coordinator's term fences its writes, by the database's clock [K3]; the slots that it assigns [K1]."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from tests.store.postgres.kit import Base, Session
from tests.worker.line import until
from windlass.cluster.member import Member
from windlass.errors import SchemaMissing
from windlass.settings import Settings

LEAD = "SELECT windlass.lead($1, 30)"
ASSIGN = "SELECT windlass.assign($1, $2)"
SLOTS = "SELECT worker, queue, slots FROM windlass.slot ORDER BY worker, queue"


def slots(*rows: tuple[int, str, int]) -> str:
    """An assignment as `assign` takes it."""
    return json.dumps([{"worker": worker, "queue": queue, "slots": n} for worker, queue, n in rows])


async def table(base: Base) -> list[tuple[Any, ...]]:
    """What is assigned."""
    return [tuple(row) for row in await base.look.rows(SLOTS)]


async def lost(session: Session, term: int, text: str) -> None:
    """An assignment that must be refused for its term."""
    with pytest.raises(asyncpg.PostgresError) as refused:
        await session.value(ASSIGN, term, text)
    assert refused.value.sqlstate == "WL009"


async def test_of_two_that_stand_at_once_one_leads(alone: Base) -> None:
    """[K3] Both have seen that nobody leads; the second waits for the first, and then sees it lead."""
    one, two = await alone.sessions(2)
    await one.begin()
    assert await one.value(LEAD, 1) == 1
    other = asyncio.create_task(two.value(LEAD, 2))
    await alone.blocked(two)
    await one.commit()
    assert await other is None
    assert await one.value(LEAD, 1) == 1, "who renews in time keeps the number"


async def test_a_term_that_ran_out_is_not_renewed_under_its_number(alone: Base) -> None:
    """[K3] Somebody may have led in between, so the number goes up, whoever leads next."""
    clock = await alone.clock()
    assert await alone.look.value(LEAD, 1) == 1
    await clock.advance(31)
    await lost(alone.look, 1, slots())
    assert await alone.look.value(LEAD, 1) == 2
    await alone.look.run("SELECT windlass.resign(2)")
    assert await alone.look.value(LEAD, 2) is None, "nobody resigns for another"
    await alone.look.run("SELECT windlass.resign(1)")
    assert await alone.look.value(LEAD, 2) == 3


async def test_no_term_begins_while_an_assignment_is_under_way(alone: Base) -> None:
    """[K3] The assignment holds the leader row; the next term begins after it, and the old one is refused."""
    clock = await alone.clock()
    worker = await alone.worker()
    one, two = await alone.sessions(2)
    assert await one.value(LEAD, 1) == 1
    await one.begin()
    assert await one.value(ASSIGN, 1, slots((worker, "q", 3)))
    await clock.advance(31)
    other = asyncio.create_task(two.value(LEAD, 2))
    await alone.blocked(two)
    await one.commit()
    assert await other == 2
    await lost(one, 1, slots((worker, "q", 9)))
    assert await table(alone) == [(worker, "q", 3)]


async def test_an_assignment_that_waits_for_a_resignation_is_refused(alone: Base) -> None:
    """[K3] Its first look saw the term; the row that it waited for says that it is over."""
    worker = await alone.worker()
    one, two = await alone.sessions(2)
    assert await one.value(LEAD, 1) == 1
    await two.begin()
    await two.run("SELECT windlass.resign(1)")
    other = asyncio.create_task(lost(one, 1, slots((worker, "q", 3))))
    await alone.blocked(one)
    await two.commit()
    await other
    assert await table(alone) == []


async def test_an_assignment_that_changes_nothing_writes_nothing(alone: Base) -> None:
    """[K1] Not even a row lock: its transaction gets no number. One that changes a row leaves the others."""
    one, two = await alone.worker(), await alone.worker()
    assert await alone.look.value(LEAD, 1) == 1
    assert await alone.look.value(ASSIGN, 1, slots((one, "a", 2), (one, "b", 0), (two, "a", 1)))
    places = "SELECT ctid::text FROM windlass.slot WHERE worker = $1 ORDER BY queue"
    before = await alone.look.rows(places, one)
    await alone.look.begin()
    assert not await alone.look.value(ASSIGN, 1, slots((two, "a", 1), (one, "b", 0), (one, "a", 2)))
    assert await alone.look.value("SELECT pg_current_xact_id_if_assigned()") is None
    await alone.look.commit()
    assert await alone.look.value(ASSIGN, 1, slots((one, "a", 2), (one, "b", 0), (two, "a", 5)))
    assert await alone.look.rows(places, one) == before
    assert await table(alone) == sorted([(one, "a", 2), (one, "b", 0), (two, "a", 5)])


async def test_slots_of_workers_that_are_gone_go(alone: Base) -> None:
    """[K1] Also where the coordinator has not noticed yet."""
    one, two = await alone.worker(), await alone.worker()
    wanted = slots((one, "q", 2), (two, "q", 1), (404, "q", 1))
    assert await alone.look.value(LEAD, 1) == 1
    assert await alone.look.value(ASSIGN, 1, wanted)
    assert await table(alone) == sorted([(one, "q", 2), (two, "q", 1)])
    await alone.look.run("SELECT windlass.retire($1)", one)
    assert await alone.look.value(ASSIGN, 1, wanted)
    assert await table(alone) == [(two, "q", 1)]


async def test_the_view_of_hosts_is_one_statement(alone: Base) -> None:
    """[K1] [K2] Queues with their state, slots of the workers asked for, who serves what."""
    store = await alone.store()
    await store.set_queue("a", {"max_workers": 3, "window": 7})
    await store.throttle("b")
    term = await store.lead(1, 30)
    assert term is not None
    worker = await alone.worker()
    await store.assign(term, {worker: {"a": 3}, 404: {"a": 1}})
    management = await store.cluster_view([worker, 404])
    assert (management.queues["a"].max_workers, management.queues["a"].window) == (3, 7)
    assert management.queues["b"].throttles == 1
    assert 50 < management.queues["b"].cooling <= 60
    assert management.slots == {worker: {"a": 3}}
    assert management.serving == {}, "that worker serves no queue"
    assert [queue.name for queue in await store.queues()] == ["a", "b"]


async def test_a_schema_that_is_gone_is_told_in_lines(alone: Base, caplog: pytest.LogCaptureFixture) -> None:
    """It was dropped under a running worker, for a restore: each chore filled the log with tracebacks, twice
    a second, that said nothing of what to do."""
    member = Member(await alone.store(), Settings(lease=0.6, sweep=60.0), {"mail": None})
    running = asyncio.create_task(member.run())
    try:
        await until(lambda: member.coordinator.term is not None)
        await alone.look.run("DROP SCHEMA windlass CASCADE")
        await until(lambda: "the cluster member failed" in caplog.text)
        await asyncio.sleep(0.3)  # it begins again meanwhile, in vain
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    lines = [each for each in caplog.records if each.name.startswith("windlass")]
    traced = [each.exc_info[1] for each in lines if each.exc_info]
    assert [each for each in traced if isinstance(each, SchemaMissing)] == []  # others were under way then
    failed = [each.getMessage() for each in lines if "the cluster member failed" in each.getMessage()]
    assert len(failed) == len(set(failed))
    assert all("run `windlass migrate`" in each for each in failed)
