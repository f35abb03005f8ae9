"""A flush hands a run of a key to its worker: jobs that take one place together, in their order, whichever of
them ends first, and how [F3] [F6]."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from tests.stock import BOTH
from tests.stopwatch import within
from tests.store.postgres.kit import Base
from tests.store.postgres.limits.test_flush_claims import Chains, die, handed
from tests.store.postgres.ring import Ring
from windlass.core.states import Kind
from windlass.store.postgres.outcomes import write
from windlass.store.records import ClaimedJob, Outcome, Room

pytestmark = BOTH

PLACES = "SELECT windlass.places_taken($1)::int"
PASSES = "SELECT count(*)::int FROM windlass.pass WHERE gate = $1"
TURNS = "SELECT array_agg(turn ORDER BY id) FROM windlass.held WHERE gate = $1"
POSITION = "SELECT position::int FROM windlass.order_mark WHERE queue = $1 AND key = $2"
KINDS = ("ordering_key", "concurrency_key", "task_limit")
STRAY = """
SELECT count(*)::int FROM windlass.outcome o JOIN windlass.claim c ON c.lane = o.lane AND c.id = o.claim
 WHERE NOT o.seqs <@ c.seqs
"""
"""Outcomes of jobs that their claim did not hold: none."""
BREAK = "SELECT cardinality(windlass.break_runs($1, ARRAY[{}]::windlass.handed[]))"
OVERLOOKED = """
SELECT (SELECT count(*) FROM windlass.held h CROSS JOIN LATERAL windlass.list_from(h.gate) AS s
         WHERE h.gate = $1 AND h.turn < s.turn)
     + (SELECT count(*) FROM windlass.pass p
         WHERE p.gate = $1 AND p.run < (SELECT s.run FROM windlass.list_start s WHERE s.gate = $1
                                         ORDER BY s.no DESC LIMIT 1))
