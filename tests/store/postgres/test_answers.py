"""Whoever wakes a job ends the wait that it is woken for, and the next claim says so [W2]: beside other
senders, looks, and calls of the last run that still wait."""

import asyncio
import json
import re
import secrets

import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base
from tests.store.postgres.plans import explained, plans
from tests.store.postgres.waiting import LOOK, OWN, SEND, ask, begun, goes_on, suspended
from windlass.core.states import Kind
from windlass.errors import ClaimLost, SignalRefused
from windlass.store.records import SIGNAL, TIMEOUT, Awaited, Outcome, Step, Wait

pytestmark = BOTH
TABLES = re.compile("wait|signal|signal_note|deferred|step|checkpoint|pass")
FEW = 8
"""More rows of a table than any statement about one job needs to look at."""

BOTH_JOBS = "SELECT windlass.send_signals($1::bigint[], ARRAY['go', 'go'], ARRAY['1', '2'])"


async def test_w2_who_wakes_a_job_ends_its_wait(alone: Base) -> None:
    """In the sender's transaction where that is the store's own, else in the look; the claim says so."""
    store = await alone.store()
    _, worker, job = await suspended(alone)
    for own in (True, False):
        if own:
            assert await store.signal(job.id, "go", "1") == "delivered"
        else:
            await alone.look.value(SEND, job.id)
            await alone.look.value(SEND, job.id)
            await alone.look.run(LOOK)
        (claim,) = await store.claim(worker, [alone.queue], 10)
        (again,) = claim.jobs
        assert again.known_steps is not None
        assert again.known_steps.steps == tuple(await store.steps(job.id))
        taken = [(step.code, step.result) for step in again.known_steps.steps]
        assert taken == [(SIGNAL, "1")] * (1 if own else 2)
        assert await alone.look.value("SELECT count(*) FROM windlass.signal") == (0 if own else 1)
        assert await store.waits() == []
        if own:
            wait = Wait(name="wait:go#2", signal="go", timeout=3600)
            assert (await store.wait_for_signal(worker, again, wait)).step is None
            await alone.finish(worker, [again], Kind.SNOOZE, delay=3600)
            await alone.look.run(LOOK)


async def test_w2_a_call_of_the_last_run_that_still_waits_does_not_decide_again(alone: Base) -> None:
    """The connection was lost with the answer and the wait asked again; the first call comes to its end only
    when the job is suspended and its signal on the way."""
    lane, worker, job = await begun(alone)
    late, sender = await alone.sessions(2)
    await late.begin()
    assert await ask(late, worker, job) == "waits"
    await alone.finish(worker, [job], Kind.SNOOZE, delay=3600)
    sending = asyncio.create_task(sender.value(OWN, job.id))
    await alone.blocked(sender)
    await late.commit()
    assert await sending == "delivered"
    await alone.look.run(LOOK)
    assert await goes_on(alone, lane, worker) == "answered"
    assert await alone.look.value("SELECT count(*) FROM windlass.signal") == 0


async def test_w2_senders_of_the_same_jobs_do_not_wait_for_each_other(alone: Base) -> None:
    """In whatever order; what comes second is kept for the next wait, and its note goes."""
    lane, worker = await alone.lane(), await alone.worker()
    ids = [await alone.look.enqueue() for _ in range(2)]
    jobs = (await alone.claim(lane, worker)).jobs
    for job in jobs:
        assert await ask(alone.look, worker, job) == "waits"
    await alone.finish(worker, jobs, Kind.SNOOZE, delay=3600)
    await alone.look.run(LOOK)
    one, other = await alone.sessions(2)
    await one.begin()
    await other.begin()
    assert await one.value(BOTH_JOBS, ids) == ["delivered"] * 2
    assert await other.value(BOTH_JOBS, ids[::-1]) == ["delivered"] * 2
    await one.commit()
    await other.commit()
    await alone.look.run(LOOK)
    assert sorted((await alone.claim_late(lane, worker)).ids) == sorted(ids)
    assert await alone.look.value("SELECT array_agg(DISTINCT job ORDER BY job) FROM windlass.signal") == ids
    assert await alone.look.value("SELECT count(*) FROM windlass.signal_note") == 0


async def test_w2_a_look_that_finds_somebody_at_the_signal_wakes_the_job(alone: Base) -> None:
    """It asks for its signal itself then."""
    lane, worker, job = await suspended(alone)
    await alone.look.value(SEND, job.id)
    (holder,) = await alone.sessions(1)
    await holder.begin()
    await holder.run("SELECT FROM windlass.signal FOR UPDATE")
    assert await alone.look.value(LOOK) == 1
    assert await alone.look.value("SELECT count(*) FROM windlass.step") == 0
    await holder.commit()
    assert await goes_on(alone, lane, worker) == "answered"


async def test_w2_of_signals_sent_together_one_is_refused_and_the_others_arrive(alone: Base) -> None:
    store = await alone.store()
    lane, worker, job = await suspended(alone)
    ended = await alone.look.enqueue()
    await alone.finish(worker, (await alone.claim(lane, worker)).jobs)
    found = await asyncio.gather(
        *(store.signal(id, "go", str(no)) for no, id in enumerate([job.id, ended, job.id])),
        return_exceptions=True,
    )
    assert found[0] == "delivered"
    assert isinstance(found[1], SignalRefused)
    assert found[2] == "kept"
    assert await goes_on(alone, lane, worker) == "answered"


