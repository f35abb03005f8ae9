"""Sets too large for a claim row: many holes, scattered takings ahead; written once [rule 3] [rule 13]."""

import pytest

from tests.stopwatch import Stopwatch
from tests.store.postgres.kit import Base

ALTERNATE = """
DO $$ BEGIN
    FOR i IN 1..{n} LOOP
        BEGIN
            PERFORM windlass.enqueue_many('{queue}', 2::smallint, '{{burnt}}', ARRAY['{{}}']);
            RAISE EXCEPTION SQLSTATE 'ZZ000';
        EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
        END;
        PERFORM windlass.enqueue_many('{queue}', 2::smallint, '{{kept}}', ARRAY['{{}}']);
    END LOOP;
END $$
"""
"""Every other number is burnt."""


@pytest.mark.slow
async def test_ten_thousand_holes_are_written_aside_and_a_late_job_among_them_runs(base: Base) -> None:
    """[rule 3] [fault 11] A foreign transaction keeps every hole alive while 10,000 enqueues roll back."""
    lane, worker = await base.lane(), await base.worker()
    foreign, producer, other = await base.sessions(3)
    await foreign.begin()
    await foreign.value("SELECT pg_current_xact_id()")
    half = ALTERNATE.format(n=5000, queue=base.queue)
    await other.run(half)
    await producer.begin()
    missing = await producer.enqueue()
    await other.run(half)

    taken: list[int] = []
    for _ in range(20):
        taken += (await base.claim(lane, worker, 500)).seqs
        cursor = await base.cursor(lane)
        assert (cursor["young"], cursor["old"]) == (None, None)
        assert 1 <= len(cursor["spilled"]) <= 14, "a binary counter keeps n ranges in at most log n sets"
    assert taken == [*range(2, 10_001, 2), *range(10_003, 20_002, 2)]
    assert await base.holes(lane) == 10_001

    await producer.commit()
    assert (await base.claim_late(lane, worker)).ids == [missing]
    assert await base.holes(lane) == 10_000
    await foreign.rollback()
    watch = Stopwatch()
    assert await base.drain(lane, worker) == []
    assert watch.seconds() < 5
    cursor = await base.cursor(lane)
    assert (cursor["holes"], cursor["spilled"], await base.depth(lane)) == (0, None, 0)


async def test_one_set_may_die_while_another_lives(base: Base) -> None:
    """[rule 3] Each set has the horizon of the claim that wrote it."""
    lane, worker = await base.lane(), await base.worker()
    first, second, other = await base.sessions(3)
    await first.begin()
    await first.enqueue()
    # The older set is more than twice as large as the younger one, so they stay apart.
    await other.run(ALTERNATE.format(n=200, queue=base.queue))
    await base.claim(lane, worker, 1000)
    await second.begin()
    missing = await second.enqueue()
    await other.run(ALTERNATE.format(n=40, queue=base.queue))
    await base.claim(lane, worker, 1000)
    cursor = await base.cursor(lane)
    assert (len(cursor["spilled"]), cursor["holes"]) == (2, 242)

    await first.rollback()
    assert (await base.claim_late(lane, worker)).status == "pending"
    cursor = await base.cursor(lane)
    assert (len(cursor["spilled"]), cursor["holes"]) == (1, 41)
    await second.commit()
    assert await base.drain(lane, worker) == [missing]
    assert await base.depth(lane) == 0


async def test_scattered_cancels_are_written_aside(base: Base) -> None:
    """[rule 13] More than 32 taken ahead: none of them runs, the others do, and depth is right throughout."""
    lane, worker = await base.lane(), await base.worker()
    ids = [await base.look.enqueue() for _ in range(100)]
    for id in ids[::2]:
        assert await base.look.value("SELECT windlass.cancel($1)", id) == "cancelled"
    cursor = await base.cursor(lane)
    assert (cursor["ahead_n"], len(cursor["ahead_spilled"]), await base.depth(lane)) == (50, 1, 50)

    got = await base.claim(lane, worker, 10)
    assert got.ids == ids[1:20:2]
    assert (await base.depth(lane), (await base.cursor(lane))["ahead_n"]) == (40, 40)
    assert await base.look.value("SELECT windlass.cancel($1)", ids[99]) == "cancelled"
    assert await base.depth(lane) == 39
    assert await base.drain(lane, worker) == ids[21:99:2]
    cursor = await base.cursor(lane)
    assert (cursor["ahead_n"], cursor["ahead"], cursor["ahead_spilled"]) == (0, None, None)
    assert {await base.state(id) for id in ids[::2]} == {"cancelled"}
