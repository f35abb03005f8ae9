"""Nobody holds up the others: an open producer, a bulk cancel, a handler's absurd wish,
options that no worker could read."""

import pytest

from tests.stopwatch import Stopwatch
from tests.store.postgres.kit import Base
from windlass.core.states import Kind
from windlass.errors import InvalidOption
from windlass.store.records import NewJob, Options, Outcome, WorkerInfo

PROMOTE = "SELECT windlass.promote(100)"


async def test_a_producer_that_replaces_a_due_job_holds_up_no_other(alone: Base) -> None:
    """[rule 3] [E6] Its transaction has the row; promotion passes by, and comes back for it."""
    lane, worker, clock = await alone.lane(), await alone.worker(), await alone.clock()
    twin = await alone.look.enqueue("twin", unique_key="k", delay=_minutes(1))
    other = await alone.look.enqueue("other", delay=_minutes(2))
    await clock.advance(600)
    producer, promoter = await alone.session(), await alone.session(lock_timeout="2s")
    await producer.begin()
    await producer.enqueue("successor", unique_key="k", on_conflict="replace")
    assert await promoter.value(PROMOTE) == 1
    assert (await alone.claim(lane, worker)).ids == [other]
    await producer.rollback()
    assert await promoter.value(PROMOTE) == 1
    assert (await alone.claim(lane, worker)).ids == [twin]


async def test_a_job_that_is_to_replace_another_is_not_retried_before_it(alone: Base) -> None:
    """[E6] [O6] The other one runs already: they would run side by side."""
    twin = await alone.look.enqueue("twin")
    successor = await alone.look.enqueue("successor", delay=_minutes(1))
    await alone.look.run("UPDATE windlass.deferred SET replaces = $1 WHERE id = $2", twin, successor)
    assert await alone.look.value("SELECT windlass.retry($1)", successor) == "unchanged"
    await alone.look.run("UPDATE windlass.deferred SET replaces = NULL")
    assert await alone.look.value("SELECT windlass.retry($1)", successor) == "retried"


async def test_a_producer_that_replaces_a_held_job_holds_up_no_other(alone: Base) -> None:
    """[C3] [E6]"""
    lane, worker = await alone.lane(), await alone.worker()
    twin = await alone.look.enqueue("twin", unique_key="k", fair_key="a")
    other = await alone.look.enqueue("other", fair_key="b")
    producer, promoter = await alone.session(), await alone.session(lock_timeout="2s")
    await producer.begin()
    await producer.enqueue("successor", unique_key="k", fair_key="a", on_conflict="replace")
    assert await promoter.value("SELECT windlass.admit(100)") == 1
    assert (await alone.claim(lane, worker)).ids == [other]
    await producer.rollback()
    assert await promoter.value("SELECT windlass.admit(100)") == 1
    assert (await alone.claim(lane, worker)).ids == [twin]


async def test_a_bulk_cancel_lets_claims_through(alone: Base) -> None:
    """[rule 7] Each job is cancelled for itself, so nobody else finds the lane busy for long."""
    lane, worker = await alone.lane(), await alone.worker()
    store = await alone.store()
    ids = [await alone.look.enqueue() for _ in range(60)]
    answers = await store.cancel(ids[::2])
    assert set(answers.values()) == {"cancelled"}
    assert (await alone.claim(lane, worker, 100)).ids == ids[1::2]


async def test_a_lane_that_is_held_costs_the_claims_of_others_nothing(alone: Base) -> None:
    """[S2] [fault 27] Each claim waited 100 ms for the lane of an open cancel before it went on."""
    worker = await alone.worker()
    store = await alone.store(head_cache=60.0)
    await alone.lane("held", 1)
    await alone.lane("other")
    held = await alone.look.enqueue(queue="held", priority="high")
    others = [await alone.look.enqueue(queue="other") for _ in range(21)]
    caller = await alone.session()
    await caller.begin()
    await caller.value("SELECT windlass.cancel($1)", held)
    await store.claim(worker, ["held", "other"], 1)
    watch = Stopwatch()
    got = [await store.claim(worker, ["held", "other"], 1) for _ in others[1:]]
    assert [claims[0].jobs[0].id for claims in got] == others[1:]
    assert watch.seconds() < 1.0
    await caller.rollback()
    assert [claim.queue for claim in await store.claim(worker, ["held", "other"], 1)] == ["held"]


