"""Gates under concurrency: no two give away the same room, and no room goes unnoticed [F3] [F6]."""

import asyncio
from typing import Any

import pytest

from tests.stopwatch import Stopwatch, within
from tests.store.postgres.kit import Base, Session
from windlass.core.flow import gates
from windlass.core.states import Kind
from windlass.store.records import ClaimedJob, NewJob, Options, Outcome

ADMIT = "SELECT windlass.admit_gates($1, 1000, $2)"
PASSES = "SELECT count(*) FROM windlass.pass WHERE gate = $1"
LINE = "SELECT count(*) FROM windlass.held WHERE gate = $1"
NOTED = "SELECT EXISTS (SELECT FROM windlass.changed_gate WHERE gate = $1)"


def key_of(base: Base) -> str:
    """A concurrency or ordering key of the test's own: its queue's name."""
    return base.queue


async def ready(base: Base, lane: int, worker: int) -> list[ClaimedJob]:
    """What the lane gives out."""
    return (await base.claim(lane, worker)).jobs


async def held(session: Session, n: int, **options: Any) -> list[int]:
    """Jobs that were enqueued by SQL, one transaction each."""
    return [await session.enqueue(**options) for _ in range(n)]


async def test_two_who_let_in_at_once_do_not_give_away_the_same_room(base: Base) -> None:
    """[F3] The second waits for the first and sees its passes."""
    lane, gate = await base.lane(), f"key:{key_of(base)}"
    first, second = await base.sessions(2)
    await held(base.look, 5, concurrency_key=key_of(base), key_limit=2)
    await first.begin()
    assert await first.value(ADMIT, [gate], 0) == 2
    meeting = asyncio.create_task(second.value(ADMIT, [gate], 10_000))
    await base.blocked(second)
    await first.commit()
    assert await meeting == 0
    assert await base.look.value(PASSES, gate) == 2
    assert len(await ready(base, lane, await base.worker())) == 2


async def test_who_does_not_get_the_lock_leaves_a_note(base: Base) -> None:
    """[F3] And promote finds it."""
    await base.lane()
    gate = f"key:{key_of(base)}"
    first, second = await base.sessions(2)
    await held(base.look, 1, concurrency_key=key_of(base))
    await first.begin()
    await first.value(ADMIT, [gate], 0)
    await held(base.look, 1, concurrency_key=key_of(base))
    assert await second.value(ADMIT, [gate], 1) == 0
    await first.rollback()
    assert await base.look.value(NOTED, gate)
    await (await base.store()).promote()
    assert await base.look.value(PASSES, gate) == 1
    assert not await base.look.value(NOTED, gate)


async def test_room_that_is_made_while_somebody_lets_in_is_not_lost(base: Base) -> None:
    """[F3] The admission began before the finish committed and could not see it: the finish left a note."""
    lane, worker = await base.lane(), await base.worker()
    gate = f"key:{key_of(base)}"
    await held(base.look, 2, concurrency_key=key_of(base))
    await base.look.value(ADMIT, [gate], 0)
    (job,) = await ready(base, lane, worker)
    flusher, admitter = await base.sessions(2)
    await flusher.begin()
    await base.finish(worker, [job], by=flusher)
    await admitter.begin()
    assert await admitter.value(ADMIT, [gate], 0) == 0
    await flusher.commit()
    await admitter.commit()
    assert await base.look.value(NOTED, gate), "nobody would look at the gate again"
    await (await base.store()).promote()
    assert len(await ready(base, lane, worker)) == 1


async def test_a_worker_that_dies_after_its_flush_leaves_nobody_waiting(base: Base) -> None:
    """[F3] It was to let the next one in, and did not come to that."""
    lane, worker = await base.lane(), await base.worker()
    await held(base.look, 2, ordering_key=key_of(base))
    store = await base.store()
    await store.promote()
    await base.finish(worker, await ready(base, lane, worker))  # the flush alone
    assert await ready(base, lane, worker) == []
    await store.promote()
    assert len(await ready(base, lane, worker)) == 1


