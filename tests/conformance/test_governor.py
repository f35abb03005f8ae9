"""What a store keeps for governors: how runs went, what they decided, and the rate of claims [F2]."""

from typing import Any

import pytest

from tests.conformance.kit import Rig
from windlass.core.flow.governor import Governor
from windlass.errors import TermLost
from windlass.store.records import Governed, QueueRecord, Runs


async def govern(rig: Rig, rate: float, **settings: Any) -> None:
    """A governed queue whose governor has decided on this rate."""
    await rig.store.set_queue("default", {"governor": True, **settings})
    await rig.store.govern(await rig.lead(1), "default", Governor(rate=rate, why="decided"))


async def look(rig: Rig) -> Governed:
    """What the governor of the default queue would see."""
    (seen,) = await rig.store.governed(await rig.lead(1))
    assert seen.queue == "default"
    return seen


async def record(rig: Rig) -> QueueRecord:
    return next(queue for queue in await rig.store.queues() if queue.name == "default")


async def test_a_queue_without_a_governor_has_no_rate(rig: Rig) -> None:
    """[F2] Nothing is kept of its runs."""
    await rig.store.set_queue("default", {})
    await rig.store.count_runs({"default": Runs(succeeded=5), "nowhere": Runs(failed=1)})
    assert await rig.store.governed(await rig.lead(1)) == []
    assert ((await record(rig)).rate, (await record(rig)).why) == (None, None)


async def test_a_governor_that_has_seen_nothing_begins_low(rig: Rig) -> None:
    """[F2] Between the queue's least and most."""
    await rig.store.set_queue("default", {"governor": True, "rate_min": 2.0, "rate_max": 100.0})
    seen = await look(rig)
    assert (seen.least, seen.most, seen.governor) == (2.0, 100.0, None)
    assert (await record(rig)).rate == Governor.first(2.0, 100.0).rate


async def test_the_window_adds_up_what_workers_tell(rig: Rig) -> None:
    """[F2] Since the last look, and with what waits now."""
    await rig.store.set_queue("default", {"governor": True})
    await rig.add("t", "t", "t")
    await rig.store.count_runs({"default": Runs(succeeded=5, failed=1, times={8: 4, 9: 2})})
    await rig.store.count_runs({"default": Runs(succeeded=1, throttled=2, times={9: 1, 10: 1})})
    window = (await look(rig)).window
    assert (window.succeeded, window.failed, window.throttled, window.waiting) == (6, 1, 2, 3)
    assert window.times == {8: 4, 9: 3, 10: 1}
    window = (await look(rig)).window
    assert (window.succeeded, window.failed, window.throttled, window.waiting) == (0, 0, 0, 3)
    assert window.times == {}


async def test_what_was_decided_is_kept_and_shown(rig: Rig) -> None:
    """[F2]"""
    await rig.store.set_queue("default", {"governor": True})
    decided = Governor(rate=12.5, baseline=80.0, held=2, why="halved: 3 of 9 runs failed")
    await rig.store.govern(await rig.lead(1), "default", decided)
    assert (await look(rig)).governor == decided
    assert ((await record(rig)).rate, (await record(rig)).why) == (12.5, decided.why)


async def test_only_the_coordinator_governs(rig: Rig) -> None:
    """[F2] [K3] A term that is over is refused, and nothing is forgotten or changed."""
    await rig.store.set_queue("default", {"governor": True})
    await rig.store.count_runs({"default": Runs(failed=1)})
    old = await rig.lead(1)
    await rig.clock.advance(31)
    for call in (rig.store.governed(old), rig.store.govern(old, "default", Governor(rate=1.0))):
        with pytest.raises(TermLost):
            await call
    seen = await look(rig)
    assert (seen.window.failed, seen.governor) == (1, None)


async def test_claims_keep_to_the_rate(rig: Rig) -> None:
    """[F2] Over all workers, with a fifth of a second's worth at once."""
    await govern(rig, rate=10.0)
    start = await rig.store.now()
    await rig.add(*(["t"] * 40))
    workers, count = [await rig.worker(), await rig.worker()], 0
    for _ in range(5):
        for worker in workers:
            count += len(await rig.claim(worker))
            elapsed = await rig.store.now() - start
            assert count <= 10 * elapsed + 2
        await rig.clock.advance(0.2)
    assert count >= 8


async def test_a_slow_rate_gives_one_at_a_time(rig: Rig) -> None:
    """[F2]"""
    await govern(rig, rate=0.01, rate_min=0.001, rate_max=0.02)
    await rig.add("t", "t", "t")
    worker = await rig.worker()
    await rig.clock.advance(200)
    assert len(await rig.claim(worker)) == 1
    assert await rig.claim(worker) == []
    await rig.clock.advance(110)
    assert len(await rig.claim(worker)) == 1


async def test_what_a_claim_did_not_use_stays(rig: Rig) -> None:
    """[F2] An empty claim, or a small one, costs no more than it gave."""
    await govern(rig, rate=0.05, rate_min=0.001, rate_max=0.1)
    await rig.clock.advance(100)
    worker = await rig.worker()
    assert await rig.claim(worker) == await rig.claim(worker) == []
    await rig.add("t")
    assert len(await rig.claim(worker)) == 1


async def test_other_queues_go_at_their_own_pace(rig: Rig) -> None:
    """[F2]"""
    await govern(rig, rate=0.01, rate_min=0.001, rate_max=0.02)
    await rig.clock.advance(200)
    await rig.add(*(["t"] * 5))
    await rig.add(*(["u"] * 5), queue="free")
    claimed = await rig.claim(await rig.worker(), "default", "free")
    assert sorted(job.task for job in claimed) == ["t", *["u"] * 5]


async def test_a_governor_switched_off_limits_nobody(rig: Rig) -> None:
    """[F2]"""
    await govern(rig, rate=0.01, rate_min=0.001, rate_max=0.02)
    await rig.add(*(["t"] * 5))
    await rig.store.set_queue("default", {"governor": False})
    assert len(await rig.claim(await rig.worker())) == 5
    assert (await record(rig)).rate is None


async def test_f2_the_bounds_of_a_rate_fit_together(rig: Rig) -> None:
    """[F2] With what is stored, and not with what a new queue would have."""
    await rig.store.set_queue("default", {"rate_max": 5000.0})
    assert (await rig.store.set_queue("default", {"rate_min": 2000.0})).rate_min == 2000.0
    with pytest.raises(ValueError, match=r"rate_min of queue .*default.* cannot be above its rate_max, 100"):
        await rig.store.set_queue("default", {"rate_max": 100.0})
    assert (await rig.store.set_queue("default", {})).rate_max == 5000.0
