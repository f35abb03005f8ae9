"""How much a worker wants: its free slots and some more where jobs are short; its share where they take long
and others serve the queue, too [K10]."""

import pytest

from windlass.core.slots import MAX_CLAIM, MAX_SLOTS, RAMP
from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob
from windlass.worker.engine import capacity
from windlass.worker.engine.capacity import Capacity


class Clock:
    """The monotonic clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(capacity, "time", clock)
    return clock


def made(serving: int, total: int | None = None) -> Capacity:
    """Sixteen slots of one queue that so many workers serve."""
    made = Capacity(total, {})
    made.slots, made.serving = {"q": 16}, {"q": serving}
    made.wants()
    return made


def take(capacity: Capacity, n: int, *, handed_over: bool = False) -> None:
    """Jobs are claimed and started."""
    job = ClaimedJob(1, 1, 1, 1, "t", "{}", "q", 2, 1, 0, DEFAULT_OPTIONS, 0.0)
    put = capacity.put_runs if handed_over else capacity.put
    put("q", [job] * n)
    capacity.buffers["q"].clear()
    capacity.busy["q"] += n


def test_k10_after_a_claim_of_long_jobs_the_others_come_first(clock: Clock) -> None:
    """[K10] For a tenth of a second it asks only for what comes free."""
    shared = made(serving=3)
    assert shared.wants() == {"q": 16}
    assert shared.peers({"q": 16}) == {"q": 3}
    take(shared, 2)
    assert shared.wants() == {}
    assert shared.ramp("q") == pytest.approx(RAMP)
    shared.busy["q"] -= 1
    assert shared.wants() == {"q": 1}
    take(shared, 1)
    assert shared.wants() == {}
    clock.now += RAMP
    assert shared.ramp("q") == 0
    assert shared.wants() == {"q": 14}


def test_k10_what_comes_free_while_a_claim_is_under_way_may_be_filled_at_once(clock: Clock) -> None:
    """[K10] Two parts that end together are replaced together: without that the second slot stood empty for
    a tenth of a second."""
    shared = made(serving=2)
    take(shared, 2)
    clock.now += RAMP
    shared.busy["q"] -= 1
    assert shared.wants() == {"q": 15}
    shared.busy["q"] -= 1  # before the claim is answered
    take(shared, 1)
    assert shared.wants() == {"q": 1}
    take(shared, 1)
    assert shared.wants() == {}


def test_k10_a_job_handed_over_has_the_slot_of_the_one_that_ended(clock: Clock) -> None:
    """[K10] It makes no room for others."""
    shared = made(serving=2)
    take(shared, 2)
    assert shared.wants() == {}
    shared.busy["q"] -= 1
    take(shared, 1, handed_over=True)
    assert shared.wants() == {}


def test_k10_short_jobs_and_lone_workers_are_not_held_up(clock: Clock) -> None:
    """[K10] Nor is `run_until_idle`, which no other worker takes part in."""
    short, alone, until_idle = made(serving=3), made(serving=1), made(serving=3, total=16)
    for _ in range(100):
        short.prefetch["q"].note(0.001)
    for each in (short, alone, until_idle):
        take(each, 4)
        assert each.wants()["q"] >= 12
        assert each.peers({"q": 12}) == {}
        assert each.ramp("q") == 0


def test_one_claim_is_bounded_however_many_jobs_fill_the_slots() -> None:
    """A thousand slots with batches of ten thousand would hold ten million jobs of one claim in memory."""
    batches = Capacity(None, {"q": 10_000})
    batches.slots = {"q": MAX_SLOTS, "other": 5}
    assert batches.limit(batches.wants()) == MAX_CLAIM
    assert batches.limit({"other": 5}) == 5
