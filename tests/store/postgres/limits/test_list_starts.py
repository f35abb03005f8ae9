"""Where waiting lists begin: what has left one is not walked over again, and nobody who joins below the start
is overlooked [rule 14] [F3] [F6] [S2]."""

import json
import re

import pytest

from tests.stock import BOTH
from tests.stopwatch import within
from tests.store.postgres.kit import Base, Session
from tests.store.postgres.limits.test_runs import KINDS, OVERLOOKED, Runs, numbers, runs
from tests.store.postgres.plans import blocks, explained, plans

__all__ = ["runs"]

pytestmark = BOTH

KEYS = ("ordering_key", "concurrency_key")
START = "SELECT turn FROM windlass.list_start WHERE gate = $1 ORDER BY no DESC LIMIT 1"
STARTS = "SELECT count(*) FROM windlass.list_start WHERE gate = $1"
FROM = "SELECT turn FROM windlass.list_from($1)"
LIVED = 100
"""Jobs of a list by whose end its start has been written: each is one in sixteen."""


async def live(runs: Runs, kind: str, n: int = LIVED) -> int:
    """Run so many jobs of a list, one after the other, until its start is known, and return that."""
    gate = runs.gate(kind)
    async with within(20):
        while await runs.base.look.value(START, gate) is None:
            await runs.enqueue(n, **runs.options(kind))
            assert sorted(await runs.drain(n))
    start: int = await runs.base.look.value(START, gate)
    return start


async def insert(session: Session, runs: Runs, kind: str) -> int:
    """A job of the list in a transaction of somebody else's."""
    return await session.enqueue("t", **runs.options(kind))


@pytest.mark.parametrize("kind", KEYS)
async def test_one_that_commits_late_is_found(runs: Runs, kind: str) -> None:
    """It took its turn before those who have come and gone since."""
    (session,) = await runs.base.sessions(1)
    gate = runs.gate(kind)
    await live(runs, kind)
    await session.begin()
    late = await insert(session, runs, kind)
    turn = await session.value("SELECT turn FROM windlass.held WHERE id = $1", late)
    n = 0
    async with within(20):
        while await runs.base.look.value(START, gate) <= turn:
            await runs.enqueue(20, **runs.options(kind))
            n += len(await runs.drain(20))
    await session.commit()
    assert await runs.base.look.value(OVERLOOKED, gate) == 0
    assert await runs.drain(1) == [late]
    await runs.enqueue(3, **runs.options(kind))
    assert len(await runs.drain(3)) == 3
    assert await runs.base.look.value(OVERLOOKED, gate) == 0


@pytest.mark.parametrize("kind", KEYS)
async def test_one_that_came_late_and_has_no_room_yet_stays_found(runs: Runs, kind: str) -> None:
    """The look that takes its note lets nobody in, and the next one still finds it."""
    (session,) = await runs.base.sessions(1)
    gate = runs.gate(kind)
    await live(runs, kind)
    await session.begin()
    late = await insert(session, runs, kind)
    turn = await session.value("SELECT turn FROM windlass.held WHERE id = $1", late)
    async with within(20):
        while await runs.base.look.value(START, gate) <= turn:
            await runs.enqueue(20, **runs.options(kind))
            await runs.drain(20)
    await runs.enqueue(1, **runs.options(kind))
    (running,) = await runs.claim()
    await session.commit()
    for _ in range(3):
        await runs.base.look.value("SELECT windlass.admit_gates($1, 10)", [gate])
        assert await runs.base.look.value(OVERLOOKED, gate) == 0
    assert [job.id for job in await runs.end(running)] == [late]


@pytest.mark.parametrize("kind", KINDS)
async def test_those_who_go_back_to_their_turns_are_found(runs: Runs, kind: str) -> None:
    """What is left of a run is put back below the start that was written when it was handed over."""
    gate = runs.gate(kind)
    await live(runs, kind)
    for _ in range(20):
        _, jobs = await runs.start(9, kind)
        assert numbers(jobs) == [1, 2, 3, 4, 5]
        await runs.released(*jobs, follow=0)
        assert await runs.base.look.value(OVERLOOKED, gate) == 0
        assert len(await runs.drain(8)) == 8
        assert await runs.base.look.value(OVERLOOKED, gate) == 0
    assert await runs.base.look.value(STARTS, gate) <= 1


