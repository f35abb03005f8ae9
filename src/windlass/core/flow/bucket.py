"""The token bucket of a budget, as a value [F1]. Time comes in as the store's clock says it.

Over any span of t seconds it grants at most `rate`·t + `burst` tokens. It holds `tokens` as of `at`, the
latest time that it was told. Where the clock goes back it goes on from there: that adds nothing, and a pause
that was asked for ends as many seconds from then as were left of it. What is given back counts against what
is granted from then on: it may be granted once more.

A process that takes tokens often leases a block of them, and hands them out without asking for `held_for`
seconds. The bound counts when a token is handed out, so while blocks are out the bucket holds less by what it
grows by in that time: tokens handed out in t seconds were taken in t + held_for, which is
rate·(t + held_for) + (burst - rate·held_for) at most. ADR 54 has the whole argument.

A claim may book tokens that come within `AHEAD` seconds: its job starts when they are there. The bucket goes
below zero and grants nobody else any until then, so it grants what it would have granted at that time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.core.clock import SLIP
from windlass.core.flow.caps import LONGEST, period_end

MIN_WAIT: Final = 0.001
"""Seconds that a caller who has to wait waits at least: a rounding error must not make him spin."""

LOOK_AGAIN: Final = 0.02
"""Seconds after which it is worth looking at the earliest whether those came who were promised tokens."""

PROMISED_FOR: Final = 5.0
"""Seconds for which tokens are put by for a job that was let out of a line: its queue may be paused."""

DEBT_FOR: Final = 86_400.0
"""Seconds that a debt lasts at most, unless it is no more than the burst: who settles with a wrong number
must not stop a budget for years."""

HELD_FOR: Final = 0.05
"""Seconds that a block of tokens may be handed out for, at most: so late is a drain, a change or an open
breaker noticed by who holds one."""


AHEAD: Final = 0.1
"""Seconds that a job may be claimed before its tokens are there: about three times as long as it takes to let
one out of a waiting list, claim it and start it. So late does it notice a drain, a change or an open
breaker."""


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
    leased_until: float = 0.0
    """Blocks of its tokens are out until then, so it holds no more than `ceiling`."""
    whole_until: float = 0.0
    """No more of them before this, and no bookings: somebody by hand waits for more than `ceiling`, or went
    without while tokens were booked."""
    used: float = 0.0
    """Tokens taken in this period, less those that came back."""
    used_until: float = 0.0
    """When this period ends."""
    cap: float | None = None
    """The most that is taken in a period; None: any number."""
    per: str = "day"
    zone: str = "UTC"

    @classmethod
    def full(cls, rate: float, burst: float, now: float) -> Bucket:
        """A new bucket."""
        return cls(rate, burst, burst, now)

    @property
    def held_for(self) -> float:
        """Seconds that a block may be handed out for: no longer than half of the burst takes to grow."""
        return HELD_FOR if 2 * self.rate * HELD_FOR <= self.burst else self.burst / (2 * self.rate)

    @property
    def ceiling(self) -> float:
        """The most it holds while blocks are out."""
        return self.burst - self.rate * self.held_for

    @property
    def lowest(self) -> float:
        """The level of its greatest debt."""
        return -max(self.burst, self.rate * DEBT_FOR)

    def refilled(self, now: float) -> Bucket:
        """The bucket as it stands now. It refills from the end of a pause on: else there would be a burst
        where none is welcome. While blocks are out it refills to its ceiling, then to its burst."""
        at, paused_until = self.at, self.paused_until
        leased_until, whole_until = self.leased_until, self.whole_until
        if at - now > SLIP:  # the clock has gone back, and its times with it
            paused_until = max(0.0, paused_until - (at - now))
            leased_until = max(0.0, leased_until - (at - now))
            whole_until = max(0.0, whole_until - (at - now))
            at = now
        tokens, since = self.tokens, max(at, paused_until)
        if leased_until > since:
            until = max(since, min(now, leased_until))
            tokens, since = min(self.ceiling, tokens + self.rate * (until - since)), until
        tokens = min(self.burst, tokens + self.rate * max(0.0, now - since))
        used, used_until = self.used, self.used_until
        if not now < used_until <= now + LONGEST[self.per]:
            used = 0.0 if used_until <= now else used  # where the clock was set back, what was used stays
            used_until = period_end(self.per, self.zone, now)
        return Bucket(
            self.rate, self.burst, tokens, max(at, now), paused_until, leased_until, whole_until, used,
            used_until, self.cap, self.per, self.zone,
        )  # fmt: skip

    def resumed(self, now: float) -> Bucket:
        """The bucket as it goes on from now, if the clock was set back since it was written; else itself.
        Whoever asks it must keep that: a bucket that refuses is not written otherwise, and would stand still
        until the clock has caught up."""
        return self.refilled(now) if self.at - now > SLIP else self

    @property
    def left(self) -> float:
        """Tokens that it would grant but for a pause: its tokens, or what its cap leaves of them."""
        return self.tokens if self.cap is None else min(self.tokens, self.cap - self.used)

    def available(self, now: float) -> float:
        """How many tokens it would grant now."""
        ready = self.refilled(now)
        return 0.0 if now < ready.paused_until else max(0.0, ready.left)

    def take(self, n: float, now: float) -> Bucket | None:
        """Return the bucket without n tokens; None where it has fewer, and nothing is taken."""
        ready = self.refilled(now)
        if now < ready.paused_until or ready.left < n:
            return None
        return msgspec.structs.replace(ready, tokens=ready.tokens - n, used=ready.used + n)

    def soon(self, n: float, now: float, reserved: float = 0.0) -> float:
        """Seconds until a claim has n tokens beside those reserved for others; inf where it cannot book them
        now. A cap and a pause end at a time of their own, and while blocks are out it never holds its burst,
        so nothing is booked then."""
        ready, total = self.refilled(now), n + reserved
        if now < ready.paused_until or (ready.cap is not None and ready.used + total > ready.cap):
            return math.inf
        if ready.tokens >= total:
            return 0.0
        if n > ready.burst or ready.rate <= 0 or now < max(ready.leased_until, ready.whole_until):
            return math.inf
        wait = (total - ready.tokens) / ready.rate + ready.at - now
        return wait if wait <= AHEAD else math.inf

    def book(self, n: float, now: float) -> Bucket:
        """The bucket without n tokens of which `soon` has said when they are there."""
        ready = self.refilled(now)
        return msgspec.structs.replace(ready, tokens=ready.tokens - n, used=ready.used + n)

    def refused(self, n: float, now: float) -> Bucket:
        """The bucket after n tokens were refused by hand. Where they were booked by claims, these book none
        until whoever asked has asked again: else they would always come first."""
        ready = self.refilled(now)
        if ready.tokens >= 0 or n > ready.burst or ready.rate <= 0:
            return self
        whole_until = max(ready.whole_until, now + ready.burst / ready.rate + 2 * AHEAD)
        return msgspec.structs.replace(ready, whole_until=whole_until)

    def lease(
        self, needs: Sequence[int], extra: int, now: float, allowed: float | None = None
    ) -> tuple[list[bool], int, Bucket]:
        """Serve several callers in their order, each with all it needs or nothing, and as many of them as its
        breaker allows (None: all). Where all were served, a block of `extra` tokens more at most, and of no
        more than half of what is left. Returns who was served, the size of the block, and the bucket then."""
        ready, most = self.refilled(now), math.inf if allowed is None else allowed
        if now < ready.paused_until:
            return [False] * len(needs), 0, ready
        tokens, left, taken = ready.tokens, ready.left, 0.0
        served: list[bool] = []
        for n in needs:
            served.append(n <= left - taken and sum(served) < most)
            taken += n if served[-1] else 0
        tokens, left, used = tokens - taken, left - taken, ready.used + taken
        lacks = [n for n, ok in zip(needs, served, strict=True) if not ok and allowed is None]
        for n in lacks:
            ready = ready.refused(n, now)
        if any(ready.ceiling < n <= ready.burst for n in lacks):
            whole_until = max(ready.leased_until, now) + ready.burst / ready.rate if ready.rate > 0 else now
            ready = msgspec.structs.replace(ready, whole_until=max(ready.whole_until, whole_until))
        free = math.floor(min(left, ready.ceiling) / 2)
        block = min(extra, free) if allowed is None and all(served) and now >= ready.whole_until else 0
        if block < 1:
            return served, 0, msgspec.structs.replace(ready, tokens=tokens, used=used)
        tokens = min(tokens, ready.ceiling) - block
        until = max(ready.leased_until, now + ready.held_for)
        return (
            served,
            block,
            msgspec.structs.replace(ready, tokens=tokens, leased_until=until, used=used + block),
        )

    def wait(self, n: float, now: float, promised: float = 0.0, ahead: float = 0.0) -> float:
        """Seconds until it may grant n tokens beside those promised to others; inf where it never will. For a
        claim, which may book those that come within `ahead` seconds, that is so much sooner.

        Where it cannot hold as many, those others have to come first, which they are about to: it is worth
        looking again when half of what it holds has grown anew."""
        if n > self.burst:
            return math.inf
        ready = self.refilled(now)
        pause = ready.paused_until - now
        capped = 0.0
        if ready.cap is not None and ready.used + n + promised > ready.cap:
            capped = ready.used_until - now
        shut = max(ready.leased_until, ready.whole_until, ready.paused_until)
        if ahead and now >= shut and ready.rate > 0 and ready.tokens < ready.burst:
            grown = (n + promised - ready.tokens) / ready.rate + ready.at - now - ahead
            return max(grown, capped, LOOK_AGAIN if promised else MIN_WAIT)
        if promised and n + promised > self.burst:
            half = self.burst / (2 * self.rate) if self.rate > 0 else math.inf
            return max(half, pause, capped, LOOK_AGAIN)
        missing = n + promised - ready.tokens
        grown = 0.0 if missing <= 0 else (missing / self.rate if self.rate > 0 else math.inf)
        behind = max(0.0, ready.at - now, pause)  # it grows from then on
        return max(grown + behind if missing > 0 else 0.0, pause, capped, MIN_WAIT)

    def give_back(self, n: float, now: float, age: float = 0.0) -> Bucket:
        """The bucket with n tokens more that were taken `age` seconds ago and not used; never more than it
        holds, and none that were taken before it was drained. What has grown since may have been what they
        left room for: had they not been taken, it would have been lost. So that much is not given back."""
        ready, age = self.refilled(now), max(0.0, age)
        kept = 0.0 if now - age < ready.paused_until else max(0.0, n - self.rate * age)
        most = self.ceiling if now < ready.leased_until else self.burst
        return msgspec.structs.replace(
            ready, tokens=min(max(most, ready.tokens), ready.tokens + kept), used=ready._used_but(n, now, age)
        )

    def settled(self, more: float, now: float, age: float = 0.0) -> Bucket:
        """The bucket after a run that took tokens `age` seconds ago has told what it really used: `more` than
        it took, or less, where it is negative. More may leave a debt, which is paid off before anything is
        granted; no more than grows in a day, or the burst. Less comes back in full, but for what was taken
        before a drain, and never beyond its burst.

        So what was taken, as settled, is at most rate·t + burst over any span of t seconds, and the debt at
        its end on top: over time, the rate. What runs really use in a span is more than that by what those
        that were claimed before it had taken too much, at most."""
        ready, age = self.refilled(now), max(0.0, age)
        used = ready.used + more if more >= 0 else ready._used_but(-more, now, age)
        ready = msgspec.structs.replace(ready, used=used)
        if more >= 0:
            lowest = min(ready.tokens, ready.lowest)
            return msgspec.structs.replace(ready, tokens=max(ready.tokens - more, lowest))
        if now - age < ready.paused_until:
            return ready
        most = self.ceiling if now < ready.leased_until else self.burst
        return msgspec.structs.replace(ready, tokens=min(max(most, ready.tokens), ready.tokens - more))

    def _used_but(self, n: float, now: float, age: float) -> float:
        """Return what was taken in this period without n tokens that were taken `age` seconds ago, which may
        have been in another one."""
        here = age <= 0 or period_end(self.per, self.zone, now - age) >= self.used_until
        return max(0.0, self.used - n) if here else self.used

    def drained(self, pause: float, now: float) -> Bucket:
        """The bucket without a token, and none to be had for `pause` seconds."""
        ready = self.refilled(now)
        paused_until = max(ready.paused_until, now + pause)
        return msgspec.structs.replace(ready, tokens=min(0.0, ready.tokens), paused_until=paused_until)

    def after(self, drain: Bucket) -> Bucket:
        """This bucket, which is new, after a drain that it did not see."""
        return msgspec.structs.replace(self, tokens=0.0, at=drain.at, paused_until=drain.paused_until)

    def capped(self, cap: float | None, per: str, zone: str) -> Bucket:
        """The bucket with another cap. Another period, or another zone, counts anew."""
        if (per, zone) == (self.per, self.zone):
            return msgspec.structs.replace(self, cap=cap)
        return msgspec.structs.replace(self, cap=cap, per=per, zone=zone, used=0.0, used_until=0.0)

    def changed(self, rate: float, burst: float, now: float) -> Bucket:
        """The bucket with another rate and size; what it has grown so far counts by the old ones, and a debt
        is forgiven, but for what may be booked: it grows from when that is there. What was taken before its
        rate was lowered is not given back: by the new rate, too little would count as grown since. The blocks
        that are out and what it holds are no more than the old burst: a smaller one is taken off that, and it
        grows again when they are used up."""
        ready = self.refilled(now)
        tokens, at = ready.tokens, ready.at
        if now < ready.leased_until:
            tokens, at = tokens - max(0.0, self.burst - burst), max(at, ready.leased_until)
        elif tokens < 0:
            tokens, at = 0.0, at + (min(AHEAD, -tokens / self.rate) if self.rate > 0 else 0.0)
        tokens, paused_until = min(tokens, burst), ready.paused_until
        if rate < self.rate:
            paused_until = max(paused_until, now)
        return msgspec.structs.replace(
            ready, rate=rate, burst=burst, tokens=tokens, at=at, paused_until=paused_until
        )
