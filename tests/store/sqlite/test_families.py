"""Parents, parts and jobs that come after others: the invariants after any sequence of operations, and that
work always comes to an end [P9] [P12]."""

import itertools
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.conformance.kit import HandClock
from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import foreign, job, opened
from windlass.core.retry import DeathPolicy
from windlass.core.states import FINISHED, Kind, State
from windlass.errors import AlreadyEnqueued, ClaimLost, Finalizing, JobNotFound, WorkerLost
from windlass.store.protocol import NOTHING
from windlass.store.records import (
    Checkpoint,
    ClaimedJob,
    Failure,
    JobFilter,
    Needs,
    Outcome,
    PartPlan,
    Plan,
    WorkerInfo,
)
from windlass.store.settings import StoreSettings
from windlass.store.sqlite import SQLiteStore

KINDS = (
    Kind.SUCCEEDED,
    Kind.SUCCEEDED,
    Kind.SUCCEEDED,
    Kind.DEAD,
    Kind.CANCELLED,
    Kind.RETRY,
    Kind.SNOOZE,
    Kind.RELEASED,
)


class Crowd:
    """Producers, workers and operators who do whatever comes to their mind."""

    needs: ClassVar[Needs] = NOTHING

    def __init__(self, store: SQLiteStore, clock: HandClock, seed: int) -> None:
        self.store = store
        self.clock = clock
        self.random = random.Random(seed)
        self.ids: list[int] = []
        self.held: list[ClaimedJob] = []
        self.workers = itertools.count(1)
        self.flushes = itertools.count(1)
        self.worker = 0

    async def begin(self) -> None:
        """A new worker, with nothing in its hands."""
        self.worker = next(self.workers)
        self.held = []
        await self.store.register(WorkerInfo(id=self.worker))

    async def act(self) -> None:
        """One operation."""
        await self.random.choice(self.acts())()

    def acts(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        """What they do, the more often the oftener it stands here."""
        return (
            self.enqueue, self.enqueue, self.claim, self.claim, self.split, self.split, self.finish,
            self.finish, self.finish, self.save, self.save, self.manage, self.manage, self.redrive,
            self.resize, self.promote, self.promote, self.die, self.sweep,
        )  # fmt: skip

    def fields(self) -> dict[str, Any]:
        """What a job is like."""
        pick = self.random
        fields: dict[str, Any] = {"chunked": pick.random() < 0.6, "max_attempts": 2}
        if pick.random() < 0.3:
            fields |= {"unique_key": pick.choice("xy"), "on_conflict": pick.choice(("skip", "replace"))}
        if self.ids and pick.random() < 0.5:
            fields["after"] = tuple(pick.choices(self.ids, k=pick.randint(1, 3)))
            fields["otherwise"] = pick.choice(("dead", "cancel", "run"))
        if pick.random() < 0.2:
            fields["fair_key"] = pick.choice("fg")
        return fields

    async def enqueue(self) -> None:
        new = job(automatic=self.random.random() < 0.5, **self.fields())
        try:
            (receipt,) = await self.store.enqueue([new])
        except JobNotFound:
            return
        if receipt.id:
            self.ids.append(receipt.id)

    async def claim(self) -> None:
        for claim in await self.store.claim(self.worker, ["default"], self.random.randint(1, 4), self.needs):
            self.held += claim.jobs

    def let_go(self) -> ClaimedJob | None:
        return self.held.pop(self.random.randrange(len(self.held))) if self.held else None

    async def split(self) -> None:
        pick = self.random
        mine = [held for held in self.held if held.options.chunked]
        if not mine:
            return
        chosen = pick.choice(mine)
        self.held.remove(chosen)
        plan = Plan(
            parts=[PartPlan(f"[{n}]", n) for n in range(pick.randint(0, 6))],
            parallel=pick.randint(1, 3),
            tolerated=pick.randint(0, 2),
            finalizer=pick.random() < 0.5,
        )
        await self.store.split(self.worker, next(self.flushes), chosen, plan)
        await self.store.split(self.worker, next(self.flushes), chosen, plan)  # its answer was lost

    async def finish(self) -> None:
        chosen = self.let_go()
        if chosen is None:
            return
        kind = self.random.choice(KINDS)
        outcome = Outcome(
            job=chosen,
            kind=kind,
            delay=self.random.choice((0.0, 50.0)),
            error=Failure("E", "m") if kind in (Kind.DEAD, Kind.RETRY) else None,
            result="1" if kind is Kind.SUCCEEDED else None,
        )
        await self.store.finish(self.worker, next(self.flushes), [outcome])

    async def save(self) -> None:
        if self.held:
            n = self.random.randint(1, 9)
            saved = Checkpoint(f'{{"n": {n}}}', n)
            await self.store.checkpoint(self.worker, self.random.choice(self.held), saved)

    async def manage(self) -> None:
        known = [record.id for record in (await self.store.jobs(JobFilter(), 200)).jobs]
        if known:
            verb = self.random.choice((self.store.cancel, self.store.delete, self.store.retry))
            await verb(self.random.choices(known, k=self.random.randint(1, 2)))

    async def redrive(self) -> None:
        for parent in self.random.sample(parents := await self.store.parents(), k=min(1, len(parents))):
            try:
                await self.store.redrive(parent.id)
            except AlreadyEnqueued:
                assert parent.state in FINISHED
            except Finalizing:
                assert parent.state not in FINISHED

    async def resize(self) -> None:
        for parent in await self.store.parents(active=True, limit=1):
            await self.store.set_parent(parent.id, parallel=self.random.randint(1, 4))

    async def promote(self) -> None:
        await self.clock.advance(self.random.choice((0, 30, 60)))
        await self.store.promote(self.random.choice((1, 1000)))

    async def die(self) -> None:
        if self.random.random() < 0.5:
            (worker,) = await self.store.workers()
            assert await self.store.rescue(self.worker, worker.heartbeat, DeathPolicy(poison=2)) is not None
            for lost in self.held[:1]:
                with pytest.raises(WorkerLost):
                    await self.store.split(self.worker, next(self.flushes), lost, Plan(parts=[]))
        else:
            await self.store.retire(self.worker)
        await self.begin()

    async def sweep(self) -> None:
        await self.clock.advance(self.random.choice((0, 400)))
        await self.store.rotate(force=self.random.random() < 0.5)
        await self.store.expire(self.random.choice((1, 1000)))

    async def come_to_an_end(self) -> None:
        """Everything that is left succeeds."""
        await self.store.retire(self.worker)
        await self.begin()
        for _ in range(200):
            await self.clock.advance(100)
            await self.store.promote()
            claims = await self.store.claim(self.worker, ["default"], 100, self.needs)
            outcomes = [Outcome(job=claimed) for claim in claims for claimed in claim.jobs]
            await self.store.finish(self.worker, next(self.flushes), outcomes)
            left = [state for state in State if state not in FINISHED]
            if not [job for state in left for job in (await self.store.jobs(JobFilter(state=state))).jobs]:
                return
        pytest.fail("some jobs never end")


@pytest.mark.parametrize("seed", range(8))
async def test_any_sequence_keeps_the_file_true_and_ends(tmp_path: Path, seed: int) -> None:
    """[I6] [I7] [I8] [P9] [P12] Counts equal a scan, nothing waits for what is over, and all of it ends."""
    path, clock = tmp_path / "w.db", HandClock()
    async with opened(path, settings=StoreSettings(retention=300.0, park_after=2), clock=clock) as store:
        await store.set_queue("default", {"dead_retention": 500.0, "window": 3})
        crowd = Crowd(store, clock, seed)
        await crowd.begin()
        for _ in range(4):
            for _ in range(50):
                await crowd.act()
            check(path)
        await crowd.come_to_an_end()
        assert await store.parents(active=True) == []
        check(path)
        await clock.advance(1000)
        await store.rotate()
        await store.expire()
        assert await store.parents() == []
    check(path)


async def test_a_lost_claim_splits_nothing(tmp_path: Path) -> None:
    """[C5] [P4] Not even where the job was split by whoever holds it now."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        for worker in (1, 2):
            await store.register(WorkerInfo(id=worker))
        await store.enqueue([job(chunked=True)])
        ((first,),) = [claim.jobs for claim in await store.claim(1, ["default"], 1)]
        await store.finish(1, 1, [Outcome(job=first, kind=Kind.RELEASED)])
        ((second,),) = [claim.jobs for claim in await store.claim(2, ["default"], 1)]
        plan = Plan(parts=[PartPlan("0"), PartPlan("1")])
        with pytest.raises(ClaimLost):
            await store.split(1, 2, first, plan)
        await store.split(2, 1, second, plan)
        with pytest.raises(ClaimLost):
            await store.split(1, 2, first, plan)
        with pytest.raises(ClaimLost):
            await store.split(1, 2, second, plan)
        (parent,) = await store.parents()
        assert (parent.total, parent.out) == (2, 1)
    check(path)


async def test_what_cannot_be_split(tmp_path: Path) -> None:
    """[P4] A part, and a job none of whose parts would ever run: both go on running."""
    async with opened(tmp_path / "w.db") as store:
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job(chunked=True)])
        (claim,) = await store.claim(1, ["default"], 1)
        plan = Plan(parts=[PartPlan("0")])
        with pytest.raises(ValueError, match="plan 1 or more"):
            await store.split(1, 1, claim.jobs[0], Plan(parts=plan.parts, parallel=0))
        await store.split(1, 1, claim.jobs[0], plan)
        (claim,) = await store.claim(1, ["default"], 1)
        with pytest.raises(ValueError, match="a part cannot be split"):
            await store.split(1, 2, claim.jobs[0], plan)
        assert (await store.finish(1, 2, [Outcome(job=claim.jobs[0])])).applied == 1


async def test_a_dead_part_whose_parents_key_is_taken_stays_as_it_is(tmp_path: Path) -> None:
    """[P9] [E6] Nothing of its return is left behind: no checkpoint, no count."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job(chunked=True, unique_key="k")])
        (claim,) = await store.claim(1, ["default"], 1)
        await store.split(1, 1, claim.jobs[0], Plan(parts=[PartPlan("0", 9)]))
        (claim,) = await store.claim(1, ["default"], 1)
        (part,) = claim.jobs
        await store.checkpoint(1, part, Checkpoint('{"n": 4}', 5))
        await store.finish(1, 2, [Outcome(job=part, kind=Kind.DEAD)])
        await store.enqueue([job(unique_key="k")])
        assert await store.retry([part.id]) == {part.id: "unchanged"}
        (parent,) = await store.parents()
        assert (parent.state, parent.dead, parent.done, parent.records) == (State.DEAD, 1, 5, 4)
    check(path)


async def test_a_part_whose_options_are_broken_does_not_hang_its_parent(tmp_path: Path) -> None:
    """[fault 17] [P9] It dies, as any such job does, and its parent hears of it."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job(chunked=True)])
        (claim,) = await store.claim(1, ["default"], 1)
        await store.split(1, 1, claim.jobs[0], Plan(parts=[PartPlan("0")]))
        other = foreign(path)
        other.execute("UPDATE windlass_job SET options = '{broken' WHERE state = 3")
        other.close()
        assert await store.claim(1, ["default"], 1) == []
        (parent,) = await store.parents()
        assert (parent.state, parent.dead) == (State.DEAD, 1)
