"""Slows down those who guess credentials: so many wrong ones a minute, per address, per name and in all. From
then on each wrong answer takes a while [M5].

Every name counts alike, whether it exists or not, so an answer reveals nothing about names. Right credentials
are accepted at any time, so nobody who guesses behind the same proxy, or at somebody's name, locks others
out. The length of a secret is what protects it; this keeps guessing slow. Each wrong answer is delayed by a
second, and while many of an address are delayed, its further attempts are not even checked.
"""

from __future__ import annotations

import hashlib
import time
from asyncio import sleep
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Final

from windlass.web.http.origin import network_of

MAX_FAILURES: Final = 10
"""Per address and per name, within WINDOW."""
MAX_ALL_FAILURES: Final = 100
"""From all addresses, for any name."""
WINDOW: Final = 60.0
DELAY: Final = 1.0
"""Seconds that a wrong answer takes, once there were too many."""
MAX_DELAYED: Final = 10
"""Answers to one address that are delayed at the same time."""
MAX_ALL_DELAYED: Final = 100
"""Delayed answers in all: each holds a connection."""
_MAX_KEPT: Final = 10_000


class LoginThrottle:
    """The failed logins of the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        self._delayed: Counter[str] = Counter()

    def blocks(self, address: str) -> bool:
        """Return whether credentials from there are not checked for now: too many failed, and as many answers
        as allowed are delayed already."""
        network = network_of(address)
        failures = self._failures.get(("address", network))
        if failures is None or len(failures) < MAX_FAILURES or failures[0] <= self._clock() - WINDOW:
            return False
        return self._delayed[network] >= MAX_DELAYED or self._delayed.total() >= MAX_ALL_DELAYED

    def failed(self, address: str, name: str) -> float:
        """Count a failed login. Returns the seconds until there is room again where there were too many,
        else 0."""
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
        return max(
            self._count("address", network_of(address), MAX_FAILURES),
            self._count("name", digest, MAX_FAILURES),
            self._count("all", "", MAX_ALL_FAILURES),
        )

    async def delay(self, address: str) -> None:
        """Delay a wrong answer, unless too many are delayed already."""
        network = network_of(address)
        if self._delayed.total() >= MAX_ALL_DELAYED:
            return
        self._delayed[network] += 1
        try:
            await sleep(DELAY)
        finally:
            self._delayed -= Counter({network: 1})

    def _count(self, kind: str, key: str, most: int) -> float:
        now = self._clock()
        failures = self._failures.pop((kind, key), None) or deque(maxlen=most)
        before = failures[0] if len(failures) == most else -WINDOW
        failures.append(now)
        self._failures[kind, key] = failures
        while len(self._failures) > _MAX_KEPT:
            self._failures.popitem(last=False)
        return max(before + WINDOW - now, 0.0)
