"""The governor: a queue's rate, found by trying [F2]. Values in, values out; the coordinator asks every few
seconds.

While jobs wait and nothing is wrong the rate grows by a fixed step. When more than 5 % of runs fail, when an
upstream throttles, or when the 95th percentile of run times is more than twice what it used to be, the rate
is halved and then held for a while, however deep the queue is."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.core.histogram import percentile

ERRORS: Final = 0.05
SLOW: Final = 2.0
HOLD: Final = 3
"""Windows for which the rate is held after it was halved."""

STEPS: Final = 20
"""From nothing to the highest rate in so many steps."""

WEIGHT: Final = 0.1
FEW: Final = 20
"""Below so many runs a 95th percentile says little."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a queue since the last look."""

    succeeded: int = 0
    failed: int = 0
    throttled: int = 0
    waiting: int = 0
    """Jobs that are ready now."""
    times: dict[int, int] = {}
    """Run times; see `core.histogram`."""


class Governor(msgspec.Struct, frozen=True, kw_only=True):
    """What the governor of a queue knows; kept in the store as JSON."""

    rate: float
    """Jobs a second."""
    baseline: float | None = None
    """The usual 95th percentile of run times, in milliseconds."""
    held: int = 0
    """Windows for which the rate is held yet."""
    why: str = "starts"
    """What the last look decided, for people."""

    @classmethod
    def first(cls, least: float, most: float) -> Governor:
        """A governor that has seen nothing yet."""
        return cls(rate=max(least, most / STEPS))

    def step(self, window: Window, least: float, most: float) -> Governor:
        """The governor after one more window."""
        trouble, p95 = self._trouble(window), percentile(window.times, 0.95)
        if trouble is not None:
            rate = max(least, self.rate / 2)
            return msgspec.structs.replace(self, rate=rate, held=HOLD, why=f"halved: {trouble}")
        baseline = self.baseline
        if p95 is not None and sum(window.times.values()) >= FEW:
            baseline = p95 if baseline is None else baseline + (p95 - baseline) * WEIGHT
        calm = msgspec.structs.replace(self, baseline=baseline, rate=min(max(self.rate, least), most))
        if self.held:
            return msgspec.structs.replace(calm, held=self.held - 1, why="held after it was halved")
        if not window.waiting:
            return msgspec.structs.replace(calm, why="nothing waits")
        return msgspec.structs.replace(
            calm, rate=min(most, calm.rate + most / STEPS), why="raised: jobs wait"
        )

    def _trouble(self, window: Window) -> str | None:
        runs = window.succeeded + window.failed
        if window.throttled:
            return f"an upstream throttled {window.throttled} runs"
        if runs and window.failed / runs >= ERRORS:
            return f"{window.failed} of {runs} runs failed"
        p95 = percentile(window.times, 0.95)
        many = sum(window.times.values()) >= FEW
        if many and p95 is not None and self.baseline is not None and p95 > SLOW * self.baseline:
            return f"the 95th percentile of run times is {p95:.0f} ms, usually {self.baseline:.0f} ms"
        return None