async def test_a_finish_lets_the_next_one_in_at_once(base: Base) -> None:
    """[F6] Without a coordinator."""
    store, worker = await base.store(), await base.worker()
    jobs = [
        NewJob(task="t", payload=f"[{n}]", queue=base.queue, options=Options(ordering_key="k"))
        for n in range(3)
    ]
    assert {receipt.status for receipt in await store.enqueue(jobs)} == {"held"}
    for n in range(3):
        (claim,) = await store.claim(worker, [base.queue], 10)
        assert [job.payload for job in claim.jobs] == [f"[{n}]"]
        await store.finish(worker, n + 1, [Outcome(job=claim.jobs[0])])


async def test_the_order_is_that_of_commits(base: Base) -> None:
    """[F6] A late commit runs late; nobody waits for its transaction."""
    lane, worker = await base.lane(), await base.worker()
    late = await base.session()
    await late.begin()
    last = await late.enqueue(ordering_key=key_of(base))
    first = await base.look.enqueue(ordering_key=key_of(base))
    store = await base.store()
    await store.promote()
    (job,) = await ready(base, lane, worker)
    assert job.id == first
    await late.commit()
    await base.finish(worker, [job])
    await store.promote()
    assert [job.id for job in await ready(base, lane, worker)] == [last]


async def test_nobody_overtakes_one_who_is_just_being_taken_back(base: Base) -> None:
    """[F6] Its transaction may roll back. Other gates do not wait for it."""
    await base.lane()
    locker = await base.session()
    for named, passed in (("ordering_key", 0), ("concurrency_key", 1)):
        head, _ = await held(base.look, 2, **{named: key_of(base)})
        gate = f"key:{key_of(base)}" if passed else gates.order_gate(base.queue, key_of(base))
        await locker.begin()
        await locker.run("SELECT FROM windlass.held WHERE id = $1 FOR UPDATE", head)
        assert await base.look.value(ADMIT, [gate], 0) == passed
        await locker.rollback()
        assert await base.look.value(NOTED, gate) is not bool(passed), "somebody must look there again"


async def test_more_room_for_each_key_of_a_task_is_noted(base: Base) -> None:
    """[F3] Its jobs wait in the lines of their keys."""
    await base.lane()
    gate, task, store = f"key:{key_of(base)}", key_of(base), await base.store()
    await held(base.look, 2, task=task, concurrency_key=key_of(base))
    assert await base.look.value(ADMIT, [gate], 0) == 1
    assert not await base.look.value(NOTED, gate)
    await store.set_task(task, {"key_concurrency": 2})
    assert await base.look.value(NOTED, gate)
    assert await base.look.value(ADMIT, [gate], 0) == 1
    await store.set_task(task, {"key_concurrency": None})


async def test_producers_do_not_wait_for_each_other_or_for_who_lets_in(base: Base) -> None:
    """[F3] [E1]"""
    await base.lane()
    gate = f"key:{key_of(base)}"
    one, other, admitter = await base.sessions(3)
    await one.begin()
    await one.enqueue(concurrency_key=key_of(base), ordering_key=key_of(base))
    await admitter.begin()
    await admitter.value(ADMIT, [gate, gates.order_gate(base.queue, key_of(base))], 0)
    async with within(5):
        await held(other, 3, concurrency_key=key_of(base))
    await admitter.commit()
    await one.commit()
    assert await base.look.value(LINE, gate) == 3


async def test_a_job_walks_through_all_its_gates_in_one_step(base: Base) -> None:
    """[F3] [F6]"""
    lane, worker, task = await base.lane(), await base.worker(), f"t{base.queue}"[:64]
    await base.look.run("SELECT windlass.set_task($1, '{\"concurrency\": 2}')", task)
    for n in range(3):
        await base.look.enqueue(
            task, ordering_key=f"{base.queue}{n}", concurrency_key=key_of(base), key_limit=3
        )
    names = [gates.order_gate(base.queue, f"{base.queue}{n}") for n in range(3)]
    await base.look.value(ADMIT, names, 0)
    jobs = await ready(base, lane, worker)
    assert len(jobs) == 2
    assert await base.look.value(LINE, f"task:{task}") == 1
    await base.finish(worker, jobs[:1])
    assert await base.look.value(ADMIT, [f"task:{task}"], 0) == 1


