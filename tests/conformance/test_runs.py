"""Runs of keys: jobs of one waiting list that are handed over together, to run one after the other. They take
one place at their gate whatever becomes of them, and those that did not run wait again at their turn [F3]
[F6]."""

import random
from collections import Counter, deque
from itertools import permutations
from typing import Any

import pytest

from tests.conformance.gate_kit import settle, take
from tests.conformance.kit import Rig, job
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.records import ClaimedJob, Finished, Outcome, Room

ROOM = Room({"default": 10}, runs={"default": 3})
KEYS: list[dict[str, Any]] = [{"ordering_key": "k"}, {"concurrency_key": "k"}, {"task_limit": 1}]


def jobs_of(finished: Finished) -> list[ClaimedJob]:
    return [job for claim in finished.claims for job in claim.jobs]


async def hand_over(rig: Rig, worker: int, ended: list[ClaimedJob], room: Room = ROOM) -> list[ClaimedJob]:
    """End these well, and take what comes with the answer."""
    return jobs_of(await rig.flush(worker, [Outcome(job=job) for job in ended], room))


async def begin_run(rig: Rig, worker: int, n: int = 6, **key: Any) -> tuple[list[int], list[ClaimedJob]]:
    """The ids of jobs of one key, and those of them that came as a run when the first had ended."""
    ids = await rig.add(*(["t"] * n), **key)
    return ids, await hand_over(rig, worker, await take(rig, worker))


async def order_of_rest(rig: Rig, worker: int) -> list[int]:
    """Run all that is left, one by one."""
    seen: list[int] = []
    while claimed := await take(rig, worker):
        assert len(claimed) == 1
        seen.append(claimed[0].id)
        await rig.finish(worker, claimed)
    return seen


# -- what is handed over ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
async def test_f3_f6_the_next_of_a_waiting_list_come_together(rig: Rig, key: dict[str, Any]) -> None:
    """[F3] [F6] In the order of the list, in one claim, as many as the worker said."""
    worker = await rig.worker()
    ids, run = await begin_run(rig, worker, **key)
    assert [job.id for job in run] == ids[1:5]
    assert len({(job.claim, job.run) for job in run}) == 1
    assert run[0].run
    assert {job.attempt for job in run} == {1}
    assert await take(rig, await rig.worker()) == []
    (last,) = await hand_over(rig, worker, run)
    assert (last.id, last.run) == (ids[5], 0)
    assert await hand_over(rig, worker, [last]) == []


async def test_f3_a_run_takes_one_place(rig: Rig) -> None:
    """[F3] Two of a key may run, so two runs may."""
    worker = await rig.worker()
    ids, run = await begin_run(rig, worker, 12, concurrency_key="k", key_limit=2)
    assert sorted(job.id for job in run) == ids[2:10]
    assert sorted(Counter(job.run for job in run).values()) == [4, 4]
    (gate,) = await rig.store.gates()
    assert (gate.passes, gate.waiting) == (2, 2)
    assert await take(rig, worker) == []
    first = [job for job in run if job.run == run[0].run]
    assert len(await hand_over(rig, worker, first)) == 2


@pytest.mark.parametrize("room", [Room({"default": 10}), Room({"default": 10}, runs={"default": 0})])
async def test_without_a_word_of_runs_each_comes_on_its_own(rig: Rig, room: Room) -> None:
    """[F6] As a worker says that knows no run times."""
    worker = await rig.worker()
    ids = await rig.add(*"ttt", ordering_key="k")
    (next_one,) = await hand_over(rig, worker, await take(rig, worker), room)
    assert (next_one.id, next_one.run) == (ids[1], 0)


async def test_c5_a_flush_sent_again_hands_over_nothing(rig: Rig) -> None:
    """[C5] [S4] What came with a lost answer is found among what the worker has not finished."""
    worker = await rig.worker()
    await rig.add(*(["t"] * 6), ordering_key="k")
    ended = [Outcome(job=job) for job in await take(rig, worker)]
    flush = rig.next_flush(worker)
    run = jobs_of(await rig.store.finish(worker, flush, ended, ROOM))
    assert len(run) == 4
    again = await rig.store.finish(worker, flush, ended, ROOM)
    assert (again.repeated, again.claims) == (1, ())
    unfinished = [job.id for claim in await rig.store.unfinished(worker) for job in claim.jobs]
    assert unfinished == [job.id for job in run]


