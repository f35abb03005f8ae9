"""Blocks of tokens that processes lease of a bucket: the bound holds by when a token is handed out [F1]."""

import math
from dataclasses import dataclass, field

from hypothesis import event, given
from hypothesis import strategies as st

from windlass.core.flow.block import Block
from windlass.core.flow.bucket import HELD_FOR, Bucket

NOW = 1_750_000_000.0
SLACK = 1e-3
"""Of rounding: a time of today has a last digit of some 0.2 µs, and a rate multiplies it."""

OFTEN = ["acquire", "rush", "lease", "hand out", "take all"]
ACTIONS = [*OFTEN, *OFTEN, "give back", "kill", "step", "drain", "change"]
passing = st.sampled_from([0.0, 0.0, 0.001, 0.02, 0.049, 0.05, 0.3, 2.0]) | st.floats(0, 0.06)
steps = st.lists(
    st.tuples(st.sampled_from(ACTIONS), passing, st.integers(0, 2), st.integers(1, 40)), max_size=50
)
rates = st.sampled_from([0.0, 1.0, 10.0, 60.0, 1000.0, 20_000.0])
bursts = st.sampled_from([1, 10, 50, 1000, 20_000])


@dataclass
class Cluster:
    """A bucket, three processes that lease from it, and when callers got which tokens. `lived` is the time
    that has really passed; the store's clock is off by `off`."""

    bucket: Bucket
    lived: float = 0.0
    off: float = NOW
    blocks: list[Block] = field(default_factory=lambda: [Block() for _ in range(3)])
    granted: list[tuple[float, int]] = field(default_factory=list)
    settings: list[tuple[float, float, float]] = field(default_factory=list)
    """From when on which rate and burst were in force."""
    drained: list[tuple[float, float]] = field(default_factory=list)
    """From when until when nobody should get a token."""

    @property
    def now(self) -> float:
        return self.off + self.lived

    def acquire(self, process: int, n: int) -> bool:
        block = self.blocks[process]
        if block.spend(n, self.lived):
            event("handed out of a block")
        else:
            self.give_back(process)
            if not self.lease(process, [n], block.wish(self.lived)):
                return False
            block.used += n
        self.granted.append((self.lived, n))
        return True

    def lease(self, process: int, needs: list[int], wish: int) -> bool:
        served, size, self.bucket = self.bucket.lease(needs, wish, self.now)
        self.blocks[process].leased(size, self.now, self.lived + self.bucket.held_for)
        return all(served)

    def give_back(self, process: int) -> None:
        block = self.blocks[process]
        if rest := block.rest():
            age = self.now - block.leased_at
            if age >= 0:
                self.bucket = self.bucket.give_back(rest, self.now, age)

    def hand_out(self, process: int, n: int) -> None:
        block = self.blocks[process]
        every = block.left if n < 30 else n
        if every and block.spend(every, self.lived):
            self.granted.append((self.lived, every))

    def take_all(self) -> None:
        every = math.floor(self.bucket.available(self.now))
        left = self.bucket.take(every, self.now) if every else None
        if left is not None:
            self.bucket = left
            self.granted.append((self.lived, every))

    def do(self, what: str, process: int, n: int, changes: list[tuple[float, int]]) -> None:
        match what:
            case "acquire":
                self.acquire(process, 1 + n // 20)
            case "rush":  # as fast as the code allows
                for _ in range(n):
                    self.lived += 1e-5
                    if not self.acquire(process, 1):
                        break
            case "give back":
                self.give_back(process)
            case "kill":
                self.blocks[process] = Block()
            case "lease":  # more than anybody would ask for
                self.give_back(process)
                self.lease(process, [], 500 * n)
            case "hand out":
                self.hand_out(process, n)
            case "take all":  # a claim
                self.take_all()
            case "step":
                self.off -= n / 2
            case "drain":
                self.bucket = self.bucket.drained(n / 40, self.now)
                self.drained.append((self.lived, self.lived + n / 40))
            case _ if changes:
                rate, burst = changes.pop()
                self.bucket = self.bucket.changed(rate, burst, self.now)
                self.settings.append((self.lived, rate, burst))

    def allowed(self, start: float, end: float) -> float:
        """What may be granted in this span: each rate for its own time, and the largest burst. That a burst
        was made smaller is noticed by who holds a block within HELD_FOR."""
        ends = [since for since, _, _ in self.settings[1:]] + [math.inf]
        grown, largest = 0.0, 0.0
        for (since, rate, burst), until in zip(self.settings, ends, strict=True):
            grown += rate * max(0.0, min(end, until) - max(start, since))
            if since <= end and until >= start - HELD_FOR:
                largest = max(largest, burst)
        return grown + largest

    def check(self) -> None:
        for first, (start, _) in enumerate(self.granted):
            total = 0
            for end, n in self.granted[first:]:
                total += n
                allowed = self.allowed(start, end)
                assert total <= allowed + SLACK * (1 + allowed / 1000), (start, end, total, allowed)
        for since, until in self.drained:
            assert not [at for at, _ in self.granted if since + HELD_FOR < at < until]


def run(
    rate: float, burst: int, done: list[tuple[str, float, int, int]], changes: list[tuple[float, int]]
) -> None:
    cluster = Cluster(Bucket.full(rate, burst, NOW), settings=[(-math.inf, rate, burst)])
    for what, passed, process, n in done:
        cluster.lived += passed
        cluster.do(what, process, n, changes)
    cluster.check()


@given(rates, bursts, steps)
def test_f1_no_window_sees_more_than_rate_and_burst(
    rate: float, burst: int, done: list[tuple[str, float, int, int]]
) -> None:
    """[F1] [fault 21] Whatever processes lease, hand out and give back, whoever is killed, however often it
    is drained and the clock is set back. A drain is noticed within HELD_FOR."""
    run(rate, burst, done, [])


@given(rates, bursts, steps, st.lists(st.tuples(rates, bursts), max_size=4))
def test_f1_nor_does_a_live_change_give_more(
    rate: float, burst: int, done: list[tuple[str, float, int, int]], changes: list[tuple[float, int]]
) -> None:
    """[F1] [fault 21]"""
    run(rate, burst, done, changes)


# -- each of them by itself ---------------------------------------------------------------------------------


def test_f1_a_block_handed_out_late_and_all_that_is_there_are_a_burst() -> None:
    """[F1] What grew while the block was out is not on top of it."""
    _, block, bucket = Bucket.full(1000, 1000, NOW).lease([], 300, NOW)
    assert block == 300
    assert block + bucket.available(NOW + HELD_FOR) <= 1000
    assert bucket.available(NOW + HELD_FOR + 0.31) == 1000  # it fills up when the block is over


def test_f1_half_of_what_is_left_stays_for_others() -> None:
    """[F1] And somebody who was not served gets no block."""
    full = Bucket.full(0, 10, NOW)
    assert full.lease([1, 1], 100, NOW)[:2] == ([True, True], 4)
    assert full.lease([9], 100, NOW)[:2] == ([True], 0)
    assert full.lease([8, 3, 1, 2], 100, NOW)[:2] == ([True, False, True, False], 0)
    assert full.lease([4, 11, 3], 100, NOW, allowed=1)[:2] == ([True, False, False], 0)
    assert full.drained(1, NOW).lease([1], 100, NOW)[:2] == ([False], 0)


def test_f1_leases_that_are_given_back_in_turn_add_nothing() -> None:
    """[F1] Each is given back after the next one was taken: what grew meanwhile stays out."""
    bucket, now = Bucket.full(1000, 1000, NOW), NOW
    _, held, bucket = bucket.lease([], 400, now)
    leased_at = now
    for _ in range(40):
        now += 0.04
        _, block, bucket = bucket.lease([], 400, now)
        bucket = bucket.give_back(held, now, now - leased_at)
        held, leased_at = block, now
        assert held + bucket.available(now) <= 1000 + SLACK


def test_f1_a_change_while_a_block_is_out() -> None:
    """[F1] [fault 21] Neither a higher rate fills the room that a block has left, nor does a smaller burst
    count without it."""
    _, block, bucket = Bucket.full(1000, 1000, NOW).lease([], 300, NOW)
    faster = bucket.changed(100_000, 1000, NOW + 0.01)
    assert block + faster.available(NOW + 0.04) <= 1000
    assert faster.available(NOW + HELD_FOR + 0.02) == 1000
    smaller = bucket.changed(1000, 700, NOW + 0.01)
    assert block + smaller.available(NOW + 0.04) <= 700


def test_f1_what_was_leased_before_a_drain_is_not_given_back() -> None:
    """[F1] Also where the drain asked for no pause."""
    _, block, bucket = Bucket.full(1, 10, NOW).lease([], 5, NOW)
    drained = bucket.drained(0, NOW + 0.01)
    assert drained.give_back(block, NOW + 0.02, 0.02).tokens < 1


def test_f1_what_was_taken_before_the_rate_was_lowered_is_not_given_back() -> None:
    """[F1] What grew meanwhile has filled its place, and was taken."""
    taken = Bucket.full(60, 10, NOW).take(10, NOW)
    assert taken is not None
    again = taken.take(10, NOW + 0.3)
    assert again is not None
    slower = again.changed(0, 1, NOW + 0.3)
    assert slower.give_back(10, NOW + 0.3, 0.3).available(NOW + 0.3) == 0
    assert again.changed(60, 10, NOW + 0.3).give_back(1, NOW + 0.301, 0.001).available(NOW + 0.301) > 0


def test_f1_a_block_is_wished_for_by_who_calls_often() -> None:
    """[F1] Twice as many as before at most, and what is used in half the time that it lasts."""
    block = Block()
    assert block.wish(0.0) == 0
    block.used = 1
    assert block.wish(0.001) == 2
    block.used = 3
    assert block.wish(0.002) == 6
    block.used = 6
    assert block.wish(0.022) == 7
    block.used = 1
    assert block.wish(0.062) == 0


def test_f1_a_block_ends() -> None:
    """[F1]"""
    block = Block()
    block.leased(3, NOW, 10.0)
    assert block.spend(2, 9.9)
    assert not block.spend(2, 9.9)
    assert not block.spend(1, 10.0)
    assert (block.rest(), block.rest(), block.used) == (1, 0, 2)
