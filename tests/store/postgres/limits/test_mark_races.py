"""An ordering key has one mark, whoever writes it at the same moment [F6]."""

import asyncio
import json

import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base, Session
from tests.store.postgres.limits.test_runs import Runs, runs
from windlass.core.states import Kind
from windlass.store.records import Outcome

__all__ = ["runs"]

pytestmark = BOTH

MARKS = "SELECT array_agg(position::int ORDER BY no) FROM windlass.order_mark WHERE queue = $1"


async def imported(session: Session, base: Base, *keys: str) -> None:
    """Jobs of the key that had their turn where they come from."""
    jobs = [
        {
            "key": key,
            "task": "t",
            "queue": base.queue,
            "attempt": 2,
            "in_turn": True,
            "options": {"ordering_key": base.queue},
        }
        for key in keys
    ]
    await session.rows("SELECT * FROM windlass.import_jobs($1, $2)", base.queue, json.dumps(jobs))


async def test_one_is_cancelled_while_those_behind_it_are_put_back(runs: Runs) -> None:
    """The first of a run is to be tried again later, and somebody cancels it during a flush of the others.
    Those keep their order: the one in front was put back already when the place was freed."""
    base = runs.base
    (session,) = await base.sessions(1)
    ids, jobs = await runs.start(6, "ordering_key")
    assert await runs.write(Outcome(job=jobs[0], kind=Kind.RETRY, delay=60)) == []
    assert await base.look.value(MARKS, base.queue) == [6]
    await session.begin()
    assert await session.value("SELECT windlass.end_waiting($1, 'cancelled')", jobs[0].id)
    flush = asyncio.create_task(runs.released(*jobs[1:], room=0))
    await base.until(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))", session.pid
    )
    await session.commit()
    await flush
    assert await base.look.value(MARKS, base.queue) == [2]
    assert await runs.drain(len(ids[2:])) == ids[2:]
    assert await base.look.value(MARKS, base.queue) == [6]


@pytest.mark.parametrize("first", [False, True])
async def test_two_import_jobs_of_a_key(runs: Runs, first: bool) -> None:
    """Each had its turn, and counts; also where the key has had none here yet."""
    base = runs.base
    one, two = await base.sessions(2)
    if not first:
        await imported(base.look, base, "0")
    await one.begin()
    await imported(one, base, "1", "2")
    other = asyncio.create_task(imported(two, base, "3"))
    await base.blocked(two)
    await one.commit()
    await other
    assert await base.look.value(MARKS, base.queue) == [3 if first else 4]


async def test_one_has_its_turn_while_another_is_imported(runs: Runs) -> None:
    """Both count."""
    base = runs.base
    one, two = await base.sessions(2)
    await runs.enqueue(1, ordering_key=base.queue)
    assert len(await runs.drain(1)) == 1
    await two.enqueue(ordering_key=base.queue)
    await one.begin()
    await imported(one, base, "1")
    look = asyncio.create_task(two.value("SELECT windlass.admit_gates($1, 10)", [runs.gate("ordering_key")]))
    await base.blocked(two)
    await one.commit()
    assert await look == 1
    assert await base.look.value(MARKS, base.queue) == [3]
