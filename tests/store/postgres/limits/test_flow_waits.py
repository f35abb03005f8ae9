"""Claims that meet somebody who holds what they need: a lane is never kept for it, a probe never lost, and a
limit that was set meanwhile counts [F1] [F3] [F7]. Buckets that somebody holds are in test_held_buckets."""

import asyncio
import json
from typing import Any

import pytest

from tests.store.postgres.kit import Answer, Base, Session, answer
from windlass.store.fields import NewBudget
from windlass.store.postgres import claims
from windlass.store.records import NewJob, Outcome

CLAIM = "CALL windlass.claim($1, $2, 100, $3, p_needs => $4, p_limited => $5)"
LIFE = "SELECT FROM windlass.worker_life WHERE id = $1 FOR UPDATE"
WAITS = "SELECT FROM pg_locks WHERE pid = $1 AND NOT granted"
PASSES = "SELECT count(*) FROM windlass.pass WHERE gate = $1"


@pytest.fixture(autouse=True)
async def _lane(base: Base) -> None:
    """Before the first job: one that has no lane yet waits for it aside."""
    await base.lane()


def needs_of(**tasks: list[tuple[str, int]]) -> str:
    """What jobs of some tasks need, as (budget, tokens)."""
    return json.dumps(
        {task: [{"budget": name, "n": n} for name, n in needs] for task, needs in tasks.items()}
    )


async def budget(base: Base, suffix: str = "", **about: Any) -> str:
    """A budget of the test's own, full, that does not refill within a test."""
    name = base.queue + suffix
    await (await base.store()).declare_budget(NewBudget(name=name, **{"rate": 0.0, "burst": 5, **about}))
    return name


async def half_open(base: Base, name: str) -> None:
    """Its breaker has been open for as long as it must."""
    now = await base.look.value("SELECT windlass.unix_time()")
    assert await base.look.value("SELECT windlass.report_calls($1, 0, 1, $2)", name, now - 3600) == "open"


async def claim(
    base: Base,
    worker: int,
    needs: str | None,
    *,
    by: Session | None = None,
    wait: int = 20,
    limited: bool = False,
) -> Answer:
    """One call of the claim procedure with what it must heed."""
    by = by or base.look
    lane = await by.value("SELECT windlass.lane_for($1, 2::smallint, '')", base.queue)
    return answer(lane, await by.row(CLAIM, lane, worker, wait, needs, limited))


def tasks(got: Answer) -> list[str]:
    return [job.task for job in got.jobs]


async def test_a_probe_that_stays_is_not_spent(base: Base) -> None:
    """[F7] The job that asks for the probe lacks the tokens of another budget: the next one is the probe."""
    worker, a, z = await base.worker(), await budget(base, "a", breaker=1), await budget(base, "z", burst=1)
    await (await base.store()).take(z, 1)
    await half_open(base, a)
    needs = needs_of(t=[(a, 1), (z, 1)], u=[(a, 1)])
    await base.look.enqueue("t")
    assert (await claim(base, worker, needs)).jobs == []
    await base.look.enqueue("u")
    assert tasks(await claim(base, worker, needs)) == ["u"]


async def test_the_probe_is_one_job_whatever_it_needs(base: Base) -> None:
    """[F7] Of jobs that need more and less the first goes, with what it needs."""
    worker, name = await base.worker(), await budget(base, breaker=1)
    await half_open(base, name)
    for task in ("t", "u", "t"):
        await base.look.enqueue(task)
    needs = needs_of(t=[(name, 2)], u=[(name, 1)])
    assert tasks(await claim(base, worker, needs)) == ["t"]
    assert await base.look.value("SELECT tokens FROM windlass.bucket WHERE budget = $1", name) == 3
    assert (await claim(base, worker, needs)).jobs == []


async def test_a_governors_bucket_that_is_held_does_not_keep_a_lane(base: Base) -> None:
    """[F2] Its settings are being changed, in a transaction that lasts."""
    worker, store = await base.worker(), await base.store()
    await store.set_queue(base.queue, {"governor": True})
    await base.look.enqueue("t")
    (hand,) = await base.sessions(1)
    await hand.begin()
    await hand.run("SELECT FROM windlass.bucket WHERE budget = $1 FOR UPDATE", f"queue:{base.queue}")
    assert (await claim(base, worker, None, limited=True)).status == "busy"
    await hand.commit()
    assert tasks(await claim(base, worker, None, limited=True)) == ["t"]


async def test_the_wait_for_a_lane_bounds_no_other_wait(base: Base) -> None:
    """[C5] A claim that had to wait for its lane waits for its worker's flush as if it had not."""
    worker, lane = await base.worker(), await base.lane()
    await base.look.enqueue("t")
    holder, flush, claimer = await base.sessions(3)
    await holder.begin()
    await holder.run("SELECT windlass.lane_lock($1)", lane)
    await flush.begin()
    await flush.run(LIFE, worker)
    meeting = asyncio.create_task(claim(base, worker, None, by=claimer, wait=600))
    await base.until(f"SELECT EXISTS ({WAITS} AND locktype = 'advisory')", claimer.pid)
    await holder.commit()
    long = f"{WAITS} AND locktype = 'transactionid' AND waitstart < clock_timestamp() - interval '700 ms'"
    await base.until(f"SELECT EXISTS ({long})", claimer.pid)
    await flush.commit()
    assert tasks(await meeting) == ["t"]


