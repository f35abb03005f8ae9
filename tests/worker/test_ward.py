"""Who may run beside whom, once a worker has died [C8]."""

from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob, Fence
from windlass.worker.ward import QUIET_WAIT, Ward


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


class Clock:
    """A monotonic clock in the test's hands."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def running(*ids: int) -> dict[Fence, None]:
    return dict.fromkeys(job(id, 0).fence for id in ids)


def test_c8_a_suspect_waits_for_the_innocent() -> None:
    """[C8] Until they have ended, or for so long."""
    clock = Clock()
    ward = Ward(3, clock)
    assert ward.receive(job(1, 1)) == QUIET_WAIT
    assert ward.closed
    assert not ward.admits(running(7).keys())
    assert ward.admits(running().keys())
    clock.now += QUIET_WAIT
    assert ward.admits(running(7).keys())


def test_c8_suspects_with_a_life_to_spare_join_each_other() -> None:
    """[C8]"""
    ward = Ward(3)
    ward.receive(job(1, 1))
    assert not ward.takes_more()  # one waits already
    first = ward.enter()
    assert ward.takes_more()
    ward.receive(second := job(2, 1))
    assert ward.admits(running(1).keys())
    assert not ward.admits(running(1, 7).keys())
    ward.enter()
    assert not ward.leave(first)
    assert ward.leave(second)
    assert not ward.closed


def test_c8_a_last_life_is_risked_with_nobody() -> None:
    """[C8] Neither beside others, nor others beside it."""
    ward = Ward(3)
    ward.receive(job(1, 1))
    first = ward.enter()
    ward.receive(job(2, 2))
    assert not ward.admits(running(1).keys())
    assert not ward.leave(first)  # the other waits
    assert ward.admits(running().keys())
    ward.enter()
    assert not ward.takes_more()
    ward.receive(job(3, 1))
    assert not ward.admits(running(2).keys())


def test_c8_an_innocent_that_came_ends_the_search_for_more() -> None:
    """[C8] Else one would be claimed and handed back again and again."""
    ward = Ward(3)
    ward.innocent_came()
    ward.receive(job(1, 1))
    first = ward.enter()
    assert ward.takes_more()
    ward.innocent_came()
    assert not ward.takes_more()
    assert ward.leave(first)
    ward.receive(job(2, 1))
    ward.enter()
    assert ward.takes_more()


def test_one_that_waits_can_be_taken_out() -> None:
    """A cancel, a pause of its queue, the end of the worker."""
    ward = Ward(3)
    assert ward.withdraw() is None
    ward.receive(waits := job(1, 1))
    assert ward.withdraw() is waits
    assert not ward.closed
    assert not ward.leave(waits)


def test_c8_the_wait_goes_on_while_a_suspect_is_offered_to_others() -> None:
    """[C8] Two that are passed on in turns wait no longer than one."""
    clock = Clock()
    ward = Ward(3, clock)
    ward.receive(job(1, 1))
    clock.now += 1
    ward.withdraw()
    assert ward.receive(job(2, 1)) == QUIET_WAIT
    ward.withdraw()
    clock.now += QUIET_WAIT - 2
    assert ward.receive(job(1, 1)) == 1
    assert not ward.admits(running(7).keys())
    clock.now += 1
    assert ward.admits(running(7).keys())
    ward.withdraw()
    clock.now += 6 * QUIET_WAIT
    assert ward.receive(job(1, 1)) == QUIET_WAIT  # long forgotten


def test_c8_a_later_run_is_not_trusted_for_an_earlier_one() -> None:
    """[C8]"""
    ward = Ward(3)
    ward.receive(job(1, 1))
    earlier = ward.enter()
    assert ward.leave(earlier)
    ward.receive(job(1, 1, claim=2))
    ward.enter()
    assert not ward.leave(earlier)
    assert ward.closed