"""
"""Jobs and passes of a gate that nobody would find, since they are below its start: none."""


def as_handed(jobs: Sequence[ClaimedJob]) -> str:
    """Jobs as a flush hands them over."""
    return ", ".join(
        f"ROW ({job.lane}, {job.claim}, {job.seq}, {job.id}, '{job.task}', '{{}}', '{{}}', 1, 0,"
        f" '{job.queue}', 2, 0, 0, {job.run})"
        for job in jobs
    )


class Runs(Chains):
    """Flushes ask for runs."""

    follow = 4

    def options(self, kind: str, limit: int = 1) -> dict[str, Any]:
        """What makes jobs of the test wait for each other."""
        if kind == "task_limit":
            return {"task": f"t.{self.base.queue}", "task_limit": limit}
        return {kind: self.base.queue} | ({"key_limit": limit} if kind == "concurrency_key" else {})

    def gate(self, kind: str) -> str:
        """The name of their gate."""
        queue = self.base.queue
        return {
            "ordering_key": f"order:{queue}/{queue}",
            "concurrency_key": f"key:{queue}",
            "task_limit": f"task:t.{queue}",
        }[kind]

    async def write(self, *outcomes: Outcome, room: int = 10, follow: int | None = None) -> list[ClaimedJob]:
        """A flush of these; what is handed over."""
        asked = Room(
            {self.base.queue: room}, runs={self.base.queue: self.follow if follow is None else follow}
        )
        finished = await self.store.finish(self.worker, next(self._flushes), outcomes, asked)
        assert finished.applied == len(outcomes)
        return handed(finished)

    async def end(self, *jobs: ClaimedJob, **asked: int) -> list[ClaimedJob]:
        """These have succeeded."""
        return await self.write(*[Outcome(job=job) for job in jobs], **asked)

    async def released(self, *jobs: ClaimedJob, **asked: int) -> list[ClaimedJob]:
        """These were not started."""
        return await self.write(*[Outcome(job=job, kind=Kind.RELEASED) for job in jobs], **asked)

    async def start(self, n: int, kind: str, limit: int = 1) -> tuple[list[int], list[ClaimedJob]]:
        """So many jobs, and the run behind the first: their ids, and the jobs of that run."""
        ids = await self.enqueue(n, **self.options(kind, limit))
        return ids, await self.end(*await self.claim())

    async def drain(self, n: int) -> list[int]:
        """Run what is left, so many jobs, one flush after the other; in which order."""
        ran: list[int] = []
        async with within(20):
            while len(ran) < n:
                await self.store.promote()
                jobs = await self.claim()
                while jobs:
                    ran += [job.id for job in jobs]
                    jobs = await self.end(*jobs, follow=0)
        return ran


@pytest.fixture
async def runs(base: Base) -> Runs:
    await base.lane()
    return Runs(base, await base.store(), await base.worker())


def numbers(jobs: Sequence[ClaimedJob]) -> list[int]:
    """Which of the jobs that were enqueued these are."""
    return [int(job.payload.strip("[]")) for job in jobs]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_takes_one_place(runs: Runs, kind: str) -> None:
    """[F3] [F6] Whichever ends first, nobody else is let through before the last of it has ended."""
    _, jobs = await runs.start(12, kind)
    assert numbers(jobs) == [1, 2, 3, 4, 5]
    assert len({job.run for job in jobs}) == 1
    assert jobs[0].run > 0
    assert await runs.held() == {job.fence for job in jobs}
    for job in (jobs[4], jobs[0], jobs[2]):
        assert await runs.end(job) == []
        assert await runs.base.look.value(PLACES, runs.gate(kind)) == 1
    more = await runs.end(jobs[3], jobs[1])
    assert numbers(more) == [6, 7, 8, 9, 10]
    assert more[0].run not in (0, jobs[0].run)
    (last,) = await runs.end(*more)
    assert (numbers([last]), last.run) == ([11], 0)
    assert await runs.end(last) == []
    assert await runs.base.look.value(PASSES, runs.gate(kind)) == 0


@pytest.mark.parametrize("kind", ["concurrency_key", "task_limit"])
async def test_runs_of_one_list_are_as_many_as_its_limit(runs: Runs, kind: str) -> None:
    """[F3] Those behind follow them in turn, so that the order of the list is about kept."""
    await runs.enqueue(20, **runs.options(kind, 3))
    jobs = await runs.end(*await runs.claim())
    by_run = {run: numbers([job for job in jobs if job.run == run]) for run in {job.run for job in jobs}}
    assert sorted(by_run.values()) == [[3, 6, 9, 12, 15], [4, 7, 10, 13, 16], [5, 8, 11, 14, 17]]
    assert await runs.base.look.value(PLACES, runs.gate(kind)) == 3
    first = [job for job in jobs if job.run == jobs[0].run]
    assert await runs.end(*first[1:]) == []
    more = await runs.end(first[0])
    assert len({job.run for job in more}) == 1
    assert await runs.base.look.value(PLACES, runs.gate(kind)) == 3


@pytest.mark.parametrize("split", [False, True])
async def test_those_behind_a_retry_wait_at_their_turns(runs: Runs, split: bool) -> None:
    """[F6] It keeps its place, and they theirs, before those that have come since; also where they are handed
    back in a later flush."""
    base, gate = runs.base, runs.gate("ordering_key")
    ids, jobs = await runs.start(8, "ordering_key")
    late = await runs.enqueue(2, **runs.options("ordering_key"))
    retry = Outcome(job=jobs[1], kind=Kind.RETRY, delay=0.01)
    rest = [Outcome(job=job, kind=Kind.RELEASED) for job in jobs[2:]]
    if split:
        assert await runs.write(Outcome(job=jobs[0]), retry) == []
        assert await runs.base.look.value(PLACES, gate) == 1
        assert await runs.write(*rest) == []
    else:
        assert await runs.write(Outcome(job=jobs[0]), retry, *rest) == []
    assert await base.look.value(PASSES, gate) == 1
    turns = await base.look.value(TURNS, gate)
    assert turns == sorted(turns)
    assert await base.look.value(POSITION, base.queue, base.queue) == 3
    assert await runs.held() == set()
    assert await runs.drain(len(ids[2:] + late)) == [*ids[2:], *late]
    assert await base.look.value(POSITION, base.queue, base.queue) == 10


@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_that_is_handed_back_comes_again_in_its_order(runs: Runs, kind: str) -> None:
    """[F3] [F6] The first of it keeps its place, and the others wait behind it."""
    ids, jobs = await runs.start(8, kind)
    late = await runs.enqueue(1, **runs.options(kind))
    assert await runs.end(jobs[0]) == []
    await runs.released(*jobs[1:], room=0)
    assert await runs.base.look.value(PASSES, runs.gate(kind)) == 1
    assert await runs.drain(len(ids[2:] + late)) == [*ids[2:], *late]


@pytest.mark.parametrize("kind", ["concurrency_key", "task_limit"])
async def test_one_that_is_put_off_leaves_its_place_to_the_rest(runs: Runs, kind: str) -> None:
    """[F3] It waits again, and is let through when the others of its run have ended, not beside them."""
    ids, jobs = await runs.start(6, kind)
    assert await runs.write(Outcome(job=jobs[0], kind=Kind.RELEASED)) == []
    assert await runs.base.look.value(PLACES, runs.gate(kind)) == 1
    await runs.store.promote()
    assert await runs.claim() == []
    assert await runs.end(*jobs[1:-1]) == []
    (again,) = await runs.end(jobs[-1])
    assert again.id == ids[1]


async def test_a_worker_that_dies_with_a_run_loses_nothing(runs: Runs) -> None:
    """[C8] [F6] While the first of it was running: others run all of it, in its order."""
    base = runs.base
    ids, jobs = await runs.start(8, "ordering_key")
    await die(runs)
    assert await base.look.value(PASSES, runs.gate("ordering_key")) == 1
    heir = Runs(base, runs.store, await base.worker())
    assert await heir.drain(len(ids) - 1) == ids[1:]
    assert await base.look.value(POSITION, base.queue, base.queue) == len(ids)
    assert numbers(jobs) == [1, 2, 3, 4, 5]


async def test_a_worker_that_leaves_gives_its_run_back(runs: Runs) -> None:
    """[S3] Uncharged, and in its order."""
    ids, _ = await runs.start(8, "ordering_key")
    await runs.store.retire(runs.worker)
    heir = Runs(runs.base, runs.store, await runs.base.worker())
    assert await heir.drain(len(ids) - 1) == ids[1:]


async def test_one_in_the_middle_is_cancelled(runs: Runs) -> None:
    """[O5] It ends, and those behind it go on in their order."""
    ids, jobs = await runs.start(8, "ordering_key")
    assert await runs.base.look.value("SELECT windlass.cancel($1)", jobs[2].id) == "requested"
    assert await runs.end(*jobs[:2]) == []
    assert await runs.released(*jobs[2:]) == []
    assert await runs.base.state(jobs[2].id) == "cancelled"
    assert await runs.drain(len(ids) - 4) == ids[4:]


async def test_one_that_died_lets_those_behind_it_go_on(runs: Runs) -> None:
    """[O4] A death ends a job for good, also in the flush that hands the rest back."""
    ids, jobs = await runs.start(8, "ordering_key")
    dead = Outcome(job=jobs[0], kind=Kind.DEAD, reason="x")
    await runs.write(
        dead,
        Outcome(job=jobs[1], kind=Kind.RETRY, delay=0.01),
        *[Outcome(job=job, kind=Kind.RELEASED) for job in jobs[2:]],
    )
    assert await runs.base.look.value("SELECT EXISTS (SELECT FROM windlass.deferred WHERE id = $1)", ids[2])
    assert await runs.drain(len(ids) - 2) == ids[2:]


async def test_a_locked_job_is_not_overtaken(runs: Runs) -> None:
    """[F6] Somebody is about to cancel it; the run ends before it."""
    ids = await runs.enqueue(6, **runs.options("ordering_key"))
    (job,) = await runs.claim()
    holder = await runs.base.session()
    await holder.begin()
    await holder.run("SELECT FROM windlass.held WHERE id = $1 FOR UPDATE", ids[3])
    jobs = await runs.end(job)
    assert [job.id for job in jobs] == ids[1:3]
    await holder.rollback()
    assert [job.id for job in await runs.end(*jobs)] == ids[3:]


@pytest.mark.parametrize(
    "options",
    [
        {"ordering_key": "o", "concurrency_key": "c"},
        {"concurrency_key": "c", "task_limit": 9},
        {"concurrency_key": "c", "fair_key": "f"},
    ],
)
async def test_a_job_with_another_gate_follows_nobody(runs: Runs, options: dict[str, Any]) -> None:
    """[F3] It has to pass that one, too."""
    queue = runs.base.queue
    named: dict[str, Any] = {
        name: f"{value}.{queue}" if name.endswith("key") else value for name, value in options.items()
    }
    await runs.enqueue(3, task=f"t.{queue}", **named)
    await runs.store.promote()
    (job,) = await runs.claim()
    assert len(await runs.end(job)) <= 1


async def test_another_limit_ends_a_run(runs: Runs) -> None:
    """[F3] Whether the next one may go is not for a run to say."""
    await runs.enqueue(3, **runs.options("concurrency_key"))
    await runs.enqueue(3, **runs.options("concurrency_key", 2))
    (job,) = await runs.claim()
    jobs = await runs.end(job)
    assert numbers(jobs) == [1, 2]


async def test_who_waits_in_the_lane_goes_first(runs: Runs) -> None:
    """[C2] With those that follow it; what was let through now waits behind it."""
    base, queue = runs.base, runs.base.queue
    for n in range(3):
        await runs.enqueue(6, concurrency_key=f"{queue}.{n}")
    (first,) = await runs.claim(1)
    plain = await runs.enqueue(1, tags=("x",))
    jobs = await runs.end(first, room=3, follow=1)
    assert [job.options.concurrency_key for job in jobs] == [
        f"{queue}.1", f"{queue}.2", None, f"{queue}.1", f"{queue}.2"
    ]  # fmt: skip
    assert plain == [job.id for job in jobs if not job.run]
    assert await runs.held() == {job.fence for job in jobs}
    (left,) = await runs.claim()
    assert left.options.concurrency_key == f"{queue}.0"
    assert await base.depth(await base.lane()) == 0


async def test_a_long_backlog_is_left_to_claims(runs: Runs) -> None:
    """[C2] They take many at once, the one that was let through behind them."""
    await runs.enqueue(3)
    (job,) = await runs.claim()
    await runs.enqueue(20, tags=("x",))
    assert await runs.end(job, room=5) == []
    assert len(await runs.claim()) == 21


async def test_a_number_that_is_not_seen_yet_is_not_passed(runs: Runs) -> None:
    """[rule 3] A producer has drawn it; what is handed over lies beyond, and a later claim finds it."""
    base = runs.base
    lane, producer = await base.lane(), await base.session()
    await runs.enqueue(6)
    (job,) = await runs.claim()
    await producer.begin()
    late = await producer.enqueue()
    jobs = await runs.end(job)
    assert numbers(jobs) == [1, 2, 3, 4, 5]
    cursor = await base.cursor(lane)
    assert (cursor["hi"], cursor["ahead_n"], await base.depth(lane)) == (job.seq, 5, 1)
    await producer.commit()
    got = await base.drain(lane, runs.worker)
    assert (late in got, await base.depth(lane)) == (True, 0)
    assert await runs.held() >= {each.fence for each in jobs}


async def test_a_limit_that_came_with_the_commit_breaks_a_run_off(runs: Runs) -> None:
    """[F3] Its jobs must pass the gate of their task, too: all but the first wait again."""
    base, task = runs.base, f"t.{runs.base.queue}"
    ids = await runs.enqueue(6, task=task, concurrency_key=base.queue)
    jobs = await runs.end(*await runs.claim())
    await runs.store.set_task(task, {"concurrency": 1})
    recheck = f"SELECT cardinality(windlass.handed_recheck($1, ARRAY[{as_handed(jobs)}]::windlass.handed[]))"
    assert await base.look.value(recheck, runs.worker) == 1
    assert await base.look.value(STRAY) == 0
    assert await runs.held() == {jobs[0].fence}
    assert await base.look.value(PASSES, f"key:{base.queue}") == 1
    assert await base.look.value(PASSES, f"task:{task}") == 1
    await runs.end(jobs[0], room=0)
    assert await runs.drain(len(ids) - 2) == ids[2:]


async def test_a_run_of_a_dead_worker_is_not_broken_off(runs: Runs) -> None:
    """[C5] Its jobs belong to others by then: put back here as well, they would be there twice."""
    task = f"t.{runs.base.queue}"
    ids = await runs.enqueue(6, task=task, concurrency_key=runs.base.queue)
    jobs = await runs.end(*await runs.claim())
    await runs.store.set_task(task, {"concurrency": 1})
    await die(runs)
    with pytest.raises(asyncpg.PostgresError, match="is not alive"):
        await runs.base.look.value(BREAK.format(as_handed(jobs)), runs.worker)
    again = Runs(runs.base, runs.store, await runs.base.worker())
    assert sorted(await again.drain(5)) == sorted(ids[1:])


async def test_runs_of_other_tasks_stay(runs: Runs) -> None:
    """[F3] Handed over in the same flush: their tasks have no limit."""
    base = runs.base
    for task in ("a", "b"):
        await runs.enqueue(4, task=f"{task}.{base.queue}", concurrency_key=f"{task}.{base.queue}")
    jobs = await runs.end(*await runs.claim())
    assert len(jobs) == 6
    await runs.store.set_task(f"a.{base.queue}", {"concurrency": 1})
    assert await base.look.value(BREAK.format(as_handed(jobs)), runs.worker) == 4


async def test_a_new_limit_counts_a_run_once(runs: Runs) -> None:
    """[F3] What runs of a task is counted when it gets one: of a run only one job runs."""
    base, task = runs.base, f"t.{runs.base.queue}"
    await runs.enqueue(6, task=task, concurrency_key=base.queue)
    jobs = await runs.end(*await runs.claim())
    await runs.store.set_task(task, {"concurrency": 2})
    await runs.enqueue(2, task=task, tags=("x",))
    await runs.store.promote()
    assert await base.look.value(PLACES, f"task:{task}") == 2
    assert len(await runs.claim()) == 1
    await runs.end(*jobs)


async def test_two_who_end_the_last_of_a_run_at_once_free_its_place(runs: Runs) -> None:
    """[F3] One in a transaction of its own, which has not committed when the flush looks at what is left."""
    base, gate = runs.base, runs.gate("concurrency_key")
    _, jobs = await runs.start(7, "concurrency_key")
    await runs.end(*jobs[2:])
    own = await base.session()
    await own.begin()
    _, freed = await write(own.connection, "windlass", runs.worker, 1000, [Outcome(job=jobs[0])], set())
    assert freed == [gate]
    assert await runs.end(jobs[1]) == []
    await own.commit()
    await runs.store.promote()
    (last,) = await runs.claim()
    assert numbers([last]) == [6]


async def test_one_that_ends_beside_a_flush_waits_for_it(runs: Runs) -> None:
    """[F3] The flush has left the place to the rest of the run; whoever ends that sees what it has done."""
    base, gate = runs.base, runs.gate("concurrency_key")
    _, jobs = await runs.start(7, "concurrency_key")
    await runs.end(*jobs[2:])
    flush, own = await base.session(), await base.session()
    await flush.begin()
    _, freed = await write(
        flush.connection, "windlass", runs.worker, 1000, [Outcome(job=jobs[1])], set(), admit=10
    )
    assert freed == []
    await own.begin()
    ending = asyncio.create_task(
        write(own.connection, "windlass", runs.worker, 1001, [Outcome(job=jobs[0])], set())
    )
    await base.blocked(own)
    await flush.commit()
    _, freed = await ending
    assert freed == [gate]
    await own.commit()
    await runs.store.promote()
    assert numbers(await runs.claim()) == [6]


async def test_runs_live_through_rotations(alone: Base) -> None:
    """[rule 7] They are carried like any other claim, and end once."""
    lane = await alone.lane()
    runs = Runs(alone, await alone.store(), await alone.worker())
    ids, jobs = await runs.start(30, "ordering_key")
    ran = ids[:1]
    ring = Ring(alone, await alone.session())
    while jobs:
        await ring.turn()
        assert await runs.held() == {job.fence for job in jobs}
        ran += [job.id for job in jobs]
        jobs = await runs.end(*jobs)
    assert ran == ids
    assert (await alone.depth(lane), await runs.held()) == (0, set())


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_happens_to_runs_no_limit_is_exceeded(base: Base, kind: str) -> None:
    """[F3] [F6] Three workers that succeed, retry, hand back, leave and cancel by lot: a ledger of what
    runs."""
    await base.lane()
    dice, store = random.Random(kind), await base.store()
    limit = 1 if kind == "ordering_key" else 3
    first = Runs(base, store, await base.worker())
    options = first.options(kind, limit) | {"max_attempts": 1000}
    ids = [each for _ in range(4) for each in await first.enqueue(40, **options)]
    workers = [first, *[Runs(base, store, await base.worker()) for _ in range(2)]]
    buffers: dict[Runs, list[list[ClaimedJob]]] = {worker: [] for worker in workers}
    ended: list[int] = []
    begun: list[int] = []

    def take(worker: Runs, jobs: list[ClaimedJob]) -> None:
        by_run: dict[int, list[ClaimedJob]] = {}
        for job in jobs:
            by_run.setdefault(job.run or -job.id, []).append(job)
        buffers[worker] += list(by_run.values())
        assert sum(map(len, buffers.values())) <= limit

    async with within(120):
        while len(ended) < len(ids):
            worker = dice.choice(workers)
            if not buffers[worker]:
                await store.promote()
                take(worker, await worker.claim(2))
                continue
            run = buffers[worker].pop(dice.randrange(len(buffers[worker])))
            cut = dice.randint(1, len(run))
            lot = dice.random()
            begun += [job.id for job in run[:1]]
            outcomes = [Outcome(job=job) for job in run[:cut]]
            rest = run[cut:]
            if lot < 0.25:
                outcomes[-1] = Outcome(job=run[cut - 1], kind=Kind.RETRY, delay=dice.choice([0.0, 0.001]))
            elif lot < 0.3:
                outcomes[-1] = Outcome(job=run[cut - 1], kind=Kind.DEAD)
            elif lot < 0.35 and cut > 1:
                assert await base.look.value("SELECT windlass.cancel($1)", run[cut - 1].id) == "requested"
                outcomes[-1] = Outcome(job=run[cut - 1], kind=Kind.CANCELLED)
            elif lot < 0.4:
                flushed, run = run[: cut - 1], run[cut - 1 :]
                if flushed:
                    await worker.end(*flushed, room=0)
                    ended += [job.id for job in flushed]
                buffers[worker].clear()
                await store.retire(worker.worker)
                workers[workers.index(worker)] = heir = Runs(base, store, await base.worker())
                buffers[heir] = []
                del buffers[worker]
                continue
            outcomes += [Outcome(job=job, kind=Kind.RELEASED) for job in rest]
            ended += [
                each.job.id for each in outcomes if each.kind in (Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED)
            ]
            follow = dice.choice([0, 1, 4, 20])
            take(worker, await worker.write(*outcomes, room=dice.randint(0, 3), follow=follow))
            assert await base.look.value(OVERLOOKED, first.gate(kind)) == 0
    assert sorted(ended) == sorted(ids)
    if kind == "ordering_key":
        assert ended == ids
    assert await base.look.value(PASSES, first.gate(kind)) == 0
