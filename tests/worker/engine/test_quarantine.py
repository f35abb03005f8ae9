"""Who may run beside whom, once a worker has died [C8]."""

from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob, Fence
from windlass.testing import Clock
from windlass.worker.engine.quarantine import QUIET_WAIT, Quarantine


def job(id: int, deaths: int, claim: int = 1) -> ClaimedJob:
    return ClaimedJob(
        id=id,
        lane=1,
        claim=claim,
        seq=id,
        task="t",
        payload="[]",
        queue="q",
        priority=1,
        attempt=1,
        deaths=deaths,
        options=DEFAULT_OPTIONS,
        enqueued_at=0.0,
    )


def running(*ids: int) -> dict[Fence, None]:
    return dict.fromkeys(job(id, 0).fence for id in ids)


def test_c8_a_crashed_job_waits_for_clean_jobs() -> None:
    """[C8] Until they have ended, or for so long."""
    clock = Clock(100.0)
    quarantine = Quarantine(3, clock)
    assert quarantine.receive(job(1, 1)) == QUIET_WAIT
    assert quarantine.closed
    assert not quarantine.admits(running(7).keys())
    assert quarantine.admits(running().keys())
    clock.advance(QUIET_WAIT)
    assert quarantine.admits(running(7).keys())


def test_c8_crashed_jobs_with_a_life_to_spare_join_each_other() -> None:
    """[C8]"""
    quarantine = Quarantine(3)
    quarantine.receive(job(1, 1))
    assert not quarantine.takes_more()  # one waits already
    first = quarantine.enter()
    assert quarantine.takes_more()
    quarantine.receive(second := job(2, 1))
    assert quarantine.admits(running(1).keys())
    assert not quarantine.admits(running(1, 7).keys())
    quarantine.enter()
    assert not quarantine.leave(first)
    assert quarantine.leave(second)
    assert not quarantine.closed


def test_c8_a_last_life_is_risked_with_nobody() -> None:
    """[C8] Neither beside others, nor others beside it."""
    quarantine = Quarantine(3)
    quarantine.receive(job(1, 1))
    first = quarantine.enter()
    quarantine.receive(job(2, 2))
    assert not quarantine.admits(running(1).keys())
    assert not quarantine.leave(first)  # the other waits
    assert quarantine.admits(running().keys())
    quarantine.enter()
    assert not quarantine.takes_more()
    quarantine.receive(job(3, 1))
    assert not quarantine.admits(running(2).keys())


def test_c8_an_clean_that_came_ends_the_search_for_more() -> None:
    """[C8] Else one would be claimed and handed back again and again."""
    quarantine = Quarantine(3)
    quarantine.clean_job_claimed()
    quarantine.receive(job(1, 1))
    first = quarantine.enter()
    assert quarantine.takes_more()
    quarantine.clean_job_claimed()
    assert not quarantine.takes_more()
    assert quarantine.leave(first)
    quarantine.receive(job(2, 1))
    quarantine.enter()
    assert quarantine.takes_more()


def test_one_that_waits_can_be_taken_out() -> None:
    """A cancel, a pause of its queue, the end of the worker."""
    quarantine = Quarantine(3)
    assert quarantine.withdraw() is None
    quarantine.receive(waits := job(1, 1))
    assert quarantine.withdraw() is waits
    assert not quarantine.closed
    assert not quarantine.leave(waits)


def test_c8_the_wait_goes_on_while_a_crashed_job_is_offered_to_others() -> None:
    """[C8] Two that are passed on in turns wait no longer than one."""
    clock = Clock(100.0)
    quarantine = Quarantine(3, clock)
    quarantine.receive(job(1, 1))
    clock.advance(1)
    quarantine.withdraw()
    assert quarantine.receive(job(2, 1)) == QUIET_WAIT
    quarantine.withdraw()
    clock.advance(QUIET_WAIT - 2)
    assert quarantine.receive(job(1, 1)) == 1
    assert not quarantine.admits(running(7).keys())
    clock.advance(1)
    assert quarantine.admits(running(7).keys())
    quarantine.withdraw()
    clock.advance(6 * QUIET_WAIT)
    assert quarantine.receive(job(1, 1)) == QUIET_WAIT  # long forgotten


def test_c8_a_later_run_is_not_trusted_for_an_earlier_one() -> None:
    """[C8]"""
    quarantine = Quarantine(3)
    quarantine.receive(job(1, 1))
    earlier = quarantine.enter()
    assert quarantine.leave(earlier)
    quarantine.receive(job(1, 1, claim=2))
    quarantine.enter()
    assert not quarantine.leave(earlier)
    assert quarantine.closed
