"""A block of tokens that one process has leased of a bucket, to hand out without asking [F1]. Times are those
of the process, which count on while its machine sleeps. What a lease does to the bucket: see
`core.flow.bucket`."""

from __future__ import annotations

import math

import msgspec

from windlass.core.flow.bucket import HELD_FOR


class Block(msgspec.Struct):
    """Tokens of one bucket that a process holds, and how fast it used tokens of late."""

    left: int = 0
    until: float = 0.0
    """Nothing is handed out from then on."""
    leased_at: float = 0.0
    """When it was leased, as the store's clock says it."""
    used: int = 0
    """Tokens that callers got since the last lease, those of that lease included."""
    asked: float = -math.inf
    """When that was asked for."""

    def spend(self, n: int, now: float) -> bool:
        """Give out n tokens, if it has them."""
        if self.left < n or now >= self.until:
            return False
        self.left -= n
        self.used += n
        return True

    def rest(self) -> int:
        """Empty the block and return how many tokens were left, which are to be given back."""
        left, self.left = self.left, 0
        return left

    def wish(self, now: float) -> int:
        """How many tokens more than its callers need the next lease should bring, asked for now: as many as
        they use in half the time that a block lasts, but at most twice as many as they used since the last
        one. Who calls less often than that leases nothing."""
        pace = self.used / max(now - self.asked, 1e-6)
        wished = min(2 * self.used, math.floor(pace * HELD_FOR / 2))
        self.asked, self.used = now, 0
        return wished

    def leased(self, block: int, leased_at: float, until: float) -> None:
        """Add the tokens of a lease. Where another one came first, both end with the older."""
        if self.left:
            leased_at, until = min(leased_at, self.leased_at), min(until, self.until)
        self.left, self.leased_at, self.until = self.left + block, leased_at, until
