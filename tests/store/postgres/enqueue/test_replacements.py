"""Jobs that have yet to take the place of a twin: what becomes of the twin, its key, and who enqueued them
[E6]."""

import asyncio

import asyncpg
import pytest

from tests.conformance.kit import job
from tests.stopwatch import within
from tests.store.postgres.kit import PATIENCE, Base, Session
from windlass.core.states import Kind

STEP = "SELECT windlass.replace_step(1000)"
REST = "SELECT windlass.settle_rest(100)"
FOLLOW = "SELECT looked FROM windlass.follow(100)"
ONE = "SELECT job, status FROM windlass.enqueue_one('edit', '{}', $1, 2::smallint, NULL, NULL, $2, $3, NULL)"
AFTER = '{{"unique_key": "{key}", "after": [{job}], "otherwise": "{policy}"}}'


async def replace(session: Session, key: str = "k", policy: str = "replace") -> tuple[int, str]:
    """A job with a key of the test's own, which takes the place of the one that holds it: its id and
    status."""
    options = f'{{"unique_key": "{session.queue}/{key}"}}'
    row = await session.row(ONE, session.queue, options, policy)
    return row["job"], row["status"]


async def holder(base: Base, key: str = "k") -> int | None:
    """The job that holds a key."""
    found: int | None = await base.look.value(
        "SELECT job FROM windlass.unique_key WHERE key = $1", f"{base.queue}/{key}"
    )
    return found


@pytest.mark.parametrize("verb", ["cancel", "delete"])
async def test_who_ends_a_replacement_wants_neither(alone: Base, verb: str) -> None:
    """[E6] The SQL functions left the twin waiting, which ran with what the replacement was to undo."""
    lane, worker = await alone.lane(), await alone.worker()
    twin, _ = await replace(alone.look)
    successor, status = await replace(alone.look)
    assert status == "replaced"
    answer = await alone.look.value(f"SELECT windlass.{verb}($1)", successor)
    assert answer == {"cancel": "cancelled", "delete": "deleted"}[verb]
    assert (await alone.state(twin), await holder(alone)) == (None, None)
    assert await alone.drain(lane, worker) == []


@pytest.mark.parametrize("verb", ["cancel", "delete"])
async def test_a_twin_that_runs_gets_its_key_back(alone: Base, verb: str) -> None:
    """[E6] It has begun, so it goes on, and nobody runs beside it."""
    lane, worker = await alone.lane(), await alone.worker()
    twin, _ = await replace(alone.look)
    successor, _ = await replace(alone.look)
    got = await alone.claim(lane, worker)
    await alone.look.value(f"SELECT windlass.{verb}($1)", successor)
    assert (got.ids, await holder(alone)) == ([twin], twin)
    assert await replace(alone.look) == (twin, "rerun")
    await alone.finish(worker, got.jobs)
    assert len(await alone.drain(lane, worker)) == 1
    assert await holder(alone) is None


@pytest.mark.parametrize("policy", ["skip", "replace", "reject"])
async def test_a_producer_that_holds_the_key_is_waited_for(alone: Base, policy: str) -> None:
    """[E6] The key was given back only if nobody held it: the next job with it ran beside the twin."""
    lane, worker = await alone.lane(), await alone.worker()
    twin, _ = await replace(alone.look)
    successor, _ = await replace(alone.look)
    got = await alone.claim(lane, worker)
    producer, operator = await alone.sessions(2)
    await producer.begin()
    await producer.value("SELECT job FROM windlass.unique_key WHERE job = $1 FOR UPDATE", successor)
    if policy == "skip":
        assert await replace(producer, policy="skip") == (successor, "skipped")
    cancelling = asyncio.create_task(operator.value("SELECT windlass.cancel($1)", successor))
    await alone.blocked(operator)
    await producer.commit()
    assert await cancelling == "cancelled"
    assert await holder(alone) == twin
    if policy == "reject":
        with pytest.raises(asyncpg.PostgresError, match="is held by job"):
            await replace(alone.look, policy=policy)
    else:
        assert await replace(alone.look, policy=policy) == (twin, "rerun")
    await alone.finish(worker, got.jobs)
    await alone.look.value(REST)
    assert len(await alone.drain(lane, worker)) == (policy != "reject")
    assert await holder(alone) is None


async def test_a_producer_waits_for_who_ends_the_replacement(alone: Base) -> None:
    """[E6] It took the replacement's place, which was none any more, and ran beside the twin."""
    lane, worker = await alone.lane(), await alone.worker()
    twin, _ = await replace(alone.look)
    successor, _ = await replace(alone.look)
    got = await alone.claim(lane, worker)
    producer, operator = await alone.sessions(2)
    await operator.begin()
    assert await operator.value("SELECT windlass.cancel($1)", successor) == "cancelled"
    replacing = asyncio.create_task(replace(producer))
    await alone.blocked(producer)
    await operator.commit()
    assert await replacing == (twin, "rerun")
    await alone.finish(worker, got.jobs)
    assert len(await alone.drain(lane, worker)) == 1


