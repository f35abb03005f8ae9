"""The governor: a queue's rate, found by trying [F2]. Values in, values out; the coordinator asks every few
seconds.

While jobs wait and nothing is wrong the rate grows by a fixed step. When more than 5 % of runs fail, when an
upstream throttles, or when the 95th percentile of run times is more than twice what it used to be, the rate
is halved and then held for a while, however deep the queue is."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.core.counts import plural
from windlass.core.histogram import percentile

ERRORS: Final = 0.05
SLOW: Final = 2.0
HOLD: Final = 3
"""Windows for which the rate is held after it was halved."""

STEPS: Final = 20
"""Steps from nothing to the highest rate."""

WEIGHT: Final = 0.1
NOISE: Final = 20.0
"""Milliseconds: a 95th percentile below this is no problem, whatever it was before."""

FEW: Final = 20
"""Runs below which a 95th percentile says little."""

SMOOTH: Final = 5.0
"""A governed queue may be ahead of its rate by a fifth of a second."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The events of a queue since the last look."""

    succeeded: int = 0
    failed: int = 0
    throttled: int = 0
    waiting: int = 0
    """Jobs that are ready now."""
    times: dict[int, int] = {}
    """Run times; see `core.histogram`."""


class Governor(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of a queue's governor; kept in the store as JSON."""

    rate: float
    """Jobs a second."""
    baseline: float | None = None
    """The usual 95th percentile of run times, in milliseconds."""
    held: int = 0
    """Windows for which the rate is held yet."""
    why: str = "starts"
    """The last decision, for people."""

    @classmethod
    def first(cls, least: float, most: float) -> Governor:
        """A governor that has seen nothing yet."""
        return cls(rate=max(least, most / STEPS))

    def step(self, window: Window, least: float, most: float) -> Governor:
        """The governor after one more window."""
        failing, slow = self._failing(window), self._slow(window)
        # What fails fast says nothing about how long a run takes. What is slow does, little by little: work
        # that is slower for good must not keep the rate down for ever.
        baseline = self.baseline if failing else self._learned(window)
        rate = min(max(self.rate, least), most)
        now = msgspec.structs.replace(self, rate=rate, baseline=baseline)
        if (reason := failing or slow) is not None:
            halved = max(least, rate / 2)
            return msgspec.structs.replace(now, rate=halved, held=HOLD, why=f"halved: {reason}")
        if self.held:
            return msgspec.structs.replace(
                now, held=self.held - 1, why=f"held; {self.why.removeprefix('held; ')}"
            )
        if not window.waiting:
            return msgspec.structs.replace(now, why="nothing waits")
        return msgspec.structs.replace(now, rate=min(most, rate + most / STEPS), why="raised: jobs wait")

    def _failing(self, window: Window) -> str | None:
        runs = window.succeeded + window.failed
        if window.throttled:
            return f"an upstream throttled {plural(window.throttled, 'run')}"
        if runs and window.failed / runs >= ERRORS:
            return f"{window.failed} of {plural(runs, 'run')} failed"
        return None

    def _slow(self, window: Window) -> str | None:
        p95 = _p95(window)
        if p95 is None or self.baseline is None or p95 <= max(SLOW * self.baseline, NOISE):
            return None
        return f"the 95th percentile of run times is {p95:.0f} ms, usually {self.baseline:.0f} ms"

    def _learned(self, window: Window) -> float | None:
        p95, usual = _p95(window), self.baseline
        if p95 is None or usual is None:
            return p95 if usual is None else usual
        return usual + (p95 - usual) * WEIGHT


def burst(rate: float) -> float:
    """How many jobs of a queue may be claimed at once at this rate; the PostgreSQL store says the same in
    SQL."""
    return max(1.0, rate / SMOOTH)


def _p95(window: Window) -> float | None:
    return percentile(window.times, 0.95) if sum(window.times.values()) >= FEW else None
