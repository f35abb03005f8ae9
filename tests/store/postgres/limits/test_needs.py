"""Claims that take tokens, and claims of queues with a limit, under concurrency [F1] [F2] [F3]."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.store.postgres.kit import Answer, Base, Session, answer
from windlass.core.states import Kind
from windlass.store.budgets import bucket_key
from windlass.store.fields import NewBudget
from windlass.store.records import Need, NewJob

CLAIM = "CALL windlass.claim($1, $2, $3, 10000, p_needs => $4, p_limited => $5)"
TAKE = """
SELECT windlass.at_places(t.seqs, n.stays) AS seqs, n.busy FROM windlass.claim_take($1, $2, 100) AS t
 CROSS JOIN LATERAL windlass.claim_places($1, t.seqs, t.ids) AS p
 CROSS JOIN LATERAL windlass.claim_tokens($1, t.claim, $3, p.stays, t.seqs, p.jobs, t.tasks, t.payloads,
                                         t.options) AS n
"""
TOKENS = "SELECT windlass.bucket_tokens($1, $2)"
VALUE = "SELECT windlass.bucket_key(windlass.need_value($1, $2, $3))"
LOCK = "SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)"


def needs_of(budget: str, **need: object) -> str:
    """What jobs of task t need."""
    return json.dumps({"t": [{"budget": budget, **need}]})


async def budget(base: Base, burst: int, name: str | None = None) -> str:
    """A budget of the test's own, full, that does not refill within a test."""
    name = name or base.queue
    await (await base.store()).declare_budget(NewBudget(name=name, rate=0.0, burst=burst))
    return name


async def add(base: Base, n: int, queue: str | None = None) -> None:
    """Plain jobs of task t."""
    await base.look.run(
        "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', array_fill('{}'::text, ARRAY[$2::int]))",
        queue or base.queue, n,
    )  # fmt: skip


async def claim(
    by: Session, lane: int, worker: int, needs: str | None, *, limit: int = 100, limited: bool = False
) -> Answer:
    """One call of the claim procedure with what it must heed."""
    return answer(lane, await by.row(CLAIM, lane, worker, limit, needs, limited))


async def test_a_claim_that_rolls_back_gives_its_tokens_back(base: Base) -> None:
    """[F1] Tokens, claim and those set aside are one transaction."""
    lane, worker, name = await base.lane(), await base.worker(), await budget(base, 3)
    await add(base, 5)
    dying = await base.session()
    await dying.begin()
    await dying.run(LOCK, lane)
    row = await dying.row(TAKE, lane, worker, needs_of(name))
    assert len(row["seqs"]) == 3
    await base.look.run("SELECT pg_terminate_backend($1)", dying.pid)
    await base.until("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", dying.pid)
    assert await base.look.value(TOKENS, name, "") == 3
    assert await base.look.value("SELECT count(*) FROM windlass.held WHERE queue = $1", base.queue) == 0
    assert len((await claim(base.look, lane, worker, needs_of(name))).jobs) == 3


async def test_two_claims_share_the_tokens_of_a_bucket(base: Base) -> None:
    """[F1] The second waits for the first, and finds what is left."""
    name, worker = await budget(base, 5), await base.worker()
    lanes = [await base.lane(), await base.lane(priority=1)]
    for priority in (1, 2):
        await base.look.run(
            "SELECT windlass.enqueue_many($1, $2::smallint, '{t}', array_fill('{}'::text, ARRAY[4]))",
            base.queue, priority,
        )  # fmt: skip
    first, second = await base.sessions(2)
    await first.begin()
    await first.run(LOCK, lanes[0])
    assert len((await first.row(TAKE, lanes[0], worker, needs_of(name)))["seqs"]) == 4
    meeting = asyncio.create_task(claim(second, lanes[1], worker, needs_of(name)))
    await base.blocked(second)
    await first.commit()
    assert len((await meeting).jobs) == 1
    assert await base.look.value("SELECT count(*) FROM windlass.held WHERE gate = $1", f"budget:{name}/") == 3


async def test_a_job_set_aside_is_in_one_place(base: Base) -> None:
    """[F1] It is ready, not running, and can be cancelled; its worker does not hold it."""
    lane, worker, name = await base.lane(), await base.worker(), await budget(base, 1)
    await add(base, 3)
    (given,) = (await claim(base.look, lane, worker, needs_of(name))).jobs
    jobs = [given.id + 1, given.id + 2]
    assert [await base.state(job) for job in (given.id, *jobs)] == ["running", "ready", "ready"]
    store = await base.store()
    assert [job.id for held in await store.unfinished(worker) for job in held.jobs] == [given.id]
    assert await store.cancel([jobs[0]]) == {jobs[0]: "cancelled"}
    assert [await base.state(job) for job in jobs] == ["cancelled", "ready"]
    depth = (await store.depth([base.queue]))[base.queue]
    assert (depth.ready, depth.running) == (1, 1)


