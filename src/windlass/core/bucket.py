"""The token bucket of a budget, as a value [F1]. Time comes in as the store's clock says it.

Over any span of t seconds it grants at most `rate`·t + `burst` tokens. It holds `tokens` as of `at`, the
latest time that it was told. Where the clock goes back it goes on from there: that adds nothing, and a pause
that was asked for ends as many seconds from then as were left of it. What is given back counts against what
is granted from then on: it may be granted once more.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from windlass.core.clock import SLIP

MIN_WAIT: Final = 0.001
"""Seconds that a caller who has to wait waits at least: a rounding error must not make him spin."""

LOOK_AGAIN: Final = 0.02
"""Seconds after which it is worth looking at the earliest whether those came who were promised tokens."""

PROMISED_FOR: Final = 5.0
"""Seconds for which tokens are put by for a job that was let out of a line: its queue may be paused."""


class Bucket(msgspec.Struct, frozen=True):
    """How many tokens there are, and how they grow."""

    rate: float
    """Tokens a second."""
    burst: float
    """The most it holds."""
    tokens: float
    at: float
    paused_until: float = 0.0
    """It grants nothing before this: an upstream said so. What a breaker says comes on top."""

    @classmethod
    def full(cls, rate: float, burst: float, now: float) -> Bucket:
        """A new bucket."""
        return cls(rate, burst, burst, now)

    def refilled(self, now: float) -> Bucket:
        """The bucket as it stands now. It refills from the end of a pause on: else there would be a burst
        where none is welcome."""
        at, paused_until = self.at, self.paused_until
        if at - now > SLIP:  # the clock has gone back, and its times with it
            at, paused_until = now, max(0.0, paused_until - (at - now))
        grown = self.tokens + self.rate * max(0.0, now - max(at, paused_until))
        return msgspec.structs.replace(
            self, tokens=min(self.burst, grown), at=max(at, now), paused_until=paused_until
        )

    def available(self, now: float) -> float:
        """How many tokens it would grant now."""
        ready = self.refilled(now)
        return 0.0 if now < ready.paused_until else max(0.0, ready.tokens)

    def take(self, n: float, now: float) -> Bucket | None:
        """The bucket without n tokens; None where it does not have so many, and nothing is taken."""
        ready = self.refilled(now)
        if now < ready.paused_until or ready.tokens < n:
            return None
        return msgspec.structs.replace(ready, tokens=ready.tokens - n)

    def wait(self, n: float, now: float, promised: float = 0.0) -> float:
        """Seconds until it may grant n tokens beside those promised to others; inf where it never will.

        Where it cannot hold as many, those others have to come first, which they are about to: it is worth
        looking again when half of what it holds has grown anew."""
        if n > self.burst:
            return math.inf
        ready = self.refilled(now)
        pause = ready.paused_until - now
        if promised and n + promised > self.burst:
            half = self.burst / (2 * self.rate) if self.rate > 0 else math.inf
            return max(half, pause, LOOK_AGAIN)
        missing = n + promised - ready.tokens
        grown = 0.0 if missing <= 0 else (missing / self.rate if self.rate > 0 else math.inf)
        behind = max(0.0, ready.at - now, pause)  # it grows from then on
        return max(grown + behind if missing > 0 else 0.0, pause, MIN_WAIT)

    def give_back(self, n: float, now: float, age: float = 0.0) -> Bucket:
        """The bucket with n tokens more that were taken `age` seconds ago and not used; never more than it
        holds, and none after it was drained. What has grown since may have been what they left room for: had
        they not been taken, it would have been lost. So that much of them is not given back."""
        ready = self.refilled(now)
        kept = 0.0 if now < ready.paused_until else max(0.0, n - self.rate * max(0.0, age))
        return msgspec.structs.replace(ready, tokens=min(self.burst, ready.tokens + kept))

    def drained(self, pause: float, now: float) -> Bucket:
        """The bucket without a token, and none to be had for `pause` seconds."""
        ready = self.refilled(now)
        return msgspec.structs.replace(ready, tokens=0.0, paused_until=max(ready.paused_until, now + pause))

    def after(self, drain: Bucket) -> Bucket:
        """This bucket, which is new, after a drain that it did not see."""
        return msgspec.structs.replace(self, tokens=0.0, at=drain.at, paused_until=drain.paused_until)

    def changed(self, rate: float, burst: float, now: float) -> Bucket:
        """The bucket with another rate and size; what it has grown so far counts by the old ones."""
        ready = self.refilled(now)
        return msgspec.structs.replace(ready, rate=rate, burst=burst, tokens=min(ready.tokens, burst))
