"""The store's clock is set back by an hour, or forward [fault 31]. What waits for a time that was written
down before goes on; nothing is granted, fired or lost for the step alone."""

import pytest

from tests.conformance.budget_kit import budget, claim, declare, grants, promote, taken
from tests.conformance.kit import POLICY, Rig, failure
from windlass.cluster.schedules import fire_due
from windlass.core import cron
from windlass.core.flow.governor import Governor
from windlass.core.states import Kind, State
from windlass.errors import TermLost
from windlass.store.records import NewSchedule

HOUR = 3600.0
BOTH = pytest.mark.parametrize("step", [-HOUR, HOUR])


async def test_a_budget_goes_on_from_now(rig: Rig) -> None:
    """[F1] [fault 31] It granted nothing for the hour until the clock had caught up."""
    await declare(rig, burst=10, rate=0.5)
    assert await taken(rig, 10)
    await rig.store.promote()
    await rig.clock.advance(-HOUR)
    await rig.store.promote()
    assert not await taken(rig)
    await rig.clock.advance(10)
    assert 5 <= await grants(rig) <= 6


async def test_a_budget_goes_on_though_nobody_promotes(rig: Rig) -> None:
    """[F1] [fault 31] An empty bucket that refused was not written, and stood still for the hour. It grants
    what has grown since somebody first asked, and never more."""
    await declare(rig, burst=10, rate=0.1)
    for key in ("taken", "leased"):
        assert await taken(rig, 10, key)
    await rig.clock.advance(-HOUR)
    counts = {"taken": 0, "leased": 0}
    for minute in range(10):
        counts["taken"] += await grants(rig, "taken")
        while any((await rig.store.lease("b", [1], "leased")).served):
            counts["leased"] += 1
        assert max(counts.values()) <= 6 * minute + 1
        await rig.clock.advance(60)
    assert min(counts.values()) >= 53


async def test_jobs_find_their_tokens_though_nobody_has_promoted(rig: Rig) -> None:
    """[F1] [fault 31] Those who wait for a bucket that was written after the last promotion."""
    worker = await rig.worker()
    await declare(rig, burst=1, rate=0.1)
    await rig.clock.advance(HOUR)
    assert await taken(rig)
    await rig.clock.advance(-HOUR)
    await rig.add("t")
    assert await claim(rig, worker) == []
    await promote(rig)
    await rig.clock.advance(11)
    await promote(rig)
    assert len(await claim(rig, worker)) == 1


async def test_a_governed_queue_goes_on_though_nobody_governs(rig: Rig) -> None:
    """[F2] [fault 31] Its tokens were used up when the clock was set back."""
    worker = await rig.worker()
    await rig.store.set_queue("default", {"governor": True, "rate_min": 0.1, "rate_max": 0.1})
    await rig.store.govern(await rig.lead(1), "default", Governor(rate=0.1))
    await rig.add("t", "t", "t")
    await rig.clock.advance(11)
    assert len(await rig.claim(worker)) == 1
    await rig.clock.advance(-HOUR)
    assert await rig.claim(worker) == []
    await rig.clock.advance(11)
    assert len(await rig.claim(worker)) == 1


@pytest.mark.parametrize("key", [None, ""])
async def test_a_drained_budget_pauses_no_longer_than_it_was_told_to(rig: Rig, key: str | None) -> None:
    """[F1] [fault 31] For one bucket, and for all."""
    await declare(rig, burst=2, rate=100.0)
    await rig.store.drain("b", 30.0, key)
    await rig.store.promote()
    await rig.clock.advance(-HOUR)
    await rig.store.promote()
    assert not await taken(rig)
    assert 0 < (await budget(rig)).paused_for <= 31
    await rig.clock.advance(31)
    assert await taken(rig, 2)


