"""How the slots of a queue are shared out over the workers that serve it [K1], and how many jobs a worker
holds ahead of those that fill its slots. Numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAX_SLOTS: Final = 1000
"""Slots of one queue in one process, whatever the totals say."""

MAX_TOTAL: Final = 2**31 - 1
"""Slots of one queue in the whole cluster."""

MAX_CLAIM: Final = 10_000
"""Jobs of one claim, at most, which is the largest batch: slots that take batches have room for millions."""

MAX_PARTS: Final = 64
"""Parts that one claim takes of a queue beyond the first, at most: they are not held ahead of slots [P8]."""

UNSIZED: Final = 16
"""Slots of a queue for which neither store nor flags name a number."""


def split(total: int, workers: Sequence[int]) -> dict[int, int]:
    """Share `total` slots out evenly: 10 over three workers are 4, 3 and 3.

    The workers that come first get what is left over, so pass them in the order in which they joined: then a
    newcomer takes nothing from the oldest but what it must. What a worker cannot use, because it has the most
    already, goes to none.
    """
    if not workers:
        return {}
    each, rest = divmod(max(total, 0), len(workers))
    return {worker: min(each + (place < rest), MAX_SLOTS) for place, worker in enumerate(workers)}


def share(total: int, assigned: int | None, serving: int) -> int:
    """Return the slots of one worker: those assigned to it, or a fair share where none are assigned yet.

    The share is rounded up, and it is never the full total where others serve the queue, too: also not for
    one that it was all assigned to before the others came.
    """
    fair = -(-max(total, 0) // max(serving, 1))
    return max(0, min(fair if assigned is None else assigned, fair, MAX_SLOTS))


def fair_share(waiting: int, workers: int) -> int:
    """Return how many of the waiting jobs one of these workers takes, so that the others find theirs
    [K10]."""
    return max(1, -(-waiting // max(workers, 1)))


# -- claiming ahead ---------------------------------------------------------------------------------

# Claiming far ahead makes batches large and cheap; claiming what will not be started soon keeps it from
# others. So a queue's run times are measured, and a worker holds about 75 ms of work ahead where jobs are
# short, and nothing beyond its free slots where they are long.

AHEAD: Final = 0.075
"""Seconds of work to hold ahead of what runs."""

LONG: Final = 0.05
"""A job that takes this many seconds is long: none of its kind is claimed before a slot is free."""

RAMP: Final = 0.1
"""Seconds after a claim of long jobs in which a worker claims no more than come free, so that others that are
idle come first [K10]."""

MAX_AHEAD: Final = 1000

RUN: Final = 0.05
"""Seconds of work in a run of a key: so long may the last of them wait for the first, with slots free."""

MAX_RUN: Final = 256
"""Jobs in a run at most."""

MAX_FLUSH_CLAIMED: Final = 2000
"""Jobs in all runs that one flush claims at most. More than are held ahead: what a flush does for
each key, however many of its jobs go, costs as much as five or ten jobs."""

WEIGHT: Final = 0.1
"""How much the newest run time counts. A long one counts in full: better too careful than stuck."""


class Prefetch:
    """How many jobs of one queue this process holds beyond its slots, from the run times that it knows."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds: float = LONG

    def note(self, seconds: float) -> None:
        """Note how long a job took."""
        if seconds >= LONG:
            self.seconds = max(self.seconds, LONG)
        self.seconds += (seconds - self.seconds) * WEIGHT

    def stuck(self) -> None:
        """Note that a run takes long, though it has not ended yet."""
        self.seconds = max(self.seconds, LONG)

    @property
    def long(self) -> bool:
        """Return whether its jobs take long, as far as is known."""
        return self.seconds >= LONG

    def ahead(self, slots: int) -> int:
        """Return how many jobs to hold beyond those that fill the slots."""
        if self.long or slots < 1:
            return 0
        return min(MAX_AHEAD, int(slots * AHEAD / max(self.seconds, 1e-6)))

    def behind(self, firsts: int) -> int:
        """Return how many more jobs of its key may come with each of `firsts` jobs, to run one after the
        other."""
        if self.long or firsts < 1:
            return 0
        return max(0, min(MAX_RUN, int(RUN / max(self.seconds, 1e-6)) + 1, MAX_FLUSH_CLAIMED // firsts) - 1)
