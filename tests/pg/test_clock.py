"""The database's clock is set back: what claims and flushes compare with it [fault 31]."""

from tests.pg.kit import Base

HOUR = 3600.0


async def test_late_jobs_are_found_though_the_clock_went_back(alone: Base) -> None:
    """[rule 3] [fault 31] Nobody looked into the holes of a lane for an hour: a job that was committed late waited
    for the clock to catch up."""
    lane, worker, clock = await alone.lane(), await alone.worker(), await alone.clock()
    (producer,) = await alone.sessions(1)
    await producer.begin()
    late = await producer.enqueue()
    other = await alone.look.enqueue()
    assert (await alone.claim(lane, worker)).ids == [other]
    await clock.advance(-HOUR)
    await producer.commit()
    assert (await alone.claim(lane, worker)).ids == [late]


async def test_burnt_numbers_are_passed_though_the_clock_went_back(alone: Base) -> None:
    """[rule 3] [fault 31] Else the depth of an idle lane would not fall to 0 for an hour."""
    lane, worker, clock = await alone.lane(), await alone.worker(), await alone.clock()
    await alone.look.enqueue()
    assert len((await alone.claim(lane, worker)).jobs) == 1
    await clock.advance(-HOUR)
    (producer,) = await alone.sessions(1)
    await producer.begin()
    await producer.enqueue()
    await producer.rollback()
    assert await alone.depth(lane) == 1
    await alone.claim(lane, worker)
    await clock.advance(1.1)
    await alone.claim(lane, worker)
    assert await alone.depth(lane) == 0
