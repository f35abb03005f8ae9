"""Tells a child that is alive and takes nothing from one that is busy, full, or cut off like everybody else
[fault 32].

A child notes on its board when the store last answered one of its claims, whatever the answer was: jobs,
none, paused, no tokens. One that has room asks at least six times in a lease. So silence means that it is
stuck: in its listener, in its connections, or its loop is. Nothing is asked of the store for this, and
whatever keeps jobs waiting there for a good reason can raise no false alarm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from windlass.worker.board import Board

BLOCKED: Final = 2.0
"""Seconds without a tick after which a loop is blocked."""

AWAY: Final = 5.0
"""Seconds between two looks after which it was we who were not there."""


class Child(Protocol):
    """What is asked of a child."""

    @property
    def board(self) -> Board:
        """What it notes for us."""


C = TypeVar("C", bound=Child)


class Hearing(Generic[C]):
    """Since when each child has had no answer. After `limit` seconds it is deaf; 0: nobody ever is."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._since: dict[C, float] = {}
        self._looked_at = clock()

    def deaf(self, children: dict[C, bool]) -> list[C]:
        """Those that are deaf. The children are all there are, each with whether it has an excuse: it is not
        at work yet, or no longer, or nobody else gets an answer either."""
        now = self._clock()
        away, self._looked_at = now - self._looked_at > AWAY, now
        self._since = {
            child: now if away or excused or held(child.board, now) else self._since.get(child, now)
            for child, excused in children.items()
        }
        return [child for child, since in self._since.items() if self.limit and self._silent(child, since)]

    def _silent(self, child: C, since: float) -> bool:
        """Silent, or its loop stands still though nothing runs there."""
        last = min(child.board.answered_at, child.board.ticked_at)
        return self._clock() - max(last, since) > self.limit


def held(board: Board, now: float) -> bool:
    """Whether a handler keeps its loop from turning: that is work, and its deadline ends it [C6]."""
    return now - board.ticked_at > BLOCKED and bool(board.running())
