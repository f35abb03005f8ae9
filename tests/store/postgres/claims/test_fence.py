"""Rescue against the worker's own claims, flushes and heartbeats, each stopped at the worst moment
[rule 6]."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from tests.store.postgres.kit import Base, Session, answer
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind
from windlass.errors import WorkerLost

DECLARE_DEAD = "SELECT windlass.declare_dead($1, $2)"
LOCK = "SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)"
TAKE = "SELECT * FROM windlass.claim_take($1, $2, 10)"
STEP = "SELECT * FROM windlass.rescue_step($1, '{0}', 100)"


async def impatient(base: Base) -> Session:
    """A session that fails rather than waits for a lock."""
    return await base.session(lock_timeout="1ms")


async def test_a_worker_declared_dead_before_the_fence_of_its_claim_gets_nothing(base: Base) -> None:
    """[rule 6] [C5] The claim has the lane and has not looked at its worker yet."""
    lane, worker, other = await base.lane(), await base.worker(), await base.worker()
    job = await base.look.enqueue()
    claimer, rescuer = await base.sessions(2)
    await claimer.begin()
    await claimer.run(LOCK, lane)
    assert await rescuer.value(DECLARE_DEAD, worker, 0)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await claimer.row(TAKE, lane, worker)
    assert refused.value.sqlstate == "WL002"
    await claimer.rollback()
    assert (await base.claim(lane, other)).ids == [job]


async def test_a_worker_is_not_declared_dead_during_its_claim_and_afterwards_is(alone: Base) -> None:
    """[rule 6] [C8] Between its claim's fence and commit nobody declares the worker dead; no job is lost."""
    lane, worker, other = await alone.lane(), await alone.worker(), await alone.worker()
    job = await alone.look.enqueue()
    store = await alone.store()
    claimer, rescuer = await alone.session(), await impatient(alone)
    await claimer.begin()
    await claimer.run(LOCK, lane)
    assert answer(lane, await claimer.row(TAKE, lane, worker)).ids == [job]
    assert await rescuer.value(DECLARE_DEAD, worker, 0) is False
    assert await store.rescue(worker, 0, DeathPolicy()) is None
    await claimer.commit()
    rescued = await store.rescue(worker, 0, DeathPolicy())
    assert rescued is not None
    assert rescued.offered == 1
    got = await alone.claim(lane, other)
    assert (got.ids, got.jobs[0].deaths) == ([job], 1)
    with pytest.raises(WorkerLost):
        await store.heartbeat(worker)


