"""How long to wait after something went wrong: a job before its next attempt [O2], the jobs of a worker that
died [C8], a queue after a throttle [O3], a unique key whose jobs die again and again [O7], and a job whose
task no worker knows [O4]. The stores count the failures; the PostgreSQL store has some of this in SQL, too.
"""

from __future__ import annotations

from typing import Final

import msgspec

MAX_EXPONENT: Final = 30


class Backoff(msgspec.Struct, frozen=True):
    """Exponential back-off, min(base·factor^(n−1), cap), or waits that are given; spread by jitter."""

    base: float = 5.0
    cap: float = 1800.0
    jitter: float = 0.1
    factor: float = 2.0
    waits: tuple[float, ...] = ()
    """The delays after the first failure, the second and so on; the last one repeats. Empty: the formula."""

    def delay(self, failures: int, random: float = 0.5) -> float:
        """Seconds to wait after the n-th failure (n from 1).

        `random` in [0, 1) is the caller's random number: 0.5 gives the bare figure, and the whole range
        covers ± jitter. The first delay is base, and the exponent is bounded, so no n overflows.
        """
        if failures < 1:
            return 0.0
        if self.waits:
            bare = self.waits[min(failures, len(self.waits)) - 1]
        else:
            bare = min(max(self.base, 0.0) * self.factor ** min(failures - 1, MAX_EXPONENT), self.cap)
        return bare * (1.0 + self.jitter * (2.0 * random - 1.0))


class DeathPolicy(msgspec.Struct, frozen=True):
    """The rules for jobs of a worker that died while it held them [C8].

    The first death costs a job nothing, from the second on back-off applies, and the `poison`-th sends it to
    the dead letters. A job that has seen a death is claimed alone and kept apart from those that have not.
    """

    poison: int = 3
    backoff: Backoff = Backoff()

    def delay(self, deaths: int) -> float | None:
        """Return the seconds to wait after this many deaths; None: that was one too many."""
        return None if deaths >= self.poison else self.delays()[deaths - 1]

    def delays(self) -> list[float]:
        """Seconds to wait after the 1st, 2nd, … death, up to but without the poisonous one."""
        return [self.backoff.delay(n - 1) if n > 1 else 0.0 for n in range(1, self.poison)]


# -- queues that are throttled [O3] -----------------------------------------------------------------

CALM: Final = 120.0
"""Seconds after the end of a cool-down from which on a success means that the queue goes well again."""


def cool_delay(throttles: int, *, base: float, cap: float, backoff: bool, hint: float | None = None) -> float:
    """Seconds to cool down after a throttle that `throttles` others came before.

    Flat, or twice as long each time where back-off is on. The handler's hint is a floor, and the cap bounds
    all of it, so that no server out there can close a queue for good.
    """
    bare = base * 2.0 ** min(throttles, MAX_EXPONENT) if backoff else base
    return min(max(bare, hint or 0.0), cap)


# -- unique keys whose jobs die [O7] ----------------------------------------------------------------

FIRST_PARKING: Final = 30 * 60.0
LONGEST_PARKING: Final = 6 * 3600.0
FORGET_AFTER: Final = 7 * 86400.0
"""Seconds after the last death of a key from which on its deaths no longer count."""


def parked_until(deaths: int, last: float, after: int = 3) -> float | None:
    """When automatic enqueues of a key pass again, of which the last `deaths` jobs have all died, the last of
    them at `last`; None where they have passed all the time. Each death beyond the threshold doubles the
    wait, up to 6 hours."""
    if deaths < after:
        return None
    return last + min(FIRST_PARKING * 2.0 ** min(deaths - after, MAX_EXPONENT), LONGEST_PARKING)


# -- tasks that no worker knows [O4] ----------------------------------------------------------------

_FIRST_DELAY: Final = 10.0
_LAST_DELAY: Final = 300.0
GIVE_UP_AFTER: Final = 86400.0


def unknown_delay(known_to_nobody: float) -> float:
    """Seconds to defer a job whose task nobody has known for so long: twice as long each time, within
    bounds."""
    return min(max(_FIRST_DELAY, known_to_nobody), _LAST_DELAY)