async def test_a_twin_that_ends_while_it_gets_its_key_back_keeps_it_not(alone: Base) -> None:
    """[E6] It had no key to free when it ended, and nobody freed the one that it got."""
    lane, worker = await alone.lane(), await alone.worker()
    twin, _ = await replace(alone.look)
    successor, _ = await replace(alone.look)
    got = await alone.claim(lane, worker)
    (operator,) = await alone.sessions(1)
    await operator.begin()
    await operator.value("SELECT windlass.cancel($1)", successor)
    await alone.finish(worker, got.jobs)
    await operator.commit()
    assert got.ids == [twin]
    await alone.look.value(REST)
    assert await holder(alone) is None
    assert await alone.look.value("SELECT count(*) FROM windlass.unsettled") == 0


async def test_a_key_given_back_is_kept_while_its_job_runs(alone: Base) -> None:
    """[E6] What looks after keys that nobody freed leaves it alone."""
    lane, worker = await alone.lane(), await alone.worker()
    twin, _ = await replace(alone.look)
    successor, _ = await replace(alone.look)
    got = await alone.claim(lane, worker)
    await alone.look.value("SELECT windlass.cancel($1)", successor)
    assert await alone.look.value(REST) == 0
    assert await holder(alone) == twin
    await alone.finish(worker, got.jobs, Kind.RETRY)
    assert await alone.look.value(REST) == 0
    assert await replace(alone.look, policy="skip") == (twin, "skipped")


@pytest.mark.parametrize("policy", ["dead", "cancel"])
async def test_a_replacement_that_ends_by_its_policy_takes_its_twin_along(alone: Base, policy: str) -> None:
    """[E6] [P12] The twin of one that came after another, which failed, was left waiting."""
    lane, worker = await alone.lane(), await alone.worker()
    other = await alone.look.enqueue()
    twin, _ = await replace(alone.look)
    options = AFTER.format(key=f"{alone.queue}/k", job=other, policy=policy)
    row = await alone.look.row(ONE, alone.queue, options, "replace")
    assert row["status"] == "replaced"
    await alone.look.value("SELECT windlass.cancel($1)", other)
    for _ in range(2):
        await alone.look.value(FOLLOW)
        await alone.look.value(STEP)
    assert await alone.state(row["job"]) == {"dead": "dead", "cancel": "cancelled"}[policy]
    assert (await alone.state(twin), await holder(alone)) == (None, None)
    assert await alone.drain(lane, worker) == []


async def test_twins_that_run_are_passed(alone: Base) -> None:
    """[E6] It looked at the fifty oldest only: while they ran, all others waited with their successors."""
    lane, worker = await alone.lane(), await alone.worker()
    for _ in range(2):
        await alone.look.run(
            "SELECT windlass.enqueue_one('edit', '{}', $1, 2::smallint, NULL, NULL, "
            "json_build_object('unique_key', 'old-' || k)::text, 'replace', NULL) "
            "FROM generate_series(1, 120) AS k",
            alone.queue,
        )
    got = await alone.claim(lane, worker, 200)
    assert len(got.jobs) == 120
    await replace(alone.look, "new")
    successor, status = await replace(alone.look, "new")
    assert status == "replaced"
    assert [await alone.look.value(STEP) for _ in range(4)].count(1) == 1
    await alone.look.value("SELECT windlass.promote(100)")
    assert (await alone.claim(lane, worker)).ids == [successor]


async def test_an_enqueue_that_was_committed_does_not_fail(alone: Base) -> None:
    """[E6] Who was told that the store is not there would send it again, and make a second job of it."""
    store = await alone.store(deadline=3.0)
    (blocker,) = await alone.sessions(1)
    new = job(queue=alone.queue, unique_key="k", on_conflict="replace")
    (first,) = await store.enqueue([new])
    await blocker.begin()
    await blocker.value("SELECT windlass.lane_lock($1)", await alone.lane())
    async with within(PATIENCE):
        (second,) = await store.enqueue([new])
    assert second.status == "replaced"
    await blocker.rollback()
    await store.promote()
    assert (await alone.state(first.id), await alone.state(second.id)) == (None, "ready")


async def test_nor_does_one_whose_connection_is_lost_then(alone: Base) -> None:
    """[E6] [fault 5] The commit was answered; what comes behind it is the chore's business, too."""
    store = await alone.store(deadline=3.0)
    new = job(queue=alone.queue, unique_key="k", on_conflict="replace")
    (first,) = await store.enqueue([new])
    step = await alone.look.value("SELECT pg_get_functiondef('windlass.replace_step(int)'::regprocedure)")
    await alone.look.run(
        "CREATE OR REPLACE FUNCTION windlass.replace_step(p_limit int) RETURNS int LANGUAGE sql AS "
        "'SELECT pg_terminate_backend(pg_backend_pid())::int'"
    )
    (second,) = await store.enqueue([new])
    assert second.status == "replaced"
    await alone.look.run(step)
    await store.promote()
    assert (await alone.state(first.id), await alone.state(second.id)) == (None, "ready")