async def test_a_breaker_opens_no_longer_than_it_was_to(rig: Rig) -> None:
    """[F7] [fault 31] Half-open at the latest after its pause."""
    await declare(rig, burst=10, rate=100.0, breaker=1, breaker_pause=30.0)
    await rig.store.report_calls("b", 0, 1)
    assert not await taken(rig)
    await rig.clock.advance(-HOUR)
    await rig.clock.advance(31)
    assert await taken(rig)
    assert (await budget(rig)).state == "half-open"


async def test_tokens_are_kept_for_nobody_for_an_hour(rig: Rig) -> None:
    """[F1] [fault 31] One who was let out of the line and is not claimed keeps them for seconds only."""
    worker = await rig.worker()
    await declare(rig, burst=1, rate=0.0)
    assert await taken(rig)
    await rig.add("t")
    assert await claim(rig, worker) == []
    await rig.store.give_back("b", 1)
    await promote(rig)
    await rig.clock.advance(-HOUR)
    (late,) = await rig.add("t", queue="other")
    claims = await rig.store.claim(worker, ["other"], 10, {"t": []})
    assert [job.id for found in claims for job in found.jobs] == [late]
    assert (await budget(rig)).tokens == 1


async def test_a_term_ends(rig: Rig) -> None:
    """[K3] [fault 31] Who had led before the step led for an hour more, alive or not."""
    old = await rig.lead(1)
    await rig.clock.advance(-HOUR)
    assert await rig.store.lead(2, 30) == old + 1
    with pytest.raises(TermLost):
        await rig.store.assign(old, {})
    await rig.store.assign(old + 1, {})


@BOTH
async def test_who_leads_may_go_on(rig: Rig, step: float) -> None:
    """[K3] [fault 31] With its next call, if nobody else was first."""
    await rig.lead(1)
    await rig.clock.advance(step)
    term = await rig.store.lead(1, 30)
    assert term is not None
    await rig.store.assign(term, {})
    assert await rig.store.lead(2, 30) is None


async def test_a_cool_down_is_over(rig: Rig) -> None:
    """[O3] [fault 31] It lasted for an hour more than the cap allows."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    assert await rig.store.throttle("default") == pytest.approx(60.0)
    await rig.clock.advance(-HOUR)
    assert [record.cooling for record in await rig.store.queues()] == [0.0]
    await rig.run(worker, id)
    assert await rig.store.throttle("default") > 0


async def test_a_chore_can_begin(rig: Rig) -> None:
    """[K5] [fault 31] Nobody looked for gaps for an hour."""
    assert await rig.store.begin_chore("gaps", 300.0)
    await rig.clock.advance(-HOUR)
    assert await rig.store.begin_chore("gaps", 300.0)
    assert not await rig.store.begin_chore("gaps", 300.0)


async def test_jobs_that_fall_due_are_found(rig: Rig) -> None:
    """[fault 31] Before the time that the last promotion had come to, as well."""
    worker = await rig.worker()
    (early,) = await rig.add("early", delay=1)
    await rig.clock.advance(2)
    assert (await rig.store.promote()).due == 1
    await rig.run(worker, early)
    await rig.clock.advance(-HOUR)
    ids = await rig.add("soon", delay=5) + await rig.add("sooner", delay=1)
    await rig.store.promote()
    assert await rig.claim(worker) == []
    await rig.clock.advance(10)
    assert (await rig.store.promote()).due == 2
    assert {job.id for job in await rig.claim(worker)} == set(ids)


async def test_an_operator_makes_ready_what_is_late_by_the_step(rig: Rig) -> None:
    """[fault 31] A retry and a delay of before run late by the step, and at once where somebody says so."""
    worker = await rig.worker()
    (retried,) = await rig.add("t")
    (claimed,) = await rig.claim(worker)
    await rig.finish(worker, claimed, Kind.RETRY, delay=60, error=failure())
    (delayed,) = await rig.add("t", delay=60.0)
    await rig.store.promote()
    await rig.clock.advance(-HOUR)
    await rig.clock.advance(61)
    await rig.store.promote()
    assert await rig.claim(worker) == []
    assert set(await rig.store.retry([retried, delayed])) == {retried, delayed}
    assert {job.id for job in await rig.claim(worker)} == {retried, delayed}
    await rig.clock.advance(HOUR)
    await rig.store.promote()
    assert await rig.claim(worker) == [], "they ran once"


@BOTH
async def test_what_runs_is_kept(rig: Rig, step: float) -> None:
    """[C4] [fault 31] A lease is a matter of heartbeats, not of clocks; outcomes and checkpoints count."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    heartbeat = await rig.heartbeat_of(worker)
    await rig.clock.advance(step)
    await rig.store.heartbeat(worker)
    assert await rig.store.rescue(worker, heartbeat, POLICY) is None
    await rig.store.expire()
    await rig.turn(3)
    assert (await rig.finish(worker, job)).applied == 1
    assert await rig.state(id) is State.SUCCEEDED


