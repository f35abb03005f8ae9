"""A flush hands the next jobs of its gates to its own worker, in one transaction, and never one job twice,
one too many, or past another that waits [F3] [F6] [C2]."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from tests.stock import BOTH
from tests.stopwatch import within
from tests.store.postgres.kit import Base
from tests.store.postgres.ring import Ring
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind
from windlass.errors import WorkerLost
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.outcomes import write
from windlass.store.records import ClaimedJob, Finished, NewJob, Options, Outcome, Receipt, Room

pytestmark = BOTH

LOCK_LANE = "SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)"
LOCK_GATE = "SELECT windlass.gate_lock($1, 1000)"
PASSES = "SELECT count(*)::int FROM windlass.pass WHERE gate = $1"
CLAIMS = "SELECT count(*)::int FROM windlass.claim WHERE lane = $1 AND worker = $2"


class Chains:
    """A store, a worker and a queue with keyed jobs; flushes are numbered, and ask for room."""

    def __init__(self, base: Base, store: PostgresStore, worker: int) -> None:
        self.base = base
        self.store = store
        self.worker = worker
        self._flushes = itertools.count(1)

    async def enqueue(
        self, n: int, *, task: str = "t", queue: str = "", priority: int = 2, **options: Any
    ) -> list[int]:
        """So many jobs, one transaction; their ids."""
        named = Options(**(options or {"concurrency_key": self.base.queue}))
        jobs = [
            NewJob(
                task=task, payload=f"[{i}]", queue=queue or self.base.queue, priority=priority, options=named
            )
            for i in range(n)
        ]
        receipts: list[Receipt] = await self.store.enqueue(jobs)
        return [receipt.id for receipt in receipts]

    async def claim(self, limit: int = 100) -> list[ClaimedJob]:
        """What can be claimed."""
        return [
            job
            for claim in await self.store.claim(self.worker, [self.base.queue], limit)
            for job in claim.jobs
        ]

    async def finish(
        self, jobs: Sequence[ClaimedJob], room: int = 10, kind: Kind = Kind.SUCCEEDED, **fields: Any
    ) -> list[ClaimedJob]:
        """End these, and take what is handed over."""
        finished = await self.flush(next(self._flushes), jobs, room, kind, **fields)
        assert finished.applied == len(jobs)
        return handed(finished)

    async def flush(
        self, number: int, jobs: Sequence[ClaimedJob], room: int, kind: Kind = Kind.SUCCEEDED, **fields: Any
    ) -> Finished:
        """A flush of this number."""
        tokens = fields.pop("tokens", ())
        outcomes = [Outcome(job=job, kind=kind, **fields) for job in jobs]
        return await self.store.finish(self.worker, number, outcomes, Room({self.base.queue: room}, tokens))

    async def held(self) -> set[tuple[int, int, int]]:
        """What the store says that the worker holds."""
        return await self.store.fences(self.worker)


def handed(finished: Finished) -> list[ClaimedJob]:
    """The jobs that came with the answer."""
    return [job for claim in finished.claims for job in claim.jobs]


async def die(chains: Chains) -> None:
    """The worker sends no more heartbeats, and is buried."""
    heartbeat = await chains.base.look.value(
        "SELECT heartbeat FROM windlass.worker_heartbeat WHERE id = $1", chains.worker
    )
    assert await chains.store.rescue(chains.worker, heartbeat, DeathPolicy()) is not None


@pytest.fixture
async def chains(base: Base) -> Chains:
    return Chains(base, await base.store(), await base.worker())


@pytest.mark.parametrize("key", ["concurrency_key", "ordering_key", "task_limit"])
async def test_each_flush_brings_the_next_of_its_key(chains: Chains, key: str) -> None:
    """[F3] [F6] One claim row a link, which moves the cursor along: nothing piles up ahead of it."""
    base = chains.base
    lane = await base.lane()
    named: dict[str, Any] = {key: 1 if key == "task_limit" else base.queue}
    ids = await chains.enqueue(20, task=f"t.{base.queue}", **named)
    (job,) = await chains.claim()
    before = await base.look.value(CLAIMS, lane, chains.worker)
    ran = [job]
    for _ in range(19):
        (job,) = await chains.finish([job])
        assert await chains.held() == {job.fence}
        ran.append(job)
    assert [job.id for job in ran] == ids
    assert [job.payload for job in ran] == [f"[{i}]" for i in range(20)]
    assert await base.look.value(CLAIMS, lane, chains.worker) == before + 19
    cursor = await base.cursor(lane)
    assert (cursor["ahead"], cursor["ahead_n"], cursor["holes"], await base.depth(lane)) == (None, 0, 0, 0)
    assert await chains.finish([job]) == []
    assert [await base.state(id) for id in ids] == ["succeeded"] * 20
    assert await chains.held() == set()


async def test_a_flush_brings_no_more_than_there_is_room_for(chains: Chains) -> None:
    """[F3] The others go into their lane, where any worker finds them."""
    key = chains.base.queue
    for n in range(5):
        await chains.enqueue(2, concurrency_key=f"{key}.{n}")
    first = await chains.claim()
    assert len(first) == 5
    second = await chains.finish(first, room=2)
    assert len(second) == 2
    third = await chains.claim()
    assert {job.options.concurrency_key for job in second + third} == {f"{key}.{n}" for n in range(5)}
    assert await chains.held() == {job.fence for job in second + third}


async def test_a_flush_sent_again_brings_nothing_twice(chains: Chains) -> None:
    """[C5] The job came with the first answer, or that was lost and a comparison finds it."""
    await chains.enqueue(3)
    (job,) = await chains.claim()
    (second,) = handed(await chains.flush(1, [job], 10))
    again = await chains.flush(1, [job], 10)
    assert (again.applied, again.repeated, again.claims) == (0, 1, ())
    assert await chains.held() == {second.fence}
    (found,) = [job for claim in await chains.store.unfinished(chains.worker) for job in claim.jobs]
    assert (found.id, found.payload, found.fence) == (second.id, second.payload, second.fence)
    assert [job.payload for job in await chains.finish([second])] == ["[2]"]


async def test_a_busy_lane_keeps_the_job_for_others(chains: Chains) -> None:
    """[F3] The flush does not wait for the lane: it is committed, and the job stands there like any other."""
    base = chains.base
    lane, holder = await base.lane(), await base.session()
    await chains.enqueue(2)
    (job,) = await chains.claim()
    await holder.begin()
    await holder.run(LOCK_LANE, lane)
    assert await chains.finish([job]) == []
    assert await base.depth(lane) == 1
    await holder.rollback()
    (second,) = await chains.claim()
    assert second.payload == "[1]"


async def test_a_gate_that_another_is_at_is_left_to_promote(chains: Chains) -> None:
    """[F3] The flush does not wait for it either, and what it leaves is noted."""
    base = chains.base
    holder = await base.session()
    await chains.enqueue(2)
    (job,) = await chains.claim()
    await holder.begin()
    await holder.run(LOCK_GATE, f"key:{base.queue}")
    assert await chains.finish([job]) == []
    assert await chains.claim() == []
    await holder.rollback()
    await chains.store.promote()
    assert [job.payload for job in await chains.claim()] == ["[1]"]


async def test_a_job_that_comes_while_the_flush_is_under_way_is_let_in(chains: Chains) -> None:
    """[F3] The flush cannot see it; who enqueued it lets it in after its own commit."""
    base = chains.base
    producer = await base.session()
    await chains.enqueue(1)
    (job,) = await chains.claim()
    await producer.begin()
    late = await producer.enqueue(concurrency_key=base.queue)
    assert await chains.finish([job]) == []
    await producer.commit()
    await chains.store.promote()
    assert [job.id for job in await chains.claim()] == [late]


async def test_nobody_who_waits_in_the_queue_is_overtaken(chains: Chains) -> None:
    """[C2] Neither in the same lane nor in one of another priority: a long chain must not keep a slot."""
    await chains.base.lane(priority=3)
    await chains.enqueue(4)
    (job,) = await chains.claim()
    for priority in (2, 3):
        await chains.enqueue(1, task="other", priority=priority, tags=("x",))
        assert await chains.finish([job]) == []
        got = await chains.claim()
        assert sorted(job.task for job in got) == ["other", "t"]
        (job,) = [each for each in got if each.task == "t"]
        await chains.finish([each for each in got if each.task == "other"])
    assert len(await chains.finish([job])) == 1


async def test_a_number_that_a_producer_has_drawn_is_not_passed(chains: Chains) -> None:
    """[rule 3] Its job may commit: the cursor stays below it, and a claim finds it."""
    base = chains.base
    lane, producer = await base.lane(), await base.session()
    await chains.enqueue(2)
    (job,) = await chains.claim()
    await producer.begin()
    late = await producer.enqueue()
    assert await chains.finish([job]) == []
    await producer.commit()
    got = await base.drain(lane, chains.worker)
    assert (len(got), late in got, await base.depth(lane)) == (2, True, 0)


async def test_the_cursor_passes_what_was_taken_ahead(chains: Chains) -> None:
    """[rule 13] A cancelled job stands between the cursor and the one that is handed over."""
    base = chains.base
    lane = await base.lane()
    await chains.enqueue(2)
    (job,) = await chains.claim()
    cancelled = await base.look.enqueue()
    assert await base.look.value("SELECT windlass.cancel($1)", cancelled) == "cancelled"
    assert (await base.cursor(lane))["ahead_n"] == 1
    (second,) = await chains.finish([job])
    cursor = await base.cursor(lane)
    assert (cursor["hi"], cursor["ahead"], cursor["ahead_n"]) == (second.seq, None, 0)
    assert (await base.state(cancelled), await base.state(second.id)) == ("cancelled", "running")


@pytest.mark.parametrize(
    ("name", "on", "off"), [("paused", True, False), ("concurrency", 5, None), ("governor", True, False)]
)
async def test_a_queue_that_holds_back_hands_nothing_over(
    chains: Chains, name: str, on: Any, off: Any
) -> None:
    """[F2] [F3] Only a claim counts what its limits allow."""
    await chains.enqueue(2)
    (job,) = await chains.claim()
    await chains.store.set_queue(chains.base.queue, {name: on})
    assert await chains.finish([job]) == []
    await chains.store.set_queue(chains.base.queue, {name: off})
    await chains.store.promote()
    assert [job.payload for job in await chains.claim()] == ["[1]"]


async def test_jobs_that_need_tokens_are_left_to_a_claim(chains: Chains) -> None:
    """[F1] Only a claim takes tokens."""
    await chains.enqueue(2)
    (job,) = await chains.claim()
    assert await chains.finish([job], tokens=frozenset({"t"})) == []
    assert [job.payload for job in await chains.claim()] == ["[1]"]


async def test_a_lowered_limit_counts_at_once(chains: Chains) -> None:
    """[F3] Two run where now one may: the end of one lets nobody go, the end of the other does."""
    key = chains.base.queue
    await chains.enqueue(4, task=f"t.{key}", concurrency_key=key, key_limit=2)
    first, second = await chains.claim()
    await chains.store.set_task(f"t.{key}", {"key_concurrency": 1})
    assert await chains.finish([first]) == []
    assert len(await chains.finish([second])) == 1
    assert await chains.base.look.value(PASSES, f"key:{key}") == 1


async def test_a_worker_that_dies_after_the_flush_claim_loses_nothing(chains: Chains) -> None:
    """[C8] [F6] Its job goes to another worker, with the pass that it has, before the one behind it."""
    base = chains.base
    await chains.enqueue(3, ordering_key=base.queue)
    (job,) = await chains.claim()
    (second,) = await chains.finish([job])
    await die(chains)
    with pytest.raises(WorkerLost):
        await chains.finish([second])
    heir = Chains(base, chains.store, await base.worker())
    (again,) = await heir.claim()
    assert (again.id, again.deaths) == (second.id, 1)
    (third,) = await heir.finish([again])
    assert third.payload == "[2]"
    assert await base.look.value(PASSES, f"order:{base.queue}/{base.queue}") == 1


async def test_a_job_that_has_seen_a_worker_die_is_claimed_alone(chains: Chains) -> None:
    """[C8] It is not handed over, even as the next of its key."""
    base = chains.base
    await chains.enqueue(2)
    (job,) = await chains.claim()
    await die(chains)
    heir = Chains(base, chains.store, await base.worker())
    (again,) = await heir.claim()
    (second,) = await heir.finish([again], kind=Kind.RETRY, delay=0.01)
    async with within(20):
        while not await base.look.value("SELECT EXISTS (SELECT FROM windlass.held WHERE id = $1)", job.id):
            await chains.store.promote()
    assert await heir.finish([second]) == []
    (last,) = await heir.claim()
    assert (last.id, last.deaths) == (job.id, 1)


async def test_a_retry_gives_its_slot_to_the_next(chains: Chains) -> None:
    """[F3] A job that is put off frees its key, and the next one comes with that flush."""
    await chains.enqueue(2)
    (job,) = await chains.claim()
    (second,) = await chains.finish([job], kind=Kind.RETRY, delay=60.0)
    assert second.payload == "[1]"


async def test_two_workers_of_one_key_never_run_more_than_its_limit(chains: Chains) -> None:
    """[F3] Flushes on two lanes at once: the limit of three holds at every moment, and each job runs once."""
    base, key = chains.base, chains.base.queue
    await base.lane(priority=1)
    ids = [
        *await chains.enqueue(30, concurrency_key=key, key_limit=3),
        *await chains.enqueue(30, priority=1, concurrency_key=key, key_limit=3),
    ]
    workers = [chains, *[Chains(base, await base.store(), await base.worker()) for _ in range(2)]]
    ran: list[int] = []
    running: set[int] = set()

    async def work(worker: Chains) -> None:
        jobs: list[ClaimedJob] = []
        while len(ran) < len(ids):
            if not jobs:
                jobs = await worker.claim(2)
                running.update(job.id for job in jobs)
            assert len(running) <= 3
            if not jobs:
                await worker.store.promote()
                continue
            running.difference_update(job.id for job in jobs)
            ran.extend(job.id for job in jobs)
            jobs = await worker.finish(jobs, room=2)
            running.update(job.id for job in jobs)

    async with within(60):
        await asyncio.gather(*map(work, workers))
    assert sorted(ran) == sorted(ids)


async def test_a_chain_lives_through_rotations(alone: Base) -> None:
    """[rule 7] The claim that a flush made is carried like any other, and its job ends once."""
    chains = Chains(alone, await alone.store(), await alone.worker())
    lane = await alone.lane()
    await chains.enqueue(12)
    (job,) = await chains.claim()
    ring = Ring(alone, await alone.session())
    for n in range(11):
        await ring.turn()
        (job,) = await chains.finish([job])
        assert job.payload == f"[{n + 1}]"
        assert await chains.held() == {job.fence}
    await chains.finish([job])
    assert (await alone.depth(lane), await chains.held()) == (0, set())


async def test_a_limit_that_came_with_the_commit_is_looked_at_again(chains: Chains) -> None:
    """[F3] A task was limited while the flush was under way, and others of it run: its job is put aside."""
    base, task = chains.base, f"t.{chains.base.queue}"
    await chains.enqueue(2, task=task, concurrency_key=base.queue)
    await chains.enqueue(1, task=task, tags=("plain",))
    got = await chains.claim()
    keyed = next(job for job in got if job.options.concurrency_key)
    (second,) = await chains.finish([keyed])
    await chains.store.set_task(task, {"concurrency": 1})
    stays = await base.look.value(
        "SELECT cardinality(windlass.handed_recheck($1, ARRAY[ROW ($2::int, $3::bigint, $4::bigint,"
        " $5::bigint, $6::text, '{}', '{}', 1, 0, $7::text, 2, 0, 0, 0)]::windlass.handed[]))",
        chains.worker, second.lane, second.claim, second.seq, second.id, task, base.queue,
    )  # fmt: skip
    assert stays == 0
    assert await chains.held() == {job.fence for job in got if not job.options.concurrency_key}


async def test_a_session_of_another_isolation_level_is_answered(chains: Chains) -> None:
    """[rule 2] Its default is REPEATABLE READ, and some task has a limit, which is looked at after the
    commit."""
    base = chains.base
    await chains.enqueue(3)
    (job,) = await chains.claim()
    await chains.store.set_task(f"other.{base.queue}", {"concurrency": 5})
    session = await base.session(default_transaction_isolation="repeatable read")
    room = Room({base.queue: 5})
    finished, _ = await write(
        session.connection, "windlass", chains.worker, 1, [Outcome(job=job)], set(), admit=10, room=room
    )
    assert finished.applied == 1
    assert len(handed(finished)) == 1


async def test_jobs_keep_their_order_at_the_next_gate(chains: Chains) -> None:
    """[C2] A retry came back to the end of its key's list; it stays behind the others at the task's gate."""
    store, task = chains.store, f"t.{chains.base.queue}"
    await store.set_task(task, {"concurrency": 1, "key_concurrency": 1})
    first, *others = await chains.enqueue(4, task=task, concurrency_key=chains.base.queue)
    jobs = await chains.claim()
    assert [job.id for job in jobs] == [first]
    await chains.finish(jobs, room=0, kind=Kind.RETRY, delay=0.01)
    while await chains.base.state(first) != "ready":
        await store.promote()
    await store.set_task(task, {"key_concurrency": 10})
    await store.promote()
    order: list[int] = []
    while len(order) < 4:
        jobs = await chains.claim()
        order += [job.id for job in jobs]
        await chains.finish(jobs, room=0)
    assert order == [*others, first]