# -- who does not follow ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"task": "tokens"},
        {"concurrency_key": "l"},
        {"priority": 1},
        {"fair_key": "f"},
        {"chunked": True},
        {"expires": 3600.0},
    ],
)
async def test_a_run_ends_before_a_job_that_is_not_as_simple(rig: Rig, other: dict[str, Any]) -> None:
    """[F1] [F3] [C3] [P4] It has another gate, or a claim has to see to it; those behind it wait as well."""
    worker = await rig.worker()
    ids = await rig.add("t", "t", "t", ordering_key="k")
    (special,) = [(await rig.one(**{"task": "t", "ordering_key": "k"} | other)).id]
    ids += await rig.add("t", "t", ordering_key="k")
    room = Room({"default": 10}, frozenset({"tokens"}), {"default": 5})
    run = await hand_over(rig, worker, await take(rig, worker), room)
    assert [job.id for job in run] == ids[1:3]
    await rig.finish(worker, run)
    assert await rig.state(special) is State.READY
    assert await rig.state(ids[3]) is State.READY


async def test_c8_a_crashed_job_is_of_no_run(rig: Rig) -> None:
    """[C8] It has seen a worker die, and is claimed alone."""
    worker, lost = await rig.worker(), await rig.worker()
    ids, run = await begin_run(rig, lost, ordering_key="k")
    assert len(run) == 4
    await rig.die(lost)
    (crashed,) = await take(rig, worker)
    assert (crashed.id, crashed.deaths, crashed.run) == (ids[1], 1, 0)
    handed = await hand_over(rig, worker, [crashed])
    assert [(job.id, job.deaths) for job in handed] == [(id, 0) for id in ids[2:]]


@pytest.mark.parametrize("key", KEYS)
async def test_c8_those_that_did_not_begin_are_charged_nothing(rig: Rig, key: dict[str, Any]) -> None:
    """[C8] A death goes to the first of a run that has not ended, which can have begun. The others waited for
    it; three deaths would have made them poison."""
    ids, run = await begin_run(rig, gone := await rig.worker(), **key)
    await rig.finish(gone, run[0])
    assert (await rig.die(gone)).dead == 0
    deaths = {id: (await rig.look(id)).deaths for id in ids[2:]}
    assert deaths == {id: int(id == ids[2]) for id in ids[2:]}


async def test_c8_each_run_has_one_that_may_have_begun(rig: Rig) -> None:
    """[C8] [F3] Two of a key may run: two are charged. So is a job that was claimed on its own."""
    gone = await rig.worker()
    ids, run = await begin_run(rig, gone, 12, concurrency_key="k", key_limit=2)
    (alone,) = await rig.add("t")
    await rig.run(gone, alone)
    await rig.die(gone)
    charged = {id for id in [*ids[2:], alone] if (await rig.look(id)).deaths}
    assert charged == {alone} | {min(job.id for job in run if job.run == each.run) for each in run}


@pytest.mark.parametrize("change", [{"concurrency": 5}, {"governor": True}])
async def test_f2_f3_a_queue_with_a_limit_of_its_own_gives_single_jobs(
    rig: Rig, change: dict[str, Any]
) -> None:
    """[F2] [F3] Its limits count jobs that are claimed."""
    worker = await rig.worker()
    await rig.add(*(["t"] * 6), ordering_key="k")
    first = await take(rig, worker)
    await rig.store.set_queue("default", change)
    assert len(await hand_over(rig, worker, first)) <= 1


# -- how its jobs end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_f3_the_place_is_free_with_the_last_of_them(rig: Rig, order: tuple[int, ...]) -> None:
    """[F3] Whichever that is."""
    worker = await rig.worker()
    _, run = await begin_run(rig, worker, 5, concurrency_key="k")
    kinds = [Kind.SUCCEEDED, Kind.CANCELLED, Kind.DEAD]
    await rig.finish(worker, run[3])
    for n, kind in zip(order, kinds, strict=True):
        assert await take(rig, worker) == []
        await rig.finish(worker, run[n], kind)
    await rig.add("t", concurrency_key="k")
    assert len(await take(rig, worker)) == 1


