"""How often somebody may guess: so many wrong credentials a minute, for a name from an address; from then on
each wrong answer takes a while [M5].

Right ones are never made to wait: who guesses behind the same proxy locks nobody out. What keeps a secret is
its length; this keeps who guesses from being quick about it, since each wrong guess holds a connection, and
there are only so many of these.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

GUESSES: Final = 10
WINDOW: Final = 60.0
SLOWED: Final = 1.0
"""Seconds that a wrong answer takes, once there were too many."""
_KEPT: Final = 10_000


class Patience:
    """The wrong guesses of the last minute, by address and name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def wrong(self, address: str, name: str) -> float:
        """Somebody from there has guessed wrong. Gives the seconds until this is forgiven where there were
        too many, else 0."""
        now = self._clock()
        guesses = self._wrong.pop((address, name), None) or deque(maxlen=GUESSES)
        before = guesses[0] if len(guesses) == GUESSES else -WINDOW
        guesses.append(now)
        self._wrong[address, name] = guesses
        while len(self._wrong) > _KEPT:
            self._wrong.popitem(last=False)
        return max(before + WINDOW - now, 0.0)
