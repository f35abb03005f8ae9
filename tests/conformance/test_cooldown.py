"""Cool-down: a throttled handler makes its whole queue stand still for a while [O3]."""

import asyncio
from typing import Any

import pytest

from tests.conformance.kit import Rig
from windlass.store.records import QueueRecord

NEAR = 2.0
"""Seconds by which the clock of a server may have moved between two calls of a test."""


def about(seconds: float) -> Any:
    return pytest.approx(seconds, abs=NEAR)


async def queue(rig: Rig, name: str = "q") -> QueueRecord:
    """The queue as it stands."""
    return next(queue for queue in await rig.store.queues() if queue.name == name)


async def test_a_throttle_cools_the_queue(rig: Rig) -> None:
    """[O3] Nothing of it is claimed until the time is over; other queues go on."""
    await rig.add("a", queue="q")
    await rig.add("b", queue="other")
    worker = await rig.worker()
    assert await rig.store.throttle("q") == about(60)
    seen = await queue(rig)
    assert (seen.throttles, seen.cooling) == (1, about(60))
    assert [job.task for job in await rig.claim(worker, "q", "other")] == ["b"]
    assert await rig.store.claim(worker, {"q": 5}, 5) == []
    assert (await rig.depth("q")).ready == 1
    await rig.clock.advance(40)
    assert (await queue(rig)).cooling == about(20)
    assert await rig.claim(worker, "q") == []
    await rig.clock.advance(21)
    assert [job.task for job in await rig.claim(worker, "q")] == ["a"]
    seen = await queue(rig)
    assert (seen.throttles, seen.cooling) == (1, 0)


async def test_what_runs_goes_on(rig: Rig) -> None:
    """[O3] Only claims stop: a sibling ends as it would have."""
    worker = await rig.worker()
    (id,) = await rig.add("a", queue="q")
    claimed = await rig.run(worker, id, "q")
    await rig.store.throttle("q")
    assert (await rig.finish(worker, claimed)).applied == 1


async def test_only_the_first_in_a_window_counts(rig: Rig) -> None:
    """[O3] Siblings are told how long is left, and neither prolong nor deepen it."""
    await rig.store.throttle("q")
    await rig.clock.advance(20)
    assert await rig.store.throttle("q", hint=500) == about(40)
    assert (await queue(rig)).throttles == 1


async def test_at_once_by_many_it_counts_once(rig: Rig) -> None:
    """[O3]"""
    await rig.store.set_queue("q", {})
    delays = await asyncio.gather(*(rig.store.throttle("q") for _ in range(8)))
    assert delays == [about(60)] * 8
    assert (await queue(rig)).throttles == 1


async def test_each_window_is_twice_as_long_up_to_the_cap(rig: Rig) -> None:
    """[O3]"""
    await rig.store.set_queue("q", {"cool_base": 10.0, "cool_cap": 50.0})
    for delay in (10, 20, 40, 50, 50):
        assert await rig.store.throttle("q") == about(delay)
        await rig.clock.advance(delay + NEAR)
    assert (await queue(rig)).throttles == 5


async def test_flat_without_back_off(rig: Rig) -> None:
    """[O3]"""
    await rig.store.set_queue("q", {"backoff": False, "cool_base": 30.0})
    for _ in range(3):
        assert await rig.store.throttle("q") == about(30)
        await rig.clock.advance(30 + NEAR)


@pytest.mark.parametrize(("hint", "delay"), [(None, 60), (5, 60), (90, 90), (5000, 100), (0, 60), (-7, 60)])
async def test_a_hint_is_a_floor_below_the_cap(rig: Rig, hint: float | None, delay: float) -> None:
    """[O3]"""
    await rig.store.set_queue("q", {"cool_cap": 100.0})
    assert await rig.store.throttle("q", hint) == about(delay)


async def test_a_thousand_throttles_later(rig: Rig) -> None:
    """[O3] The exponent is bounded: 2^n does not overflow."""
    await rig.store.set_queue("q", {"cool_base": 0.001, "cool_cap": 0.001})
    for _ in range(40):
        await rig.store.throttle("q")
        await rig.clock.advance(1)
    assert (await queue(rig)).throttles == 40
    await rig.store.set_queue("q", {"cool_cap": 1e9})
    assert await rig.store.throttle("q") == about(0.001 * 2**30)