async def test_an_attempt_that_is_put_off_keeps_its_order_and_nothing_else(base: Base) -> None:
    """[F6] A pass is a row that names its job."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue(ordering_key=key_of(base), concurrency_key=key_of(base))
    store = await base.store()
    await store.promote()
    await base.finish(worker, await ready(base, lane, worker), Kind.RETRY, delay=3600.0)
    passes = "SELECT array_agg(gate) FROM windlass.pass WHERE job = $1"
    assert await base.look.value(passes, job) == [gates.order_gate(base.queue, key_of(base))]
    await store.retry([job])
    await base.finish(worker, await ready(base, lane, worker))
    assert await base.look.value(passes, job) is None


async def test_a_pass_whose_job_has_ended_unnoticed_is_taken_back(base: Base) -> None:
    """[F3] No gate stays shut for ever, whoever ended the job without a word about its passes."""
    lane, worker = await base.lane(), await base.worker()
    await held(base.look, 2, concurrency_key=key_of(base))
    store = await base.store()
    await store.promote()
    (job,) = await ready(base, lane, worker)
    seqs = f"{{[{job.seq},{job.seq + 1})}}"
    await base.look.run(
        "SELECT windlass.finish($1, 1, $2, $3, $4, '{1}', NULL, NULL, NULL, NULL, NULL, NULL)",
        worker, [lane], [job.claim], [seqs],
    )  # fmt: skip
    assert await base.look.value("SELECT windlass.sweep_passes(100000)") == 1
    await store.promote()
    assert len(await ready(base, lane, worker)) == 1


@pytest.mark.parametrize(
    "gate",
    [
        "order:q/k", "order:q/a/b:c", "key:k", "key:it's", 'key:"both" it\'s', "key:a\\b\n\t",
        "task:mail.send", "budget:b/", "budget:b/k/l", "fair",
    ],
)  # fmt: skip
async def test_sql_says_why_a_job_waits_as_python_does(base: Base, gate: str) -> None:
    """[M4]"""
    name = None if gate == gates.FAIR else gate
    assert await base.look.value("SELECT windlass.gate_reason($1)", name) == gates.reason(gate)


async def test_the_view_says_what_a_job_waits_for(base: Base) -> None:
    """[M4]"""
    await base.lane()
    job = await base.look.enqueue(concurrency_key=key_of(base))
    found = await base.look.value("SELECT reason FROM windlass.job WHERE id = $1", job)
    assert found == gates.reason(f"key:{key_of(base)}")


async def test_a_claim_fills_its_lane_with_the_fair_jobs_behind_it(base: Base) -> None:
    """[C3] There is room again: nobody waits for the coordinator."""
    store, worker = await base.store(), await base.worker()
    new = NewJob(task="t", payload="{}", queue=base.queue, options=Options(fair_key="k"))
    await store.set_queue(base.queue, {"window": 1})
    await store.enqueue([new] * 3)
    for _ in range(3):
        assert len(await store.claim(worker, [base.queue], 1)) == 1


@pytest.mark.parametrize("named", ["fair_key", "concurrency_key", "ordering_key"])
async def test_who_sets_a_job_aside_calls_the_coordinator(base: Base, named: str) -> None:
    """[F3] [C3] From SQL, in a transaction of its own: it starts within moments, not with the next round."""
    await base.lane()
    store = await base.store()
    await store.wait_aside(0.01)  # it listens from now on
    await store.promote()
    called = asyncio.create_task(store.wait_aside(60))
    await base.look.enqueue(**{named: key_of(base)})
    watch = Stopwatch()
    await called
    assert watch.seconds() < 2


async def test_a_call_between_promote_and_wait_is_heard(base: Base) -> None:
    """[F3]"""
    await base.lane()
    store = await base.store()
    await store.wait_aside(0.01)
    await store.promote()
    await base.look.enqueue(concurrency_key=key_of(base))
    watch = Stopwatch()
    await store.wait_aside(60)
    assert watch.seconds() < 2