async def test_a_job_set_aside_outlives_the_turn_of_the_logs(alone: Base) -> None:
    """[F1] [rule 7] Its row in the log has ended; it comes back by the line."""
    lane, worker, name = await alone.lane(), await alone.worker(), await budget(alone, 1)
    await add(alone, 2)
    store = await alone.store()
    (given,) = (await claim(alone.look, lane, worker, needs_of(name))).jobs
    await alone.finish(worker, [given])
    for _ in range(10):
        assert (await store.rotate(force=True)).offered_again == 0
    await store.give_back(name, 1)
    await store.promote()
    assert (await claim(alone.look, lane, worker, needs_of(name))).ids == [given.id + 1]


async def test_jobs_behind_those_set_aside_are_found(base: Base) -> None:
    """[F1] Where a whole round had to go aside, the same call looks further."""
    lane, worker, name = await base.lane(), await base.worker(), await budget(base, 1)
    await (await base.store()).take(name, 1)
    await add(base, 25)
    other = await base.look.enqueue("other")
    assert (await claim(base.look, lane, worker, needs_of(name), limit=5)).ids == [other]


async def test_one_let_out_for_nothing_goes_back_to_its_place(base: Base) -> None:
    """[F1] The tokens it was let out for were taken by hand meanwhile."""
    lane, worker, name = await base.lane(), await base.worker(), await budget(base, 1)
    store = await base.store()
    await store.take(name, 1)
    await add(base, 3)
    assert (await claim(base.look, lane, worker, needs_of(name))).jobs == []
    line = "SELECT array_agg(id ORDER BY turn) FROM windlass.held WHERE gate = $1"
    before = await base.look.value(line, f"budget:{name}/")
    await store.give_back(name, 1)
    await store.promote()
    await store.take(name, 1)
    assert (await claim(base.look, lane, worker, needs_of(name))).jobs == []
    assert await base.look.value(line, f"budget:{name}/") == before


async def test_tokens_promised_to_those_let_out_are_left_for_them(base: Base) -> None:
    """[F1] One that comes through the lane before them does not take theirs."""
    lane, worker, name = await base.lane(), await base.worker(), await budget(base, 1)
    store = await base.store()
    await store.take(name, 1)
    first = await base.look.enqueue()
    assert (await claim(base.look, lane, worker, needs_of(name))).jobs == []
    await store.give_back(name, 1)
    newcomer = await base.look.enqueue()
    await store.promote()
    assert (await claim(base.look, lane, worker, needs_of(name), limit=1)).ids == [first]
    assert (
        await base.look.value("SELECT gate FROM windlass.held WHERE id = $1", newcomer) == f"budget:{name}/"
    )


