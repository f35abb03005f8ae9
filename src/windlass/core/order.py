"""Who comes next: lanes by priority, with ageing so that low is never starved [C2], and within a lane the
ring walk that shares it between fair keys [C3].
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping

import msgspec


class LaneHead(msgspec.Struct, frozen=True):
    """A lane as the claimer sees it: its priority and how long its oldest waiting job has waited."""

    lane: int
    queue: str
    priority: int
    waited: float


def effective(priority: int, waited: float, step: float) -> int:
    """The priority after ageing: one step better per `step` seconds waited (step 0 switches it off)."""
    return priority - int(max(waited, 0.0) // step) if step > 0 else priority


def claim_order(heads: Iterable[LaneHead], step: float = 60.0) -> list[LaneHead]:
    """Order lanes by effective priority; among equals the one whose head has waited longest."""
    return sorted(heads, key=lambda h: (effective(h.priority, h.waited, step), -h.waited, h.lane))


# -- fair keys [C3] ---------------------------------------------------------------------------------

# The ring is the sorted list of keys. Its position is the key served last, a value and not an index, so keys
# may come and go between two walks without anybody losing a turn.


def turns(held: Mapping[str, int], last: str | None, room: int) -> list[str]:
    """Return the keys to serve, one job each, in order.

    `held` counts the jobs that wait per key, `last` is the key served last (None: nobody yet), `room` is how
    many jobs the lane takes. The walk begins at the next key after `last`, wraps, and gives each key one turn
    per round while it has jobs left. The last key returned is the new position of the ring.
    """
    keys = sorted(key for key, count in held.items() if count > 0)
    start = bisect_right(keys, last) if last is not None else 0
    ring = deque(keys[start:] + keys[:start])
    left = dict(held)
    served: list[str] = []
    while ring and len(served) < room:
        key = ring.popleft()
        served.append(key)
        left[key] -= 1
        if left[key] > 0:
            ring.append(key)
    return served
