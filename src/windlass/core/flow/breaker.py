"""The circuit breaker of a budget, as a value [F7].

    closed ──`threshold` failures in a row──▶ open ──`pause` is over──▶ half-open ──success──▶ closed
                                               ▲                            │ └───────────failure──────────┘
                                               (twice as long, at most 16 times)

While it is open the budget grants nothing. Half-open it grants once, the tokens of the probe, and no more
before that one's run was reported or another `pause` has passed: a probe may die with its worker.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from windlass.core import clock

MAX_DOUBLINGS: Final = 4
BreakerState = Literal["closed", "open", "half-open"]


class Breaker(msgspec.Struct, frozen=True):
    """The state of a breaker. A `threshold` of 0 switches it off."""

    threshold: int = 0
    pause: float = 30.0
    failures: int = 0
    """In a row."""
    openings: int = 0
    """Since it was last closed."""
    until: float = 0.0
    """Open, or with a probe out, until then."""
    probing: bool = False

    def state(self, now: float) -> BreakerState:
        """How it stands."""
        if not self.openings or not self.threshold:
            return "closed"
        return "half-open" if self.probing or not self.left(now) else "open"

    def allows(self, now: float) -> float | None:
        """How often the budget may grant now, however many tokens at a time: never, or once for the probe;
        None: as often as it has tokens."""
        if self.state(now) == "closed":
            return None
        return 0.0 if self.left(now) else 1.0

    def granted(self, now: float) -> Breaker:
        """The breaker after the budget has granted something: half-open, that was the probe."""
        if self.state(now) == "closed":
            return self
        return msgspec.structs.replace(self, probing=True, until=now + self._length())

    def after_calls(self, succeeded: int, failed: int, now: float) -> Breaker:
        """The breaker after runs that used the budget. Where both are reported at once, a failure counts as
        the last: better open once too often."""
        if not self.threshold or (not succeeded and not failed):
            return self
        if self.state(now) == "open":
            return self  # a late report of runs from before
        if not failed:
            return msgspec.structs.replace(self, failures=0, openings=0, until=0.0, probing=False)
        failures = failed if succeeded else self.failures + failed
        if not self.probing and failures < self.threshold:
            return msgspec.structs.replace(self, failures=failures)
        opened = msgspec.structs.replace(self, failures=failures, openings=self.openings + 1, probing=False)
        return msgspec.structs.replace(opened, until=now + opened._length())

    def left(self, now: float) -> float:
        """Seconds until it may grant something again; 0 where it may now."""
        return clock.left(self.until, self._length(), now) if self.openings and self.threshold else 0.0

    def _length(self) -> float:
        return self.pause * 2.0 ** min(max(self.openings - 1, 0), MAX_DOUBLINGS)