@pytest.mark.parametrize(
    "payload",
    [
        '{"a": "x"}', '{"a": null}', '{"b": 1}', '{"a": 7.50}', '{"a": {"b": [1,  2]} }',
        '{"*": [1, "y"], "b": 2}', '["p", "q"]', "[1]", "[]",
        '{"a": "\\u00e9\\n"}', '{"a": true, "*": ["z", "w"]}', '{"*": [1, null]}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", [None, 0, 1])
async def test_sql_finds_the_bucket_that_python_finds(base: Base, payload: str, place: int | None) -> None:
    """[F1]"""
    for argument in ("a", None):
        need = Need("x", argument=argument, place=place)
        key = await base.look.value(VALUE, payload, argument, place)
        assert key == bucket_key(payload, need)
    long = json.dumps({"a": "é" * 300})
    assert await base.look.value(VALUE, long, "a", None) == "é" * 255


async def test_claims_of_two_lanes_heed_the_limit_of_their_queue(base: Base) -> None:
    """[F3] The second waits for the first, and counts what it has given out."""
    lanes, worker = [await base.lane(), await base.lane(priority=1)], await base.worker()
    store = await base.store()
    await store.set_queue(base.queue, {"concurrency": 3})
    for priority in (1, 2):
        await store.enqueue([NewJob(task="t", payload="{}", queue=base.queue, priority=priority)] * 4)
    first, second = await base.sessions(2)
    assert (await claim(first, lanes[0], worker, None)).status == "limited", "who knows of no limit is told"
    await first.begin()
    await first.run("SELECT windlass.queue_lock($1, 0)", lanes[0])
    meeting = asyncio.create_task(claim(second, lanes[1], worker, None, limit=2, limited=True))
    await base.blocked(second)
    await first.rollback()
    two = await meeting
    assert len(two.jobs) == 2
    (third,) = (await claim(first, lanes[0], worker, None, limited=True)).jobs
    assert (await claim(first, lanes[0], worker, None, limited=True)).status == "full"
    await base.finish(worker, two.jobs[:1])
    assert len((await claim(first, lanes[0], worker, None, limited=True)).jobs) == 1
    await base.finish(worker, [third], Kind.RETRY, delay=3600.0)
    assert len((await claim(first, lanes[1], worker, None, limited=True)).jobs) == 1


async def test_a_limit_counts_what_ran_before_it_was_set(base: Base) -> None:
    """[F3] And again after it was taken away and set anew."""
    lane, worker = await base.lane(), await base.worker()
    store = await base.store()
    await add(base, 10)
    assert len((await claim(base.look, lane, worker, None, limit=2)).jobs) == 2
    await store.set_queue(base.queue, {"concurrency": 3})
    assert len((await claim(base.look, lane, worker, None, limited=True)).jobs) == 1
    await store.set_queue(base.queue, {"concurrency": None})
    assert len((await claim(base.look, lane, worker, None, limit=3)).jobs) == 3
    await store.set_queue(base.queue, {"concurrency": 7})
    assert len((await claim(base.look, lane, worker, None, limited=True)).jobs) == 1


@asynccontextmanager
async def under_way(base: Base, lane: int, worker: int, *, n: int) -> AsyncIterator[asyncio.Task[Answer]]:
    """A claim of n jobs that has read every limit, and waits for a bucket; the block ends the wait."""
    name = await budget(base, 10)
    await add(base, n)
    holder, claimer = await base.sessions(2)
    await holder.begin()
    await holder.run("SELECT FROM windlass.bucket WHERE budget = $1 FOR UPDATE", name)
    claiming = asyncio.create_task(claim(claimer, lane, worker, needs_of(name)))
    await base.blocked(claimer)
    try:
        yield claiming
    finally:
        await holder.rollback()
        await claiming


async def test_a_limit_of_a_task_that_is_set_during_a_claim_counts_its_jobs(alone: Base) -> None:
    """[F3] [fault 35] Nobody gave them a pass, neither who set the limit nor the claim: with a limit of 2
    there ran 3, and another 2 were let in beside them."""
    lane, worker, store = await alone.lane(), await alone.worker(), await alone.store()
    async with under_way(alone, lane, worker, n=3) as claiming:
        await store.set_task("t", {"concurrency": 2})
        await store.enqueue([NewJob(task="t", payload="{}", queue=alone.queue)] * 2)
        await store.promote()
    running = (await claiming).jobs + (await claim(alone.look, lane, worker, None)).jobs
    await store.promote()
    running += (await claim(alone.look, lane, worker, None)).jobs
    assert len(running) == 2
    ran = len(running)
    while running:
        await alone.finish(worker, running)
        await store.promote()
        running = (await claim(alone.look, lane, worker, None)).jobs
        assert len(running) <= 2
        ran += len(running)
    assert ran == 5


async def test_a_limit_of_a_task_that_is_committed_late_counts_what_began_before(alone: Base) -> None:
    """[F3] [fault 35] Who sets it counts before the commit: what was claimed in between was not counted."""
    lane, worker, store = await alone.lane(), await alone.worker(), await alone.store()
    (operator,) = await alone.sessions(1)
    await operator.begin()
    await operator.run("""SELECT windlass.set_task('t', '{"concurrency": 2}')""")
    await add(alone, 2)
    running = (await claim(alone.look, lane, worker, None)).jobs
    assert len(running) == 2
    await operator.commit()
    await add(alone, 1)
    await store.promote()
    assert (await claim(alone.look, lane, worker, None)).jobs == []
    await alone.finish(worker, running[:1])
    await store.promote()
    assert len((await claim(alone.look, lane, worker, None)).jobs) == 1


async def test_a_limit_of_a_queue_that_is_set_during_a_claim_counts_its_jobs(alone: Base) -> None:
    """[F3] [fault 35] The first who counted did not see the claim, and nobody counted again."""
    lane, other, worker = await alone.lane(), await alone.lane(priority=1), await alone.worker()
    store = await alone.store()
    await store.enqueue([NewJob(task="t", payload="{}", queue=alone.queue, priority=1)] * 2)
    async with under_way(alone, lane, worker, n=1) as claiming:
        await store.set_queue(alone.queue, {"concurrency": 2})
        assert (await claim(alone.look, other, worker, None, limited=True)).status == "busy"
    running = (await claiming).jobs
    assert len(running) == 1
    running += (await claim(alone.look, other, worker, None, limited=True)).jobs
    assert len(running) == 2
    assert (await claim(alone.look, other, worker, None, limited=True)).status == "full"
    await alone.finish(worker, running[:1])
    assert len((await claim(alone.look, other, worker, None, limited=True)).jobs) == 1
