"""A carry in steps while everything else goes on between any two of them [rule 7].

Each action happens in each gap of a rotation, with rotators that take turns, in steps of few rows. A ledger
says at the end whether every job ran as often as it should.
"""

from collections import Counter

from tests.store.postgres.kit import Base, Session
from tests.store.postgres.ring import Ring
from windlass.core.states import Kind
from windlass.store.records import ClaimedJob

OPEN = "SELECT count(*) FROM windlass.claim WHERE worker = $1 AND windlass.unfinished(id, seqs) <> '{}'"
"""Claims that are not finished."""


class Ledger:
    """What was enqueued, what runs, what has ended; each action checks that nothing is given out twice."""

    def __init__(self, base: Base, lanes: list[int], worker: int, producer: Session) -> None:
        self.base = base
        self.lanes = lanes
        self.worker = worker
        self.producer = producer
        self.open = False
        self.waiting: list[int] = []
        self.late: list[int] = []
        self.running: list[ClaimedJob] = []
        self.done: Counter[int] = Counter()
        self.cancelled: set[int] = set()
        self.actions = [
            self.enqueue,
            self.claim,
            self.finish,
            self.retry,
            self.claim,
            self.cancel,
            self.delay,
        ]

    async def enqueue(self) -> None:
        """Two jobs in each lane."""
        for priority in ("high", "normal"):
            self.waiting += [await self.base.look.enqueue(priority=priority) for _ in range(2)]

    async def claim(self) -> None:
        """Two jobs of each lane, so that some claims are half finished when they are carried."""
        for lane in self.lanes:
            got = await self.base.claim(lane, self.worker, 2)
            for job in got.jobs:
                assert job.id in self.waiting, "given out though it runs, has ended or was cancelled"
                self.waiting.remove(job.id)
                self.running.append(job)

    async def finish(self) -> None:
        """The oldest running job succeeds."""
        if self.running:
            job = self.running.pop(0)
            assert (await self.base.finish(self.worker, [job])).applied == 1
            self.done[job.id] += 1

    async def retry(self) -> None:
        """The oldest running job fails and is offered again."""
        if self.running:
            job = self.running.pop(0)
            assert (await self.base.finish(self.worker, [job], Kind.RELEASED)).applied == 1
            self.waiting.append(job.id)

    async def cancel(self) -> None:
        """The job that has waited longest never runs."""
        if self.waiting:
            job = self.waiting.pop(0)
            assert await self.base.look.value("SELECT windlass.cancel($1)", job) == "cancelled"
            self.cancelled.add(job)

    async def delay(self) -> None:
        """A producer draws its number now and commits the next time."""
        if self.open:
            await self.producer.commit()
            self.waiting += self.late
            self.late = []
        else:
            await self.producer.begin()
            self.late = [await self.producer.enqueue()]
        self.open = not self.open

    async def settle(self) -> None:
        """Run what is left and compare."""
        if self.open:
            await self.delay()
        everything = {*self.waiting, *(job.id for job in self.running), *self.done}
        assert (await self.base.finish(self.worker, self.running)).applied == len(self.running)
        self.done.update(job.id for job in self.running)
        for lane in self.lanes:
            self.done.update(await self.base.drain(lane, self.worker))
        assert self.done == dict.fromkeys(everything, 1)
        assert await self.base.look.value(OPEN, self.worker) == 0


async def test_nothing_is_lost_or_given_twice_whatever_happens_between_two_steps(alone: Base) -> None:
    """[rule 5] [rule 7] [C1] Claims, finishes, releases, cancels and late commits in every gap of nine
    rotations."""
    lanes = [await alone.lane(priority=1), await alone.lane(priority=2)]
    ledger = Ledger(alone, lanes, await alone.worker(), await alone.session())
    rings = [Ring(alone, session) for session in await alone.sessions(2)]
    seen: set[tuple[str, str]] = set()
    await ledger.enqueue()
    for turn in range(9):
        gap = 0
        if ledger.open:  # a producer that is under way pins its segment: that is another test
            await ledger.delay()
        async for step in rings[0].steps(1 + turn):
            rings[0].session, rings[1].session = rings[1].session, rings[0].session
            action = ledger.actions[(gap + turn) % len(ledger.actions)]
            if not (step == "begin" and action == ledger.delay):
                await action()
                seen.add((step, action.__name__))
            gap += 1
    await ledger.settle()
    assert ledger.cancelled
    assert {step for step, _ in seen} == {"begin", "seal", "touch", "judge", "move", "failures", "reclaim"}
    for lane in lanes:
        assert await alone.depth(lane) == 0


async def test_evidence_that_goes_first_takes_the_rows_it_speaks_of_along(alone: Base) -> None:
    """[rule 7] [fault 12] A producer pins the rows' segment; the younger one with the claims is reclaimed."""
    lane, worker = await alone.lane(), await alone.worker()
    store = await alone.store()
    (producer,) = await alone.sessions(1)
    await producer.begin()
    late = await producer.enqueue()
    done, running, waiting = [await alone.look.enqueue() for _ in range(3)]
    assert "holds RowExclusiveLock" in str((await store.rotate(force=True)).blocked)
    (first,), (second,) = [(await alone.claim(lane, worker, 1)).jobs for _ in range(2)]
    await alone.finish(worker, [first])
    turned = await store.rotate(force=True)
    assert (turned.reclaimed, turned.removed) == (True, 1)
    assert [await alone.state(job) for job in (done, running, waiting)] == [None, "running", "ready"]

    await producer.commit()
    for _ in range(10):
        turned = await store.rotate(force=True)
        assert (turned.reclaimed, turned.offered_again) == (True, 0)
    assert (await alone.finish(worker, [second])).applied == 1
    assert sorted(await alone.drain(lane, worker)) == sorted([late, waiting])
