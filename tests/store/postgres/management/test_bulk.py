"""Many jobs managed at once: what the set-based statements read, whom they wait for, what they write [O6]."""

import asyncio
import json
import re
from datetime import timedelta
from typing import Any

import pytest

from tests.store.postgres.kit import Base, Session, answer
from tests.store.postgres.plans import explained, plans
from windlass.core.states import Kind
from windlass.store.postgres.enqueue import enqueue_call
from windlass.store.records import Failure, NewJob, Options

TABLES = re.compile(r"(ready|claim|outcome|failure)_\d|dead|deferred|held|part|parent|ended_otherwise")
N = 20
FEW = 12 * N
"""More rows than a step for N jobs needs to look at in any one table."""
BATCH = 500
ADD = """
SELECT windlass.enqueue_many($1, 2::smallint, '{t}', array_fill('{}'::text, ARRAY[$2::int]))
"""
LATER = """
SELECT windlass.enqueue('t', queue => $1, delay => interval '1 h') FROM generate_series(1, $2::int)
"""
PLACES = "SELECT * FROM windlass.places_of($1)"
ERROR = Failure("ValueError", "boom", "Traceback ...")


RETRIES = ("SELECT windlass.retry($1)", "SELECT windlass.retry_many(ARRAY[$1::bigint])")


async def add(base: Base, n: int) -> list[int]:
    """Plain jobs at the back of the test's lane."""
    ids: list[int] = await base.look.value(ADD, base.queue, n)
    return ids


async def kill(base: Base, lane: int, worker: int, n: int) -> list[int]:
    """So many jobs, dead."""
    ids = await add(base, n)
    while (got := await base.claim(lane, worker, BATCH)).jobs:
        await base.finish(worker, got.jobs, Kind.DEAD, error=ERROR)
    return ids


# -- what they read -------------------------------------------------------------------------------------


async def checked(session: Session, sql: str, *args: object) -> list[Any]:
    """Run a step and answer with its rows: index scans only, and few rows of each table."""
    async with plans(session) as found:
        rows = await session.rows(sql, *args)
    for scan in found.scans(TABLES):
        assert scan.kind in ("Index Scan", "Index Only Scan"), scan
        assert scan.touched <= FEW, scan
    return rows


async def check_all(base: Base, session: Session, lane: int, worker: int) -> None:
    """Every step, with N jobs that it deals with."""
    ids = await kill(base, lane, worker, N)
    assert await checked(session, "SELECT unnest(windlass.retry_many($1)) ORDER BY 1", ids) == [
        (id,) for id in ids
    ]
    got = await base.claim(lane, worker, N)
    assert got.ids == ids
    await base.finish(worker, got.jobs, Kind.DEAD, error=ERROR)
    assert len(await checked(session, "SELECT unnest(windlass.delete_dead($1))", ids)) == N
    ids = await add(base, N)
    places = await checked(session, PLACES, ids)
    assert [row["job"] for row in places] == ids
    seqs = [id & (1 << 44) - 1 for id in ids]
    cancelled = await checked(session, "SELECT unnest(windlass.end_in_lane($1, $2, 'cancelled'))", lane, seqs)
    assert len(cancelled) == N
    await checked(session, PLACES, ids)
    ended = await checked(session, "SELECT unnest(windlass.delete_ended($1, $2))", [lane] * N, seqs)
    assert len(ended) == N
    later = [await session.enqueue(delay=timedelta(hours=1)) for _ in range(N)]
    assert len(await checked(session, "SELECT unnest(windlass.end_aside($1, 'cancelled'))", later)) == N
    assert await checked(session, "SELECT unnest(windlass.end_aside($1, 'deleted'))", ids) == []


async def test_steps_for_many_read_little_however_many_there_are(alone: Base) -> None:
    """[rule 8] One session from the empty tables on, and one that is new when they are full."""
    lane, worker = await alone.lane(), await alone.worker()
    cached = await alone.session()
    await explained(cached)
    for _ in range(3):
        await check_all(alone, cached, lane, worker)
    await kill(alone, lane, worker, 2 * BATCH)
    await add(alone, 2 * BATCH)
    await alone.look.run(LATER, alone.queue, 2 * BATCH)
    new = await alone.session()
    await explained(new)
    for session in (cached, new):
        await check_all(alone, session, lane, worker)


async def test_a_bulk_of_any_kind_is_one_statement_that_costs_the_same_for_each_job(alone: Base) -> None:
    """[E1] Delayed and keyed jobs took a statement each, 16,000 of them 16 s. However many there are, each
    reads as much, with plans that were made while there was nothing."""
    await alone.lane()
    await alone.look.run("ANALYZE")
    read: list[float] = []
    for n in (50, 50, 1000):
        call = enqueue_call(
            "windlass",
            [
                NewJob(
                    task="t", payload="{}", queue=alone.queue, delay=60.0 if place % 3 else None,
                    idempotency_key=f"{len(read)} {place}" if place % 2 else None,
                    options=Options(unique_key=f"{len(read)} {place}" if place % 5 else None),
                )
                for place in range(n)
            ],
        )  # fmt: skip
        explain = await alone.look.value(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call.sql}", *call.args)
        top = json.loads(explain)[0]["Plan"]
        read.append((top["Shared Hit Blocks"] + top["Shared Read Blocks"]) / n)
    assert read[2] <= 1.5 * read[1] + 5, read