async def test_f3_who_did_not_run_waits_at_its_turn(rig: Rig) -> None:
    """[F3] Before those that have waited behind it, whoever is handed back first."""
    worker = await rig.worker()
    ids, run = await begin_run(rig, worker, concurrency_key="k")
    await rig.finish(worker, run[3], Kind.RELEASED)
    assert await rig.state(ids[4]) is State.READY
    await rig.finish(worker, [run[1], run[2]], Kind.RELEASED)
    assert await take(rig, worker) == []
    await rig.finish(worker, run[0])
    assert await order_of_rest(rig, worker) == ids[2:]


async def test_f3_the_others_go_on_where_one_tries_again(rig: Rig) -> None:
    """[F3] It waits for its time, and then at the end of the list."""
    worker = await rig.worker()
    ids, run = await begin_run(rig, worker, concurrency_key="k")
    await rig.finish(worker, run[0], Kind.RETRY, delay=60)
    assert await take(rig, worker) == []
    await rig.finish(worker, run[1:])
    assert await order_of_rest(rig, worker) == ids[5:]
    await rig.clock.advance(61)
    assert await order_of_rest(rig, worker) == [ids[1]]


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.THROTTLED])
async def test_f6_nobody_comes_before_one_that_is_put_off(rig: Rig, kind: Kind) -> None:
    """[F6] It keeps its place, and those behind it wait for it once more, each at its turn."""
    worker = await rig.worker()
    ids, run = await begin_run(rig, worker, ordering_key="k")
    outcomes = [Outcome(job=run[0], kind=kind, delay=60)]
    outcomes += [Outcome(job=job, kind=Kind.RELEASED) for job in run[1:]]
    assert jobs_of(await rig.flush(worker, outcomes, ROOM)) == []
    assert await take(rig, worker) == []
    assert {(await rig.look(id)).attempt for id in ids[2:5]} == {1}
    await rig.clock.advance(61)
    assert await order_of_rest(rig, worker) == ids[1:]
    (mark,) = await rig.store.watermarks("default")
    assert mark.position == 6


@pytest.mark.parametrize("backwards", [False, True])
async def test_f6_a_run_that_is_handed_back_starts_over(rig: Rig, backwards: bool) -> None:
    """[F6] In order, and alone."""
    worker = await rig.worker()
    ids, run = await begin_run(rig, worker, ordering_key="k")
    await rig.finish(worker, run[0])
    await rig.finish(worker, run[:0:-1] if backwards else run[1:], Kind.RELEASED)
    assert await order_of_rest(rig, worker) == ids[2:]
    (mark,) = await rig.store.watermarks("default")
    assert (mark.position, mark.waiting) == (6, 0)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("end", ["retire", "die"])
async def test_f3_f6_the_run_of_a_worker_that_is_gone_starts_over(
    rig: Rig, key: dict[str, Any], end: str
) -> None:
    """[F3] [F6] [C8] One after the other, as if none had been given out."""
    gone, worker = await rig.worker(), await rig.worker()
    ids, run = await begin_run(rig, gone, **key)
    await rig.finish(gone, run[0])
    await (rig.store.retire(gone) if end == "retire" else rig.die(gone))
    seen: list[int] = []
    while claimed := await take(rig, worker):
        assert len(claimed) == 1
        seen.append(claimed[0].id)
        await rig.finish(worker, claimed)
    assert seen == ids[2:]


async def test_f6_a_follower_that_is_cancelled_ends_before_its_turn(rig: Rig) -> None:
    """[F6] [O5] The others of the run do not mind."""
    worker = await rig.worker()
    ids, run = await begin_run(rig, worker, ordering_key="k")
    await rig.finish(worker, run[1], Kind.CANCELLED)
    assert await rig.state(ids[2]) is State.CANCELLED
    assert await take(rig, worker) == []
    await rig.finish(worker, [run[0], run[2], run[3]])
    assert await order_of_rest(rig, worker) == ids[5:]


# -- whatever happens ---------------------------------------------------------------------------------------


LIMITS = {"a": 1, "b": 1, "c": 1, "d": 2}
"""Two ordering keys and two concurrency keys."""


