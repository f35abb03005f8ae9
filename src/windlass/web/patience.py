"""How often somebody may guess: so many wrong credentials a minute from one address, then a pause [M5].

While it lasts nobody from there is let in with credentials that were not right before; whoever was let in
already goes on, so that one who guesses behind the same proxy locks nobody out.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

GUESSES: Final = 10
WINDOW: Final = 60.0
_ADDRESSES: Final = 10_000


class Patience:
    """The wrong guesses of the last minute, by address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def pause(self, address: str) -> float:
        """Seconds for which this address has to wait; 0 where it may try."""
        wrong = self._wrong.get(address)
        if wrong is None:
            return 0.0
        now = self._clock()
        while wrong and wrong[0] <= now - WINDOW:
            wrong.popleft()
        return wrong[0] + WINDOW - now if len(wrong) >= GUESSES else 0.0

    def wrong(self, address: str) -> None:
        """Somebody from there has guessed wrong."""
        guesses = self._wrong.pop(address, None) or deque(maxlen=GUESSES)
        guesses.append(self._clock())
        self._wrong[address] = guesses
        while len(self._wrong) > _ADDRESSES:
            self._wrong.popitem(last=False)