@pytest.mark.parametrize("dead", [True, False])
async def test_a_claim_waits_at_the_fence_for_an_open_declare_dead(base: Base, dead: bool) -> None:
    """[rule 6] It has read its jobs already; it gives them out only if declare_dead is rolled back."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue()
    claimer, rescuer = await base.sessions(2)
    await rescuer.begin()
    assert await rescuer.value(DECLARE_DEAD, worker, 0)
    claim = asyncio.create_task(base.claim(lane, worker, by=claimer))
    await base.blocked(claimer)
    if dead:
        await rescuer.commit()
        with pytest.raises(asyncpg.PostgresError) as refused:
            await claim
        assert refused.value.sqlstate == "WL002"
        assert await base.depth(lane) == 1
    else:
        await rescuer.rollback()
        assert (await claim).ids == [job]


async def test_nothing_of_the_worker_waits_for_a_rescue_that_tries(base: Base) -> None:
    """[rule 6] [C4] A handler finishes in a long transaction; rescue tries, heartbeats and flushes go on."""
    lane, worker = await base.lane(), await base.worker()
    for _ in range(3):
        await base.look.enqueue()
    first, second, third = (await base.claim(lane, worker)).jobs
    handler, rescuer = await base.sessions(2)
    worker_session = await impatient(base)
    await handler.begin()
    assert (await base.finish(worker, [first], by=handler)).applied == 1
    await rescuer.begin()
    assert await rescuer.value(DECLARE_DEAD, worker, 0) is False
    # The rescue's transaction is still open, as is the handler's.
    assert await worker_session.value("SELECT windlass.heartbeat($1)", worker) == []
    assert (await base.finish(worker, [second], by=worker_session)).applied == 1
    await rescuer.commit()
    await handler.commit()
    assert (await base.finish(worker, [third])).applied == 1


async def test_an_old_heartbeat_does_not_declare_a_worker_dead(base: Base) -> None:
    """[rule 6] [C8] The heartbeat moved after the observer read it: before, during and after its commit."""
    worker = await base.worker()
    beater, rescuer = await base.session(), await impatient(base)
    await beater.begin()
    await beater.value("SELECT windlass.heartbeat($1)", worker)
    assert await rescuer.value(DECLARE_DEAD, worker, 0) is False
    await beater.commit()
    assert await rescuer.value(DECLARE_DEAD, worker, 0) is False
    assert await rescuer.value(DECLARE_DEAD, worker, 1) is True
    assert await rescuer.value(DECLARE_DEAD, worker, 0) is True, "dead before is dead"


async def test_a_heartbeat_waits_for_a_rescue_and_learns_of_it(base: Base) -> None:
    """[C5] [C8] It would tell its worker that it lives, and the jobs were already those of others."""
    worker = await base.worker()
    beater, rescuer = await base.sessions(2)
    await rescuer.begin()
    assert await rescuer.value(DECLARE_DEAD, worker, 0) is True
    beating = asyncio.create_task(beater.value("SELECT windlass.heartbeat($1)", worker))
    await base.blocked(beater)
    await rescuer.commit()
    assert await beating is None


@pytest.mark.parametrize("write", ["finish", "checkpoint", "heartbeat"])
async def test_an_old_snapshot_does_not_pass_the_fence(base: Base, write: str) -> None:
    """[rule 6] [C5] At REPEATABLE READ the worker still looks alive; the row lock says it has changed."""
    lane, worker = await base.lane(), await base.worker()
    await base.look.enqueue()
    (job,) = (await base.claim(lane, worker)).jobs
    handler, rescuer = await base.sessions(2)
    await handler.begin("repeatable read")
    await handler.value("SELECT 1")
    assert await rescuer.value(DECLARE_DEAD, worker, 0)
    assert (await rescuer.row(STEP, worker))["offered"] == 1
    checkpoint = "SELECT windlass.checkpoint($1, $2, $3, $4, $5, '{}', 1, 2)"
    writes: dict[str, Callable[[], Awaitable[object]]] = {
        "finish": lambda: base.finish(worker, [job], by=handler),
        "checkpoint": lambda: handler.value(checkpoint, worker, job.id, lane, job.claim, job.seq),
        "heartbeat": lambda: handler.value("SELECT windlass.heartbeat($1)", worker),
    }
    with pytest.raises(asyncpg.SerializationError):
        await writes[write]()
    await handler.rollback()


async def test_two_rescuers_offer_each_job_once(base: Base) -> None:
    """[C8] The second one waits for the first and finds nothing left."""
    lane, worker, other = await base.lane(), await base.worker(), await base.worker()
    jobs = [await base.look.enqueue() for _ in range(3)]
    await base.claim(lane, worker)
    one, two = await base.sessions(2)
    assert await one.value(DECLARE_DEAD, worker, 0)
    assert await two.value(DECLARE_DEAD, worker, 0)
    await one.begin()
    assert (await one.row(STEP, worker))["offered"] == 3
    second = asyncio.create_task(two.row(STEP, worker))
    await base.blocked(two)
    await one.commit()
    assert (await second)["offered"] == 0
    assert sorted(await base.drain(lane, other)) == jobs


async def test_a_rescue_that_is_cut_off_is_finished_by_the_next(base: Base) -> None:
    """[C8] Declaring dead and taking back are separate steps; each may be the last one done."""
    lane, worker, other = await base.lane(), await base.worker(), await base.worker()
    jobs = [await base.look.enqueue() for _ in range(3)]
    for _ in range(3):
        await base.claim(lane, worker, 1)
    (rescuer,) = await base.sessions(1)
    step = "SELECT * FROM windlass.rescue_step($1, '{0}', 1)"
    assert await rescuer.value(DECLARE_DEAD, worker, 0)
    await rescuer.begin()
    await rescuer.row(step, worker)
    await rescuer.rollback()
    left = [(await rescuer.row(step, worker))["left_over"] for _ in range(3)]
    assert left == [True, True, False]
    assert sorted(await base.drain(lane, other)) == jobs


@pytest.mark.parametrize("kind", [Kind.RELEASED, Kind.RETRY, Kind.CANCELLED])
@pytest.mark.parametrize("first_commits", [True, False])
async def test_a_job_is_not_given_back_while_its_success_is_being_written(
    base: Base, kind: Kind, first_commits: bool
) -> None:
    """[C5] [fault 1] The child was killed while its flush was under way, and its jobs are handed back."""
    lane, worker, other = await base.lane(), await base.worker(), await base.worker()
    jobs = [await base.look.enqueue() for _ in range(3)]
    held = (await base.claim(lane, worker)).jobs
    child, supervisor = await base.sessions(2)
    await child.begin()
    assert (await base.finish(worker, held, by=child)).applied == 3
    handing_back = asyncio.create_task(base.finish(worker, held, kind, flush=1 << 40, by=supervisor))
    await base.blocked(supervisor)
    if first_commits:
        await child.commit()
        assert sorted((await handing_back).refused) == jobs
        assert [await base.state(job) for job in jobs] == ["succeeded"] * 3
        assert await base.drain(lane, other) == []
    else:
        await child.rollback()
        assert (await handing_back).applied == 3


async def test_held_waits_for_a_claim_under_way(base: Base) -> None:
    """[C5] [fault 5] The claim's connection broke: what it is about to give must not stay unknown."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue()
    store = await base.store()
    claimer = await base.session()
    await claimer.begin()
    await claimer.run(LOCK, lane)
    assert answer(lane, await claimer.row(TAKE, lane, worker)).ids == [job]
    asking = asyncio.create_task(store.unfinished(worker))
    await base.until(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))", claimer.pid
    )
    await claimer.commit()
    (claim,) = await asking
    assert [held.id for held in claim.jobs] == [job]


async def test_a_heartbeat_of_a_worker_that_has_retired_is_no_error(base: Base) -> None:
    """[C5] Its host sends it until it hears of that. The store raises WorkerLost; the server logs nothing."""
    worker, store = await base.worker(), await base.store()
    await store.retire(worker)
    assert await base.look.value("SELECT windlass.heartbeat($1)", worker) is None
    with pytest.raises(WorkerLost):
        await store.heartbeat(worker)