async def met(base: Base, worker: int, setting: Any) -> Answer:
    """A claim that has looked at its lane, and waits for its worker while something is set."""
    flush, claimer = await base.sessions(2)
    await flush.begin()
    await flush.run(LIFE, worker)
    meeting = asyncio.create_task(claim(base, worker, None, by=claimer))
    await base.blocked(claimer)
    await setting
    await flush.commit()
    return await meeting


async def test_a_limit_of_a_queue_counts_for_claims_under_way(base: Base) -> None:
    """[F3] The claim is to be made again, by one who knows of it."""
    worker, store = await base.worker(), await base.store()
    await store.enqueue([NewJob(task="t", payload="{}", queue=base.queue)] * 3)
    got = await met(base, worker, store.set_queue(base.queue, {"concurrency": 1}))
    assert (got.status, got.jobs) == ("limited", [])
    assert len((await claim(base, worker, None, limited=True)).jobs) == 1


async def test_a_limit_of_a_task_counts_for_claims_under_way(base: Base) -> None:
    """[F3] There is room for one; the others go aside."""
    worker, store, task = await base.worker(), await base.store(), base.queue
    await store.enqueue([NewJob(task=task, payload="{}", queue=base.queue)] * 3)
    got = await met(base, worker, store.set_task(task, {"concurrency": 1}))
    assert len(got.jobs) == 1
    assert await base.look.value(PASSES, f"task:{task}") == 1
    await store.set_task(task, {"concurrency": None})


async def test_a_claim_uses_up_every_pass_for_tokens(base: Base) -> None:
    """[F1] Also that of a budget which the task needs no more, and in a claim that needs nothing."""
    worker, store = await base.worker(), await base.store()
    a, b = await budget(base, "a", burst=1), await budget(base, "b")
    for needs in (None, needs_of(t=[(b, 1)])):
        assert (await store.take(a, 1)).granted
        await base.look.enqueue("t")
        assert (await claim(base, worker, needs_of(t=[(a, 1)]))).jobs == []
        await store.give_back(a, 1)
        await base.look.run("SELECT windlass.admit_gates($1, 10)", [f"budget:{a}/"])
        assert await base.look.value(PASSES, f"budget:{a}/") == 1
        assert tasks(await claim(base, worker, needs)) == ["t"]
        assert await base.look.value(PASSES, f"budget:{a}/") == 0


async def test_a_line_behind_a_probe_that_is_out_is_not_looked_at_all_the_time(base: Base) -> None:
    """[F7] Until it is claimed, or its moment is over, nobody else can be the probe."""
    worker, store = await base.worker(), await base.store()
    name = await budget(base, rate=1.0, breaker=1)
    assert (await store.take(name, 5)).granted
    for _ in range(3):
        await base.look.enqueue("t")
    assert (await claim(base, worker, needs_of(t=[(name, 1)]))).jobs == []
    await store.give_back(name, 5)
    await half_open(base, name)
    gate = f"budget:{name}/"
    assert await base.look.value("SELECT windlass.admit_gates($1, 10)", [gate]) == 1
    assert 1 < await base.look.value("SELECT windlass.gate_wait($1)", gate) <= 5


async def test_a_queue_at_its_limit_is_asked_again_now_and_then(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[F3] Not all the time: at once where this process has ended one of its jobs, else twice a second."""
    worker, store = await base.worker(), await base.store()
    await store.set_queue(base.queue, {"concurrency": 1})
    await store.enqueue([NewJob(task="t", payload="{}", queue=base.queue)] * 2)
    (first,) = await store.claim(worker, [base.queue], 10)
    monkeypatch.setattr(claims, "FULL_POLL", 0.01)
    while await store.claim(worker, [base.queue], 10) == [] and store._listener.wakeups_of(base.queue) == 0:
        await store.wait([base.queue], 5.0)  # until it listens
    assert await store.wait([base.queue], 5.0), "another worker may have ended one"
    monkeypatch.setattr(claims, "FULL_POLL", 60.0)
    waiting = asyncio.create_task(store.wait([base.queue], 4.0))
    await store.finish(worker, 1, [Outcome(job=job) for job in first.jobs])
    assert await waiting
    assert len(await store.claim(worker, [base.queue], 10)) == 1


async def test_a_limit_set_anew_counts_what_ran_without_one(base: Base) -> None:
    """[F3] A claim that still knew of the last limit has noted itself after that was taken away."""
    worker, store = await base.worker(), await base.store()
    await store.enqueue([NewJob(task="t", payload="{}", queue=base.queue)] * 5)
    await store.set_queue(base.queue, {"concurrency": 2})
    (late,) = await base.sessions(1)
    await late.begin()
    await late.run("INSERT INTO windlass.limited_queue (queue) VALUES ($1)", base.queue)  # as claim_count
    changing = asyncio.create_task(store.set_queue(base.queue, {"concurrency": None}))
    assert (await changing).concurrency is None
    await late.commit()
    assert len((await claim(base, worker, None)).jobs) == 5
    await store.set_queue(base.queue, {"concurrency": 5})
    await base.look.enqueue("t")
    assert (await claim(base, worker, None, limited=True)).status == "full"
