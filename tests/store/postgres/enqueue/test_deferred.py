"""The watermark of promotion, and what commits or becomes free behind it [design 3, deferred]."""

from datetime import timedelta

import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base
from tests.store.postgres.test_parents import split
from windlass.core.states import Kind

pytestmark = BOTH

SOON = timedelta(milliseconds=1)
PROMOTE = "SELECT windlass.promote(100)"
DUE = "SELECT count(*) > 0 FROM windlass.deferred WHERE run_at < clock_timestamp()"
PASSED = "SELECT w.run_at > $1 FROM windlass.deferred_watermark AS w"


async def test_a_row_that_commits_behind_the_watermark_is_found(alone: Base) -> None:
    """[rule 9] Its time lies before the watermark and its transaction after the watermark's snapshot."""
    lane, worker = await alone.lane(), await alone.worker()
    (producer,) = await alone.sessions(1)
    await producer.begin()
    late = await producer.enqueue(delay=SOON)
    run_at = await producer.value("SELECT run_at FROM windlass.deferred")
    other = await alone.look.enqueue(delay=SOON)
    await alone.until(DUE)
    assert await alone.look.value(PROMOTE) == 1
    assert await alone.look.value(PASSED, run_at)
    await producer.commit()
    assert await alone.look.value(PROMOTE) == 1
    assert await alone.look.value(PROMOTE) == 0
    assert await alone.drain(lane, worker) == [other, late]


async def test_a_row_whose_xid_lies_above_the_xmax_of_the_watermark_is_found(alone: Base) -> None:
    """[rule 3] [rule 9] xmax is only the last completed xid + 1; here a running one lies above."""
    lane, worker = await alone.lane(), await alone.worker()
    early, late = await alone.sessions(2)
    await early.begin()
    first = await early.enqueue(delay=SOON)
    await late.begin()
    second = await late.enqueue(delay=SOON)
    await early.commit()
    xid = await late.value("SELECT pg_current_xact_id()::text::bigint")
    await alone.until(DUE)
    assert await alone.look.value(PROMOTE) == 1
    xmax = "SELECT pg_snapshot_xmax(snapshot)::text::bigint FROM windlass.deferred_watermark"
    assert await alone.look.value(xmax) <= xid, "the schedule must put the producer above xmax"
    await late.commit()
    assert await alone.look.value(PROMOTE) == 1
    assert await alone.drain(lane, worker) == [first, second]


async def test_late_rows_beyond_the_limit_of_a_step_are_found_by_the_next(alone: Base) -> None:
    """[rule 9] The watermark's snapshot stays until every late row is gone."""
    lane, worker = await alone.lane(), await alone.worker()
    (producer,) = await alone.sessions(1)
    await producer.begin()
    late = [await producer.enqueue(delay=SOON) for _ in range(5)]
    await alone.look.enqueue(delay=SOON)
    await alone.until(DUE)
    await alone.look.value(PROMOTE)
    await producer.commit()
    fresh = [await alone.look.enqueue(delay=SOON) for _ in range(3)]
    await alone.until("SELECT count(*) = 8 FROM windlass.deferred WHERE run_at < clock_timestamp()")
    steps = 0
    while await alone.look.value("SELECT windlass.promote(2)"):
        steps += 1
    assert steps >= 3
    ran = await alone.drain(lane, worker)
    assert (len(ran), set(ran) >= {*late, *fresh}) == (9, True)


async def test_a_replacement_is_found_though_the_watermark_passed_it(alone: Base) -> None:
    """[E6] While it waits for its twin to be taken back promotion goes by: before that step and during it."""
    lane, worker = await alone.lane(), await alone.worker()
    (step,) = await alone.sessions(1)
    twin = await alone.look.enqueue(unique_key="k")
    after = await alone.look.enqueue(unique_key="k", on_conflict="replace")
    run_at = await alone.look.value("SELECT run_at FROM windlass.deferred")
    assert await alone.look.value(PROMOTE) == 0
    assert await alone.look.value(PASSED, run_at)
    await step.begin()
    assert await step.value("SELECT windlass.replace_step(10)") == 1
    assert await alone.look.value(PROMOTE) == 0
    await step.commit()
    assert await alone.look.value(PROMOTE) == 1
    assert await alone.drain(lane, worker) == [after]
    assert await alone.state(twin) is None


async def test_a_replacement_whose_twin_has_started_runs_when_the_twin_has_ended(alone: Base) -> None:
    """[E6] The twin was claimed before it could be taken back: the edit is not lost, nobody waits."""
    lane, worker = await alone.lane(), await alone.worker()
    (producer,) = await alone.sessions(1)
    step = await alone.session(lock_timeout="1ms")
    twin = await alone.look.enqueue(unique_key="k")
    edit = await alone.look.enqueue("edit", unique_key="k", on_conflict="replace")
    got = await alone.claim(lane, worker)
    assert got.ids == [twin]
    await producer.begin()
    assert await producer.enqueue(unique_key="k") == edit, "the key is the replacement's"
    assert await step.value("SELECT windlass.replace_step(10)") == 0
    assert (await alone.finish(worker, got.jobs, by=step)).applied == 1
    await producer.commit()
    assert await step.value("SELECT windlass.replace_step(10)") == 1
    await step.value(PROMOTE)
    assert [job.task for job in (await alone.claim(lane, worker)).jobs] == ["edit"]