@BOTH
async def test_a_key_is_remembered(rig: Rig, step: float) -> None:
    """[E7] [fault 31] What was enqueued a moment ago is repeated, not enqueued again."""
    first = await rig.one(idempotency_key="k")
    await rig.clock.advance(step)
    await rig.store.expire()
    assert await rig.one(idempotency_key="k") == type(first)(first.id, "repeated")


async def test_an_older_job_is_not_put_behind_a_lower_priority(rig: Rig) -> None:
    """[C2] [fault 31] Its wait was less than nothing, which counted against it."""
    worker = await rig.worker()
    (first,) = await rig.add("first")
    await rig.clock.advance(-HOUR)
    await rig.add("second", priority=3)
    assert (await rig.run(worker, first)).id == first


async def seed(rig: Rig, expression: str) -> None:
    now = (await rig.store.due()).now
    new = NewSchedule(name="s", cron=expression, task="t", missed="latest")
    await rig.store.seed_schedule(new, cron.next_fire(expression, "UTC", now))


async def fires(rig: Rig, term: int) -> int:
    """How many jobs the schedule makes now; each has ended."""
    made = (await fire_due(rig.store, term)).jobs
    await rig.store.promote()
    return made


async def minutes(rig: Rig, n: int) -> int:
    """How many jobs come within so many minutes."""
    worker, made = await rig.worker(), 0
    for _ in range(n):
        await rig.clock.advance(60)
        term = await rig.store.lead(1, 30)
        assert term is not None
        made += await fires(rig, term)
        for job in await rig.claim(worker):
            await rig.finish(worker, job, Kind.SUCCEEDED)
    return made


async def test_a_frequent_schedule_does_not_stall(rig: Rig) -> None:
    """[K4] [fault 31] It waited for an hour, until the clock had caught up with its last fire."""
    await seed(rig, "* * * * *")
    assert await minutes(rig, 3) == 3
    await rig.clock.advance(-HOUR)
    assert 3 <= await minutes(rig, 5) <= 5
    assert await minutes(rig, 3) == 3


async def test_a_rare_schedule_does_not_repeat(rig: Rig) -> None:
    """[K4] [fault 31] A time that it has fired for comes again by the clock, and is not fired again."""
    now = (await rig.store.due()).now
    soon = int(now % 86400) // 60 + 2
    await seed(rig, f"{soon % 60} {soon // 60 % 24} * * *")
    assert await minutes(rig, 4) == 1
    await rig.clock.advance(-HOUR)
    await minutes(rig, 3)
    await rig.clock.advance(HOUR)
    assert await minutes(rig, 4) == 0
    await rig.clock.advance(86400)
    assert await minutes(rig, 1) == 1


async def test_a_step_forward_fires_once(rig: Rig) -> None:
    """[K4] [fault 31] By what the schedule says of fires that were missed."""
    await seed(rig, "* * * * *")
    assert await minutes(rig, 2) == 2
    await rig.clock.advance(HOUR)
    assert await minutes(rig, 1) == 1
    assert await minutes(rig, 2) == 2
