"""The turns of fair keys: who of those held goes to the lane next [C3].

There is an admission wherever one may matter: at the end of an operation in which somebody was held, in a
claim that leaves the lane half empty, and with promotion for the rest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tests.model.oracle.job import Job

if TYPE_CHECKING:
    from tests.model.oracle.tables import Lane, Tables


def turns(held: Mapping[str, int], last: str | None, room: int) -> list[str]:
    """Return the keys to serve, one job each, in order. The ring is the sorted list of keys.

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


def admit_new(tables: Tables) -> None:
    """Fill the lanes that somebody has been held for in this operation."""
    for lane in tables.lanes.values():
        if lane.joined:
            lane.joined = False
            admit(tables, lane)


def refill(tables: Tables, lane: Lane) -> bool:
    """Fill a lane of which a claim has left less than half a window; whether anybody came."""
    window = tables.queues[lane.queue].window
    return len(lane.waiting) * 2 < window and admit(tables, lane) > 0


def promote(tables: Tables, limit: int) -> int:
    """Fill all lanes, with at most so many jobs; answers with how many they were."""
    admitted = 0
    for lane in tables.lanes.values():
        admitted += admit(tables, lane, limit - admitted)
        lane.joined = False  # what is left is for the next step
    return admitted


def admit(tables: Tables, lane: Lane, limit: int | None = None) -> int:
    """Let held jobs into their lane, one of each fair key in turn, oldest first within a key, until as many
    wait in it as the window says."""
    waiting: dict[str, list[Job]] = {}
    for job in lane.held:
        waiting.setdefault(job.options.fair_key or "", []).append(job)
    room = tables.queues[lane.queue].window - len(lane.waiting)
    room = room if limit is None else min(room, limit)
    keys = turns({key: len(jobs) for key, jobs in waiting.items()}, lane.served, room)
    for key in keys:
        tables.admit(waiting[key].pop(0))
        lane.served = key
    return len(keys)
