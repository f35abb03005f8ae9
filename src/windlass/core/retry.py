"""How long to wait before the next attempt [O2], and what a worker's death does to its jobs [C8]."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_EXPONENT: Final = 30


class Backoff(msgspec.Struct, frozen=True):
    """Exponential back-off: min(base·2^(n−1), cap), spread by jitter."""

    base: float = 5.0
    cap: float = 1800.0
    jitter: float = 0.1

    def delay(self, failures: int, spread: float = 0.5) -> float:
        """Seconds to wait after the n-th failure (n from 1).

        `spread` in [0, 1) is the caller's random number: 0.5 gives the bare figure, and the whole range
        covers ± jitter. The first delay is base, and the exponent is bounded, so no n overflows.
        """
        if failures < 1 or self.base <= 0:
            return 0.0
        exponent = min(failures - 1, MAX_EXPONENT)
        bare = min(self.base * 2.0**exponent, self.cap)
        return bare * (1.0 + self.jitter * (2.0 * spread - 1.0))


class DeathPolicy(msgspec.Struct, frozen=True):
    """What happens to the jobs of a worker that died while it held them [C8].

    The first death costs a job nothing, from the second on back-off applies, and the `poison`-th sends it to
    the dead letters. A job that has seen a death is claimed alone and kept apart from those that have not.
    """

    poison: int = 3
    backoff: Backoff = Backoff()

    def delays(self) -> list[float]:
        """Seconds to wait after the 1st, 2nd, … death, up to but without the poisonous one."""
        return [self.backoff.delay(n - 1) if n > 1 else 0.0 for n in range(1, self.poison)]