async def test_w2_two_signals_of_one_call_are_taken_in_order(alone: Base) -> None:
    """The first ends the wait, the second is for the next one."""
    lane, worker, job = await suspended(alone)
    assert await alone.look.value(BOTH_JOBS, [job.id, job.id]) == ["delivered", "kept"]
    assert await goes_on(alone, lane, worker) == "answered"
    assert await alone.look.value("SELECT result::text FROM windlass.step") == "1"
    assert await alone.look.value("SELECT value::text FROM windlass.signal") == "2"


async def test_w2_the_waits_of_one_call_are_judged_one_by_one(alone: Base) -> None:
    """One whose claim is not the worker's comes first; one is answered, one is over, one begins."""
    store = await alone.store()
    lane, worker = await alone.lane(), await alone.worker()
    ids = [await alone.look.enqueue() for _ in range(4)]
    jobs = (await alone.claim(lane, worker)).jobs
    await alone.finish(worker, jobs[:1])
    await store.signal(ids[1], "go", "7")
    timeouts = (None, None, 0.0, None)
    found = await asyncio.gather(
        *(
            store.wait_for_signal(worker, job, Wait(name="wait:go", signal="go", timeout=timeout))
            for job, timeout in zip(jobs, timeouts, strict=True)
        ),
        return_exceptions=True,
    )
    assert isinstance(found[0], ClaimLost)
    steps = [each.step for each in found if isinstance(each, Awaited)]
    assert [step and (step.code, step.result) for step in steps] == [(SIGNAL, "7"), (TIMEOUT, "null"), None]
    assert await alone.look.value("SELECT array_agg(job) FROM windlass.wait") == ids[3:]


async def test_w1_a_claim_says_the_steps_of_jobs_that_have_run(alone: Base) -> None:
    """A sleep with what is left of it; not of a job that is new, and not where they are too many."""
    store = await alone.store()
    worker = await alone.worker()
    await alone.lane()
    await alone.look.enqueue()
    (claim,) = await store.claim(worker, [alone.queue], 10)
    (job,) = claim.jobs
    assert job.known_steps is None
    await store.save_step(worker, job, Step(name="plan", result='{"a": [1, "\u00e4"]}', code="m.plan"))
    await store.save_step(worker, job, Step(name="sleep", sleep=100.0))
    await store.finish(worker, 1, [Outcome(job=job, kind=Kind.RETRY)])
    (claim,) = await store.claim(worker, [alone.queue], 10)
    (again,) = claim.jobs
    assert again.known_steps is not None
    plan, sleep = again.known_steps.steps
    assert plan == (await store.steps(job.id))[0]
    assert sleep.left == pytest.approx(100, abs=30)
    await store.save_step(worker, again, Step(name="large", result=json.dumps(secrets.token_hex(300_000))))
    await store.finish(worker, 2, [Outcome(job=again, kind=Kind.RELEASED)])
    (claim,) = await store.claim(worker, [alone.queue], 10)
    assert claim.jobs[0].known_steps is None


async def wait_all(alone: Base, worker: int, n: int) -> list[int]:
    """So many jobs of the test's queue that wait for their signal."""
    store = await alone.store()
    add = "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', array_fill('{}'::text, ARRAY[$2::int]))"
    await alone.look.run(add, alone.queue, n)
    jobs = [job for claim in await store.claim(worker, [alone.queue], n) for job in claim.jobs]
    wait = Wait(name="wait:go", signal="go", timeout=3600)
    await asyncio.gather(*(store.wait_for_signal(worker, job, wait) for job in jobs))
    await alone.finish(worker, jobs, Kind.SNOOZE, delay=3600)
    while await alone.look.value(LOOK):
        pass
    return [job.id for job in jobs]


async def test_s1_what_a_wait_costs_does_not_depend_on_how_many_wait(alone: Base) -> None:
    """By the plans that were made when one waited, after three thousand have begun."""
    lane, worker = await alone.lane(), await alone.worker()
    session = await alone.session()
    await explained(session)
    for n in (1, 3000):
        one, other, third = (await wait_all(alone, worker, n + 2))[-3:]
        await alone.look.run("ANALYZE" if n == 1 else "SELECT 1")
        async with plans(session) as made:
            assert await session.value(OWN, one) == "delivered"
            await session.value(SEND, other)
            assert await session.value(LOOK) == 1
            (job, _) = (await alone.claim(lane, worker, by=session)).jobs
            assert await ask(session, worker, job) == "answered"
            assert await ask(session, worker, job, no=2) == "waits"
            await alone.finish(worker, [job], Kind.SNOOZE, delay=3600, by=session)
        scans = made.scans(TABLES)
        assert {scan.table for scan in scans} >= {"wait", "signal", "signal_note", "deferred", "step"}
        read = [scan for scan in scans if scan.touched > FEW]
        assert not read, read
        assert await session.value(OWN, third) == "delivered"
        await alone.drain(lane, worker)