async def test_many_successors_that_must_wait_keep_no_other_from_its_place(alone: Base) -> None:
    """[S2] [E6] 50 twins in a lane that an open cancel held kept those of all queues waiting."""
    await alone.lane("held")
    await alone.lane("other")
    enqueue = "SELECT windlass.enqueue('t', queue => $1, unique_key => $2, on_conflict => 'replace')"
    for n in range(60):
        for _ in "twin", "successor":
            await alone.look.value(enqueue, "held", f"k{n}")
    first = await alone.look.value(enqueue, "other", "k")
    await alone.look.value(enqueue, "other", "k")
    caller = await alone.session()
    await caller.begin()
    await caller.value("SELECT windlass.cancel((SELECT min(id) FROM windlass.job WHERE queue = 'held'))")
    steps = [await alone.look.value("SELECT windlass.replace_step(1000)") for _ in range(3)]
    assert sum(steps) == 1
    assert await alone.state(first) is None
    await caller.rollback()
    steps = [await alone.look.value("SELECT windlass.replace_step(1000)") for _ in range(60)]
    assert sum(steps) == 60
    assert max(steps) <= 50, "lanes are not held for long"


async def test_many_keys_that_are_held_keep_no_other_from_being_freed(alone: Base) -> None:
    """[S2] [E6] As many as one step takes were looked at, and those behind them never."""
    lane, worker = await alone.lane(), await alone.worker()
    for n in range(12):
        await alone.look.enqueue(unique_key=f"k{n}")
    jobs = (await alone.claim(lane, worker)).jobs
    many, one = await alone.session(), await alone.session()
    for caller, keys in ((many, range(11)), (one, range(11, 12))):
        await caller.begin()
        for n in keys:
            await caller.enqueue(unique_key=f"k{n}")
    await alone.finish(worker, jobs)
    assert await alone.look.value("SELECT count(*) FROM windlass.unsettled") == 12
    await one.rollback()
    assert await alone.look.value("SELECT windlass.settle_rest(5)") == 1
    await many.rollback()
    assert await alone.look.value("SELECT windlass.settle_rest(50)") == 11


async def test_an_absurd_delay_is_cut_and_its_neighbours_are_written(alone: Base) -> None:
    """[O1] [fault 17]"""
    lane, worker = await alone.lane(), await alone.worker()
    store = await alone.store()
    await alone.look.enqueue("a")
    await alone.look.enqueue("b")
    first, second = (await alone.claim(lane, worker)).jobs
    outcomes = [Outcome(job=first), Outcome(job=second, kind=Kind.SNOOZE, delay=1e13)]
    assert (await store.finish(worker, 1, outcomes)).applied == 2


@pytest.mark.parametrize("options", ['{"max_attempts":5e0}', '{"max_attempts":"x","max_attempts":5}'])
async def test_options_are_kept_in_the_form_that_was_checked(alone: Base, options: str) -> None:
    """[E4] [fault 17] What a worker could not read must not wait in a lane."""
    await alone.lane()
    store = await alone.store()
    sql = "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', '{[]}', ARRAY[$2])"
    await alone.look.value(sql, alone.queue, options)
    await store.register(WorkerInfo(id=77))
    (claim,) = await store.claim(77, [alone.queue], 1)
    assert claim.jobs[0].options == Options()


async def test_a_time_out_of_range_is_refused_for_every_way_in(alone: Base) -> None:
    """[E4]"""
    store = await alone.store()
    with pytest.raises(InvalidOption):
        await store.enqueue([NewJob(task="t", payload="[]", run_at=9e9)])


def _minutes(n: int) -> object:
    from datetime import timedelta

    return timedelta(minutes=n)