async def test_a_replacement_whose_twin_failed_takes_the_place_of_its_next_attempt(alone: Base) -> None:
    """[E6] The twin ran when it was replaced and waits for a retry afterwards: only the edit runs."""
    lane, worker = await alone.lane(), await alone.worker()
    twin = await alone.look.enqueue(unique_key="k")
    edit = await alone.look.enqueue("edit", unique_key="k", on_conflict="replace")
    got = await alone.claim(lane, worker)
    assert await alone.look.value("SELECT windlass.replace_step(10)") == 0
    assert (await alone.finish(worker, got.jobs, Kind.RETRY, delay=60.0)).applied == 1
    assert await alone.look.value("SELECT windlass.replace_step(10)") == 1
    await alone.look.value(PROMOTE)
    assert await alone.drain(lane, worker) == [edit]
    assert await alone.state(twin) is None


@pytest.mark.parametrize("verb", ["cancel", "delete"])
@pytest.mark.parametrize("others", [0, 2])
async def test_a_replacement_that_is_ended_takes_its_twin_along(alone: Base, verb: str, others: int) -> None:
    """[E6] [O5] Nobody wants the twin any more, whether its successor is ended alone or among others."""
    lane, worker = await alone.lane(), await alone.worker()
    twin = await alone.look.enqueue(unique_key="k")
    edit = await alone.look.enqueue("edit", unique_key="k", on_conflict="replace")
    jobs = [edit, *[await alone.look.enqueue(delay=timedelta(hours=1)) for _ in range(others)]]
    store = await alone.store()
    answers = await (store.cancel(jobs) if verb == "cancel" else store.delete(jobs))
    assert set(answers.values()) == {"cancelled" if verb == "cancel" else "deleted"}
    assert await alone.state(twin) is None
    assert await alone.drain(lane, worker) == []
    assert await alone.look.enqueue(unique_key="k") not in (twin, edit), "the key is free again"


async def test_many_replacements_that_are_ended_take_their_twins_along(alone: Base) -> None:
    """[E6] [O5] Also more of them than one step replaces."""
    lane, worker = await alone.lane(), await alone.worker()
    keys = [f"k{number}" for number in range(120)]
    for key in keys:
        await alone.look.enqueue(unique_key=key)
    edits = [await alone.look.enqueue("edit", unique_key=key, on_conflict="replace") for key in keys]
    answers = await (await alone.store()).cancel(edits)
    assert set(answers.values()) == {"cancelled"}
    assert await alone.drain(lane, worker) == []


@pytest.mark.parametrize("by", ["store", "SQL"])
async def test_a_replacement_that_is_ended_leaves_a_twin_that_runs(alone: Base, by: str) -> None:
    """[E6] [O5] And the key is the twin's again: nothing else of that key runs beside it."""
    lane, worker = await alone.lane(), await alone.worker()
    twin = await alone.look.enqueue(unique_key="k")
    edit = await alone.look.enqueue("edit", unique_key="k", on_conflict="replace")
    got = await alone.claim(lane, worker)
    assert got.ids == [twin]
    if by == "store":
        assert await (await alone.store()).cancel([edit]) == {edit: "cancelled"}
    else:
        assert await alone.look.value("SELECT windlass.cancel($1)", edit) == "cancelled"
    assert await alone.look.enqueue(unique_key="k") == twin, "it is to be run again after the twin"
    assert (await alone.finish(worker, got.jobs)).applied == 1
    assert await alone.state(twin) == "succeeded"
    assert len(await alone.drain(lane, worker)) == 1
    assert await alone.look.value("SELECT count(*) FROM windlass.unique_key") == 0


async def test_a_replacement_of_a_job_that_was_split_meanwhile_waits(alone: Base) -> None:
    """[E6] [P4] And holds up nothing else."""
    lane, worker = await alone.lane(), await alone.worker()
    (producer,) = await alone.sessions(1)
    twin = await alone.look.enqueue(unique_key="k")
    await producer.begin()
    edit = await producer.enqueue("edit", unique_key="k", on_conflict="replace")
    got = await alone.claim(lane, worker)
    assert got.ids == [twin]
    assert await split(alone.look, worker, got.jobs[0], 1) == "split"
    await producer.commit()
    other = await alone.look.enqueue(delay=SOON)
    await alone.until("SELECT run_at < clock_timestamp() FROM windlass.deferred WHERE id = $1", other)
    store = await alone.store()
    await store.promote()
    assert other in await alone.drain(lane, worker)
    assert await store.cancel([edit]) == {edit: "cancelled"}


async def test_a_job_for_an_undeclared_queue_waits_for_its_lane(alone: Base) -> None:
    """[rule 11] A producer never creates a lane: two do not wait for each other, and both jobs run."""
    worker = await alone.worker()
    one, two = await alone.sessions(2)
    await one.begin()
    await two.begin()
    jobs = [await one.enqueue(), await two.enqueue()]
    await two.commit()
    await one.commit()
    assert await alone.look.value("SELECT count(*) FROM windlass.lane") == 0
    assert await alone.look.value(PROMOTE) == 2
    assert await alone.drain(await alone.lane(), worker) == jobs


async def test_two_promoters_do_the_work_of_one(alone: Base) -> None:
    """[rule 9] The second does not wait and promotes nothing."""
    lane, worker = await alone.lane(), await alone.worker()
    one, two = await alone.sessions(2)
    job = await alone.look.enqueue(delay=SOON)
    await alone.until(DUE)
    await one.begin()
    assert await one.value(PROMOTE) == 1
    assert await two.value(PROMOTE) == 0
    await one.commit()
    assert await two.value(PROMOTE) == 0
    assert await alone.drain(lane, worker) == [job]
