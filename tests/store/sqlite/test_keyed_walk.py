"""A random walk over keyed jobs and flush claims: whatever two workers do, no limit is broken, nothing runs
beside itself or again after its end, and nothing is left behind [F3] [F6] [C3] [P12]."""

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import job
from windlass.core.flow.gates import gates_of
from windlass.core.states import Kind
from windlass.store.fields import NewBudget
from windlass.store.records import Claim, ClaimedJob, Need, NewJob, Outcome, Room, WorkerInfo
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.rows import readable_options

NEEDS = {"tokens": [Need("b")]}
TOKENS = frozenset(NEEDS)


class Walk:
    """Two workers, and what they run."""

    def __init__(self, path: Path, seed: int) -> None:
        self.pick = random.Random(seed)
        self.now = 1000.0
        self.store = SQLiteStore(path, clock=lambda: self.now)
        self.running: dict[int, list[ClaimedJob]] = {1: [], 2: []}
        self.flushes = Counter[int]()
        self.ids: list[int] = []
        self.done: set[int] = set()
        self.handed = 0
        self.followers = 0
        self.paused = False

    async def begin(self) -> None:
        await self.store.open()
        await self.store.declare_budget(NewBudget(name="b", rate=20, burst=5))
        for worker in self.running:
            await self.store.register(WorkerInfo(id=worker, lease=1e6))

    def new(self) -> NewJob:
        pick = self.pick
        options: dict[str, object] = {}
        if pick.random() < 0.5:  # such as come in runs
            return job("plain", **pick.choice([{"ordering_key": "a"}, {"concurrency_key": "c"}]))
        if pick.random() < 0.5:
            options["ordering_key"] = pick.choice("ab")
        if pick.random() < 0.5:
            key = pick.choice("cdw")
            options |= {"concurrency_key": key, "key_limit": 3 if key == "w" else 1}
        if pick.random() < 0.2:
            options["fair_key"] = pick.choice("xy")
        if pick.random() < 0.1:
            options["unique_key"] = pick.choice("12345")
        if pick.random() < 0.1 and self.ids:
            options |= {"after": (pick.choice(self.ids),), "otherwise": "run"}
        task = pick.choice(["plain", "plain", "tokens", "limited"])
        if task == "limited":
            options["task_limit"] = 2
        return job(task, priority=pick.choice([1, 2]), **options)

    def start(self, worker: int, claims: Iterable[Claim]) -> None:
        new = [one for claim in claims for one in claim.jobs]
        self.running[worker] += new
        everything = [one for jobs in self.running.values() for one in jobs]
        assert max(Counter(one.id for one in everything).values(), default=1) == 1, "beside itself"
        assert self.done.isdisjoint(one.id for one in new), "after its end"
        alone = {(one.claim, one.run or -one.id): one for one in everything}.values()  # one of each run
        self.followers += len(everything) - len(alone)
        turns = Counter(one.options.ordering_key for one in alone if one.options.ordering_key)
        assert max(turns.values(), default=1) == 1
        for one in alone:
            same = [x for x in alone if x.options.concurrency_key == one.options.concurrency_key]
            assert one.options.concurrency_key is None or len(same) <= one.options.key_limit
        assert sum(one.task == "limited" for one in alone) <= 2

    async def finish(self, worker: int, jobs: list[ClaimedJob], room: Room | None) -> None:
        outcomes = [self.ending(one) for one in jobs]
        self.done |= {outcome.job.id for outcome in outcomes if outcome.kind is Kind.SUCCEEDED}
        self.running[worker] = [one for one in self.running[worker] if one not in jobs]
        self.flushes[worker] += 1
        number = self.flushes[worker]
        finished = await self.store.finish(worker, number, outcomes, room)
        assert finished.applied == len(outcomes)
        self.start(worker, finished.claims)
        self.handed += len(finished.claims)
        if self.pick.random() < 0.2:
            again = await self.store.finish(worker, number, outcomes, room)
            assert (again.repeated, again.claims) == (len(outcomes), ())

    def ending(self, job: ClaimedJob) -> Outcome:
        draw = self.pick.random()
        if draw < 0.8:
            return Outcome(job=job, result=self.pick.choice([None, "1"]))
        if draw < 0.9:
            return Outcome(job=job, kind=Kind.RELEASED)
        return Outcome(job=job, kind=Kind.SNOOZE, delay=draw)

    async def step(self) -> None:
        pick, store = self.pick, self.store
        self.now += pick.random() * 0.2
        draw, worker = pick.random(), pick.choice([1, 2])
        mine = self.running[worker]
        if draw < 0.3:
            receipts = await store.enqueue([self.new() for _ in range(pick.randint(1, 8))])
            self.ids += [receipt.id for receipt in receipts]
        elif draw < 0.55:
            self.start(worker, await store.claim(worker, ["default"], pick.randint(1, 6), NEEDS))
        elif draw < 0.93 and mine:
            room = Room({"default": pick.randint(0, 4)}, TOKENS, {"default": pick.randint(0, 4)})
            some = pick.sample(mine, pick.randint(1, len(mine)))
            await self.finish(worker, some, room if pick.random() < 0.7 else None)
        elif draw < 0.97:
            await store.promote()
        else:
            self.paused = pick.random() < 0.3
            await store.set_queue("default", {"paused": self.paused})

    async def drain(self) -> None:
        await self.store.set_queue("default", {"paused": False})
        idle = 0
        while idle < 30:
            self.now += 1.0
            await self.store.promote()
            idle += 1
            for worker in self.running:
                self.start(worker, await self.store.claim(worker, ["default"], 10, NEEDS))
                if mine := self.running[worker]:
                    idle = 0
                    await self.finish(worker, list(mine), Room({"default": 3}, TOKENS, {"default": 2}))


def unused_room(path: Path) -> list[str]:
    """Gates of keys and tasks with room for the first of their list: whoever made it should have served."""
    connection = apsw.Connection(str(path))
    found: list[str] = []
    firsts = connection.execute(
        "SELECT gate, task, options, min(pos) FROM windlass_job WHERE state = 9 AND gate IS NOT NULL "
        "AND substr(gate, 1, 4) IN ('orde', 'key:', 'task') GROUP BY gate"
    )
    rows: list[Any] = firsts.fetchall()
    for gate, task, options, _ in rows:
        limits = {each.name: each.limit for each in gates_of("default", task, readable_options(options))}
        places = "SELECT count(DISTINCT coalesce(run, -job)) FROM windlass_pass WHERE gate = ?"
        taken: Any = connection.execute(places, (gate,))
        if taken.fetchone()[0] < limits[gate]:
            found.append(gate)
    connection.close()
    return found


@pytest.mark.parametrize("seed", range(6))
async def test_keyed_jobs_keep_their_limits_whoever_hands_them_over(tmp_path: Path, seed: int) -> None:
    """[I10] [I13] [F3] [F6] In runs or one by one, whichever of a run ends first."""
    path = tmp_path / "w.db"
    walk = Walk(path, seed)
    await walk.begin()
    try:
        for _ in range(150):
            await walk.step()
            check(path)
            assert walk.paused or not unused_room(path)
        await walk.drain()
        check(path)
        (depth,) = (await walk.store.depth()).values()
        assert (depth.ready, depth.running, depth.scheduled) == (0, 0, 0)
        assert walk.handed
        assert walk.followers
    finally:
        await walk.store.close()