# -- what they write, and whom they wait for ------------------------------------------------------------


async def test_many_cancelled_are_one_claim_and_one_outcome(base: Base) -> None:
    """[rule 13] However many: a lane gets one row of worker 0, and is none the longer to walk."""
    lane, worker = await base.lane(), await base.worker()
    ids = await add(base, 100)
    store = await base.store()
    assert set((await store.cancel(ids[:90])).values()) == {"cancelled"}
    rows = await base.look.rows("SELECT n FROM windlass.claim WHERE lane = $1 AND worker = 0 AND n > 0", lane)
    assert [row["n"] for row in rows] == [90]
    assert await base.depth(lane) == 10
    assert await base.drain(lane, worker) == ids[90:]


async def test_a_retry_of_many_leaves_rows_that_another_holds(base: Base) -> None:
    """It waits for nobody, so two of them cannot meet crosswise; what it left is retried by itself."""
    lane, worker = await base.lane(), await base.worker()
    ids = await kill(base, lane, worker, 5)
    other = await base.session()
    await other.begin()
    assert await other.value("SELECT windlass.retry($1)", ids[2]) == "retried"
    assert sorted(await base.look.value("SELECT windlass.retry_many($1)", ids)) == sorted({*ids} - {ids[2]})
    await other.rollback()
    store = await base.store()
    assert await store.retry(ids) == {id: "retried" if id == ids[2] else "unchanged" for id in ids}
    assert sorted(await base.drain(lane, worker)) == sorted(ids)


async def test_a_cancel_of_many_waits_for_the_claim_in_flight_and_takes_the_rest(base: Base) -> None:
    """[C1] [O5] What the claim took runs, and its worker is told; the others are cancelled."""
    lane, worker = await base.lane(), await base.worker()
    ids = await add(base, 6)
    store = await base.store()
    claimer = await base.session()
    await claimer.begin()
    await claimer.run("SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)", lane)
    got = answer(lane, await claimer.row("SELECT * FROM windlass.claim_take($1, $2, 2)", lane, worker))
    cancel = asyncio.create_task(store.cancel(ids))
    await base.until(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = $1"
        " AND classid = windlass.lock_space()::oid)",
        lane,
    )
    await claimer.commit()
    answers = await cancel
    assert got.ids == ids[:2]
    assert answers == {id: "requested" if id in got.ids else "cancelled" for id in ids}
    assert await base.drain(lane, worker) == []


@pytest.mark.parametrize("delay", [None, 3600.0])
async def test_two_who_cancel_the_same_jobs_of_many_lanes_do_not_meet_crosswise(
    base: Base, delay: float | None
) -> None:
    """[O5] Each job is cancelled once; whoever comes second is told that it has ended."""
    store, other = await base.store(), await base.store()
    jobs = [
        NewJob(task="t", payload="{}", queue=base.queue, priority=place % 4, delay=delay)
        for place in range(200)
    ]
    ids = [receipt.id for receipt in await store.enqueue(jobs)]
    first, second = await asyncio.gather(store.cancel(ids), other.cancel(ids[::-1]))
    assert all({first[id], second[id]} == {"cancelled", "finished"} for id in ids)
    assert (await store.depth([base.queue]))[base.queue].ready == 0


async def test_jobs_retried_together_wake_who_waits(base: Base) -> None:
    """[rule 10] Numbers first, then the idle mark: a worker that waits hears of them."""
    lane, worker = await base.lane(), await base.worker()
    ids = await kill(base, lane, worker, 3)
    store = await base.store()
    assert await store.claim(worker, [base.queue], 10) == []
    waiting = asyncio.create_task(store.wait([base.queue], 20.0))
    other = await base.store()
    await other.retry(ids)
    assert await waiting
    assert [job.id for claim in await store.claim(worker, [base.queue], 10) for job in claim.jobs] == ids


@pytest.mark.parametrize("retry", RETRIES)
async def test_a_dead_job_that_was_brought_back_counts_as_what_it_became(alone: Base, retry: str) -> None:
    """[O6] [P12] One that comes after it is enqueued while it ends well, and looked at once it is gone. Where
    the note of its first end stands, that job ends dead without having run."""
    lane, worker = await alone.lane(), await alone.worker()
    (first,) = await kill(alone, lane, worker, 1)
    await alone.look.value(retry, first)
    got = await alone.claim(lane, worker)
    assert got.ids == [first]
    (producer,) = await alone.sessions(1)
    await producer.begin()
    after = await producer.enqueue(after=[first])
    await alone.finish(worker, got.jobs)
    assert await alone.look.value("SELECT windlass.delete($1)", first) == "deleted"
    await producer.commit()
    await (await alone.store()).promote()
    assert await alone.drain(lane, worker) == [after]
