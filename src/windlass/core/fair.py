"""Whose turn it is: the ring walk that shares a lane between fair keys [C3]. No jobs, only keys and counts.

The ring is the sorted list of keys. Its position is the key served last, a value and not an index, so keys
may come and go between two walks without anybody losing a turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping


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