@pytest.mark.parametrize("kind", KINDS)
async def test_under_a_snapshot_a_long_list_costs_what_a_short_one_does(runs: Runs, kind: str) -> None:
    """[S2] Somebody holds a snapshot open while thousands leave the list."""
    (pinned,) = await runs.base.sessions(1)
    gate = [runs.gate(kind)]
    await live(runs, kind)
    await pinned.begin("repeatable read")
    await pinned.value("SELECT count(*) FROM windlass.queue")

    async def one_more() -> int:
        """What it costs to look at the gate with somebody in the list and one that runs."""
        await runs.enqueue(2, **runs.options(kind))
        jobs = await runs.claim()
        cost = await blocks(runs.base.look, "SELECT windlass.admit_gates($1, 10)", gate)
        for _ in range(2):
            jobs = await runs.end(*jobs)
        assert jobs == []
        return cost

    before = min([await one_more() for _ in range(3)])
    for _ in range(4):
        await runs.enqueue(500, **runs.options(kind))
        jobs = await runs.claim()
        while jobs:
            jobs = await runs.end(*jobs, follow=60, room=100)
    after = min([await one_more() for _ in range(3)])
    await pinned.rollback()
    assert after <= 2 * before + 100


async def test_notes_of_other_gates_are_not_read(alone: Base) -> None:
    """[rule 8] Where there were none when the statistics were taken, two indexes look the same."""
    await alone.lane()
    runs = Runs(alone, await alone.store(), await alone.worker())
    gate = runs.gate("concurrency_key")
    await live(runs, "concurrency_key")
    await runs.store.promote()
    assert await alone.look.value("SELECT count(*) FROM windlass.changed_gate") == 0
    await alone.look.run("ANALYZE windlass.changed_gate")
    session, other = await alone.sessions(2)
    await explained(session)
    await other.begin()
    await other.run("SELECT pg_current_xact_id()")
    options = [json.dumps({"concurrency_key": f"{alone.queue}.{n}"}) for n in range(1000)]
    await alone.look.run(
        "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', array_fill('{}'::text, ARRAY[1000]), $2)",
        alone.queue,
        options,
    )
    await session.enqueue(concurrency_key=alone.queue)
    async with plans(session) as found:
        assert await session.value("SELECT windlass.admit_gates($1, 10)", [gate]) == 1
    await other.rollback()
    assert [s for s in found.scans(re.compile("changed_gate")) if s.touched > 10] == []


async def test_serializable_producers_of_a_long_list_do_not_fail_each_other(runs: Runs) -> None:
    """[E1] Neither reads what the other has noted, nor where the other's job joins."""
    kind = "concurrency_key"
    one, two = await runs.base.sessions(2)
    await live(runs, kind)
    await runs.enqueue(2000, **runs.options(kind))
    assert await runs.base.look.value(START, runs.gate(kind)) is not None
    for session in (one, two):
        await session.begin("serializable")
        await session.value("SELECT count(*) FROM windlass.queue")
    for session in (one, two):
        await insert(session, runs, kind)
    await one.commit()
    await two.commit()


async def test_a_copy_begins_its_lists_anew(runs: Runs) -> None:
    """[rule 15] Its transactions have other numbers, so what was noted before one of them says nothing."""
    await live(runs, "concurrency_key")
    base = runs.base
    async with within(20):
        while not await base.look.value("SELECT noted > '0' FROM windlass.gate_look"):
            await runs.enqueue(2)
            await runs.store.promote()
            await runs.drain(2)
    await base.look.begin()
    await base.look.run("SELECT windlass.adopt_copy()")
    assert await base.look.value("SELECT count(*) FROM windlass.list_start") == 0
    assert await base.look.value("SELECT noted = '0' FROM windlass.gate_look")
    await base.look.rollback()
    assert await base.look.value(FROM, "key:of nobody") == 0


async def test_starts_of_lists_that_are_gone_are_removed(alone: Base) -> None:
    """[K6]"""
    await alone.lane()
    runs = Runs(alone, await alone.store(), await alone.worker())
    await live(runs, "concurrency_key")
    await runs.store.expire()
    assert await alone.look.value("SELECT count(*) FROM windlass.list_start") == 0
    await runs.enqueue(5)
    assert len(await runs.drain(5)) == 5
