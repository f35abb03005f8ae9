"""Counts of ended jobs against whatever else is under way: flushes, claims, rotations, others who count [M7].

A claim is counted once, as a whole, when nothing of it is unfinished. What is not counted yet is added when
somebody asks, so the sum must be right at every moment between.
"""

import random
from collections import Counter
from contextlib import aclosing

import asyncpg
import pytest

from tests.store.postgres.kit import Base, Session
from tests.store.postgres.ring import Ring
from windlass.core.states import Kind
from windlass.store.records import ClaimedJob

ENDED = "SELECT task, kind, n FROM windlass.ended() WHERE queue = $1"
COUNT = "SELECT * FROM windlass.count_ends(0, $1)"
COUNTED = "SELECT coalesce(sum(n), 0)::int FROM windlass.ended_count WHERE queue = $1"


class Ledger:
    """What has really ended, beside what is counted."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.ended: Counter[tuple[str, str]] = Counter()

    async def finish(self, worker: int, jobs: list[ClaimedJob], kind: Kind = Kind.SUCCEEDED) -> None:
        """End attempts, and write it down."""
        assert (await self.base.finish(worker, jobs, kind)).applied == len(jobs)
        self.ended.update((job.task, kind.value) for job in jobs)

    async def check(self, moment: str = "") -> None:
        """What anybody is told, now."""
        found = {(row[0], row[1]): row[2] for row in await self.base.look.rows(ENDED, self.base.queue)}
        assert found == self.ended, moment

    async def count(self, limit: int = 1000, by: Session | None = None) -> None:
        """Count all there is, in steps."""
        session, more = by or self.base.look, True
        while more:
            after, more = 0, False
            while after is not None:
                row = await session.row("SELECT * FROM windlass.count_ends($1, $2)", after, limit)
                assert not row["busy"]
                more, after = more or row["more"], row["lane"]


async def filled(base: Base, n: int = 6) -> tuple[int, int]:
    """A lane with jobs of two tasks, and a worker."""
    lane, worker = await base.lane(), await base.worker()
    for i in range(n):
        await base.look.enqueue("ab"[i % 2])
    return lane, worker


async def test_a_flush_that_commits_late_is_counted_once(alone: Base) -> None:
    """[M7] Its claim is open when it is first looked at, and counted when it is not."""
    lane, worker = await filled(alone)
    ledger = Ledger(alone)
    got = await alone.claim(lane, worker)
    flush = await alone.session()
    await flush.begin()
    await alone.finish(worker, got.jobs[:5], by=flush)
    await ledger.count()
    await ledger.check("the flush is not committed")
    await flush.commit()
    ledger.ended.update((job.task, "succeeded") for job in got.jobs[:5])
    await ledger.check("it is")
    await ledger.count()
    assert await alone.look.value(COUNTED, alone.queue) == 0  # one of its jobs still runs
    await ledger.check("the claim is open")
    await ledger.finish(worker, got.jobs[5:], Kind.DEAD)
    await ledger.count()
    assert await alone.look.value(COUNTED, alone.queue) == 6
    await ledger.check("all is counted")


async def test_a_claim_that_commits_late_is_not_passed_over(alone: Base) -> None:
    """[M7] [rule 2] Claims of a lane come one after another: none appears behind one that was counted."""
    lane, worker = await filled(alone)
    ledger = Ledger(alone)
    await ledger.finish(worker, (await alone.claim(lane, worker, 1)).jobs)
    last = await alone.look.value("SELECT max(id) FROM windlass.job WHERE queue = $1", alone.queue)
    operator = await alone.session()
    await operator.begin()
    assert await operator.value("SELECT windlass.cancel($1)", last) == "cancelled"
    assert (await alone.claim(lane, worker, 1)).status == "busy"
    await ledger.count()
    await ledger.check("the cancel is not committed")
    await operator.commit()
    ledger.ended["b", "cancelled"] += 1
    await ledger.finish(worker, (await alone.claim(lane, worker)).jobs)
    await ledger.check()
    await ledger.count()
    assert await alone.look.value(COUNTED, alone.queue) == 6
    await ledger.check()


async def test_who_counts_does_so_alone(alone: Base) -> None:
    """[M7] A second one has nothing to do, readers see one sum; what is rolled back is counted again."""
    lane, worker = await filled(alone)
    ledger = Ledger(alone)
    await ledger.finish(worker, (await alone.claim(lane, worker)).jobs)
    first = await alone.session()
    for end in (first.rollback, first.commit):
        await first.begin()
        assert (await first.row(COUNT, 100))["claims"] > 0
        assert (await alone.look.row(COUNT, 100))["busy"]
        await ledger.check("while another counts")
        await end()
        await ledger.check("after it")
    assert await alone.look.value(COUNTED, alone.queue) == 6
    assert await alone.look.rows("SELECT * FROM windlass.recount()") == []


async def test_an_old_snapshot_may_not_count(alone: Base) -> None:
    """[M7] It would count again what was counted since."""
    session = await alone.session()
    await session.begin("repeatable read")
    with pytest.raises(asyncpg.PostgresError, match="READ COMMITTED"):
        await session.row(COUNT, 100)


async def test_a_rotation_whoever_claims_ends_and_counts_between_its_steps(alone: Base) -> None:
    """[M7] [rule 7] After every step the sum is what has ended: strays, carried claims and all."""
    dice = random.Random(7)
    lane, worker = await alone.lane(), await alone.worker()
    ledger, held = Ledger(alone), []
    ring = Ring(alone, await alone.session())
    for turn in range(10):
        async with aclosing(ring.steps(2)) as steps:
            async for step in steps:
                for _ in range(dice.randrange(3)):
                    await alone.look.enqueue(dice.choice("ab"))
                held += (await alone.claim(lane, worker, dice.randrange(1, 4))).jobs
                dice.shuffle(held)
                cut = dice.randrange(len(held) + 1)
                ends, held = held[:cut], held[cut:]
                if ends:
                    await ledger.finish(
                        worker, ends, dice.choice([Kind.SUCCEEDED, Kind.CANCELLED, Kind.DEAD])
                    )
                if dice.random() < 0.2:
                    await alone.look.row(COUNT, dice.randrange(1, 4))
                await ledger.check(f"turn {turn}, {step}")
    await ledger.finish(worker, held)
    await ring.turn(8)
    await ledger.check("all is gone")
    assert await alone.look.value("SELECT count(*) FROM windlass.outcome") == 0
    assert await alone.look.rows("SELECT * FROM windlass.recount()") == []
    assert ledger.ended.total() > 100


async def test_a_turn_that_is_given_up_takes_nothing_from_the_logs(alone: Base) -> None:
    """[M7] What was judged stays, and is counted as it was."""
    lane, worker = await filled(alone)
    ledger = Ledger(alone)
    await ledger.finish(worker, (await alone.claim(lane, worker)).jobs)
    ring = Ring(alone, await alone.session())
    for _ in range(2):
        await ring.prepare()
        assert await alone.look.value("SELECT sum(leaving) FROM windlass.ended_count") == 6
        await ring.begin(ring.victim)
        assert await alone.look.rows("SELECT * FROM windlass.recount()") == []
        await ledger.check()


async def test_an_outcome_that_its_claim_has_left_behind_counts(alone: Base) -> None:
    """[M7] [rule 7] A snapshot older than the move of a claim writes into the segment that it was in."""
    lane, worker = await filled(alone)
    ledger = Ledger(alone)
    got = await alone.claim(lane, worker)
    ring, late = Ring(alone, await alone.session()), await alone.session()
    await late.begin("repeatable read")
    await late.value("SELECT pg_current_snapshot()")
    await ring.prepare()
    carry = "SELECT done FROM windlass.rotation_reclaim($1, 60)"
    assert not await ring.session.value(carry, ring.number)
    await alone.finish(worker, got.jobs, by=late)
    await ledger.count()
    await late.commit()
    ledger.ended.update((job.task, "succeeded") for job in got.jobs)
    apart = """
        SELECT count(*) FROM windlass.claim c
          JOIN windlass.outcome o ON o.claim = c.id AND o.segment <> c.segment
    """
    assert await alone.look.value(apart) == 1
    await ledger.check("apart")
    await ledger.count()
    await ledger.check("apart, and somebody counts")
    await ring.reclaim()
    await ledger.check("together")
    await ledger.count()
    assert await alone.look.value(COUNTED, alone.queue) == 6
    await ring.turn(8)
    await ledger.check("gone")
    assert await alone.look.rows("SELECT * FROM windlass.recount()") == []


async def test_rotation_waits_for_no_one_who_counts(alone: Base) -> None:
    """[M7] [S2] It says who, and comes again."""
    lane, worker = await filled(alone)
    ledger = Ledger(alone)
    await ledger.finish(worker, (await alone.claim(lane, worker)).jobs)
    store, other = await alone.store(), await alone.session()
    await other.begin()
    await other.row(COUNT, 100)
    rotation = await store.rotate(force=True)
    assert not rotation.reclaimed
    assert rotation.blocked
    await other.rollback()
    assert (await store.rotate(force=True)).reclaimed
    await ledger.check()


async def test_a_count_that_is_wrong_is_corrected_by_the_logs(alone: Base) -> None:
    """[M7] What the logs hold is counted again; what they no longer hold stays as it was counted."""
    lane, worker = await filled(alone)
    ledger = Ledger(alone)
    await ledger.finish(worker, (await alone.claim(lane, worker)).jobs)
    await Ring(alone, await alone.session()).turn(8)
    for _ in range(4):
        await alone.look.enqueue("a")
    await ledger.finish(worker, (await alone.claim(lane, worker)).jobs)
    await ledger.count()
    store = await alone.store()
    await alone.look.run("UPDATE windlass.ended_count SET n = n + 5 WHERE task = 'a'")
    (wrong,) = await store.recount()
    assert (wrong.task, wrong.kind, wrong.counted, wrong.found) == ("a", "succeeded", 9, 4)
    await ledger.check()
    assert await store.recount() == []