async def test_an_unknown_queue_is_declared(rig: Rig) -> None:
    """[O3]"""
    assert await rig.store.throttle("new") == about(60)
    assert (await queue(rig, "new")).throttles == 1


async def test_settings_do_not_touch_a_cool_down(rig: Rig) -> None:
    """[O3] [K1] Nor does a cool-down touch settings."""
    await rig.store.set_queue("q", {"window": 7, "max_workers": 3})
    await rig.store.throttle("q")
    changed = await rig.store.set_queue("q", {"window": 8, "cool_base": 1.0})
    assert (changed.throttles, changed.cooling, changed.max_workers) == (1, about(60), 3)


async def test_a_success_counts_two_minutes_after_the_end(rig: Rig) -> None:
    """[O3] Earlier ones change nothing: the queue may only just have resumed."""
    await rig.store.throttle("q")
    assert not await rig.store.warm("q")
    await rig.clock.advance(60 + 119 - NEAR)
    assert not await rig.store.warm("q")
    assert (await queue(rig)).throttles == 1
    await rig.clock.advance(1 + NEAR)
    assert await rig.store.warm("q")
    assert (await queue(rig)).throttles == 0
    assert not await rig.store.warm("q"), "there is nothing left to forget"
    assert await rig.store.throttle("q") == about(60)


async def test_an_operator_ends_it_at_once(rig: Rig) -> None:
    """[O3]"""
    worker = await rig.worker()
    await rig.add("a", queue="q")
    await rig.store.throttle("q")
    assert await rig.store.warm("q", force=True)
    seen = await queue(rig)
    assert (seen.throttles, seen.cooling) == (0, 0)
    assert [job.task for job in await rig.claim(worker, "q")] == ["a"]


async def test_nothing_to_warm(rig: Rig) -> None:
    """[O3] A queue that never cooled, or was never seen; asking declares nothing."""
    assert not await rig.store.warm("nobody", force=True)
    assert await rig.store.queues() == []
    await rig.store.set_queue("q", {})
    assert not await rig.store.warm("q")
    assert not await rig.store.warm("q", force=True)


async def test_nobody_is_woken_for_a_cooling_queue(rig: Rig) -> None:
    """[O3] While it cools a worker may be told to look now and then, and finds nothing."""
    await rig.add("a", queue="q")
    worker = await rig.worker()
    await rig.store.throttle("q")
    await rig.store.wait(["q"], 0.05)
    assert await rig.claim(worker, "q") == []


SETTINGS: dict[str, Any] = {
    "safety_bound": 7.0,
    "backoff": False,
    "backoff_base": 1.5,
    "backoff_cap": 99.0,
    "cool_base": 2.0,
    "cool_cap": 77.0,
}


async def test_every_setting_lasts(rig: Rig) -> None:
    """[K1] [O2] [O3]"""
    assert await rig.store.set_queue("q", SETTINGS) == QueueRecord(name="q", **SETTINGS)
    assert await rig.store.queues() == [QueueRecord(name="q", **SETTINGS)]


@pytest.mark.parametrize(
    "changes",
    [
        {"throttles": 3},
        {"cooling": 5.0},
        {"window": 0},
        {"window": -1},
        {"window": 2.5},
        {"max_workers": -1},
        {"retention": -1.0},
        {"dead_retention": -0.5},
        {"safety_bound": 0},
        {"safety_bound": -3},
        {"backoff": 1},
        {"backoff_base": -1.0},
        {"backoff_cap": float("nan")},
        {"cool_base": 0.0},
        {"cool_base": -60},
        {"cool_cap": 0},
        {"cool_cap": float("inf")},
        {"paused": "yes"},
        {"window": "many"},
        {"window": None},
        {"safety_bound": 5.0, "cool_base": -1.0},
    ],
)
async def test_what_makes_no_sense_is_refused(rig: Rig, changes: dict[str, object]) -> None:
    """[K1] State is not a setting, and a queue must be able to work. Nothing of the call is applied."""
    await rig.store.set_queue("q", {"window": 3})
    with pytest.raises(ValueError):
        await rig.store.set_queue("q", changes)
    with pytest.raises(ValueError):
        await rig.store.set_queue("new", changes)
    assert await rig.store.queues() == [QueueRecord(name="q", window=3)]