class Walk:
    """Workers that run what they were handed in order, fail, hand back and die at random."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig = rig
        self.pick = random.Random(seed)
        self.holds: dict[int, list[deque[ClaimedJob]]] = {}
        self.order: dict[str, list[int]] = {"a": [], "b": []}
        self.over: set[int] = set()
        self.runs = 0

    async def enqueue(self) -> None:
        key = self.pick.choice("abcd")
        options: dict[str, Any] = {"ordering_key": key}
        if key in "cd":
            options = {"concurrency_key": key, "key_limit": LIMITS[key]}
        receipts = await self.rig.store.enqueue([job("t", **options) for _ in range(self.pick.randint(1, 8))])
        if key in self.order:
            self.order[key] += [receipt.id for receipt in receipts]

    def start(self, worker: int, jobs: list[ClaimedJob]) -> None:
        groups: dict[object, deque[ClaimedJob]] = {}
        for each in jobs:
            groups.setdefault((each.claim, each.run) if each.run else each.fence, deque()).append(each)
        self.runs += sum(len(group) > 1 for group in groups.values())
        self.holds[worker] += groups.values()
        taken = Counter(key_of(group[0]) for mine in self.holds.values() for group in mine)
        for key, n in taken.items():
            assert n <= LIMITS[key], f"{n} at once of {key}"

    def execute(self, each: ClaimedJob) -> Outcome:
        """A job starts, and ends somehow."""
        assert each.id not in self.over, "again after its end"
        before = self.order.get(key_of(each), [each.id])
        assert self.over.issuperset(before[: before.index(each.id)]), "before one of its key"
        draw = self.pick.random()
        kind = Kind.SUCCEEDED if draw < 0.8 else self.pick.choice([Kind.RETRY, Kind.SNOOZE, Kind.RELEASED])
        if kind is Kind.SUCCEEDED:
            self.over.add(each.id)
        return Outcome(job=each, kind=kind, delay=self.pick.choice([0.0, 5.0]))

    async def work(self, worker: int, most: int) -> None:
        """Some of its runs go on by some jobs; what must not start is handed back in the same flush."""
        outcomes: list[Outcome] = []
        for group in list(self.holds[worker])[:most]:
            for _ in range(self.pick.randint(1, len(group))):
                outcome = self.execute(group.popleft())
                outcomes.append(outcome)
                fails = outcome.kind is not Kind.SUCCEEDED
                if group and ((fails and outcome.job.options.ordering_key) or self.pick.random() < 0.05):
                    outcomes += [Outcome(job=each, kind=Kind.RELEASED) for each in group]
                    group.clear()
                if not group:
                    self.holds[worker].remove(group)
                    break
        room = Room({"default": 5}, runs={"default": self.pick.randint(0, 5)})
        finished = await self.rig.flush(worker, outcomes, room)
        assert finished.applied == len(outcomes)
        self.start(worker, jobs_of(finished))

    async def step(self) -> None:
        draw = self.pick.random()
        if len(self.holds) < 2:
            self.holds[await self.rig.worker()] = []
        worker = self.pick.choice(list(self.holds))
        if draw < 0.2:
            await self.enqueue()
        elif draw < 0.4:
            self.start(worker, await self.rig.claim(worker, limit=self.pick.randint(1, 6)))
        elif draw < 0.9:
            await self.work(worker, self.pick.randint(1, 4))
        elif draw < 0.94:
            del self.holds[worker]
            await (self.rig.store.retire(worker) if draw < 0.92 else self.rig.die(worker, DeathPolicy(99)))
        else:
            await self.rig.clock.advance(3)
            await settle(self.rig)

    async def drain(self) -> None:
        for _ in range(200):
            await self.rig.clock.advance(10)
            await settle(self.rig)
            for worker in self.holds:
                await self.work(worker, 100)
                self.start(worker, await self.rig.claim(worker))


def key_of(job: ClaimedJob) -> str:
    return job.options.ordering_key or job.options.concurrency_key or ""


@pytest.mark.parametrize("seed", range(4))
async def test_f3_f6_limits_and_order_hold_whatever_becomes_of_runs(rig: Rig, seed: int) -> None:
    """[F3] [F6] No more at once than the limit, and none before its turn."""
    walk = Walk(rig, seed)
    for _ in range(200):
        await walk.step()
    await walk.drain()
    depth = await rig.depth()
    assert (depth.ready, depth.running, depth.scheduled, depth.retrying) == (0, 0, 0, 0)
    assert walk.over.issuperset([*walk.order["a"], *walk.order["b"]])
    assert walk.runs
