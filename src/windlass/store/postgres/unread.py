"""From which id on news are looked for [M1].

Below it only what was folded and forgotten has been. Somebody's old snapshot keeps the server from removing
those rows, and a look that began at the first id would go through a day of them. What one look found is used
only a while later: a call that had drawn its id by then and had not committed has ended since. Should one
have taken longer, it is found by the look that begins anew now and then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

GRACE: Final = 10.0
"""Seconds that a call which tells may take to commit."""

ANEW: Final = 300.0
"""Seconds between two looks that begin at the first id."""


class Unread:
    """What one process knows of the ids of news."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._after = 0
        self._seen: deque[tuple[float, int]] = deque()
        self._anew_at = clock() + ANEW

    def after(self) -> int:
        """Look for ids higher than this."""
        now = self._clock()
        if now >= self._anew_at:
            self._after, self._anew_at = 0, now + ANEW
            self._seen.clear()
        while self._seen and now - self._seen[0][0] >= GRACE:
            self._after = max(self._after, self._seen.popleft()[1])
        return self._after

    def none_below(self, id: int) -> None:
        """A look found none with an id below this, or those that it found are forgotten."""
        now = self._clock()
        if not self._seen or now - self._seen[-1][0] >= 1.0:
            self._seen.append((now, id - 1))
