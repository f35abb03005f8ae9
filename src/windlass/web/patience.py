"""How often somebody may guess: so many wrong credentials a minute, from an address, for a name and in all;
from then on each wrong answer takes a while [M5].

Every name counts alike, whether somebody here has it or not: an answer says nothing about names. Right
credentials are taken at any time: who guesses behind the same proxy, or at somebody's name, locks nobody out.
What keeps a secret is its length; this keeps who guesses from being quick about it. Each wrong answer is held
back for a second, and of an address that has guessed too often only a few are looked at in that time.
"""

from __future__ import annotations

import hashlib
import time
from asyncio import sleep
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Final

from windlass.web.origin import home_of

GUESSES: Final = 10
"""From an address, and for a name."""
ALL_GUESSES: Final = 100
"""From everywhere, for whatever name."""
WINDOW: Final = 60.0
SLOWED: Final = 1.0
"""Seconds that a wrong answer takes, once there were too many."""
HELD: Final = 10
"""So many answers to one address are held back at a time;"""
ALL_HELD: Final = 100
"""and so many in all: each holds a connection."""
_KEPT: Final = 10_000


class Patience:
    """The wrong guesses of the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        self._held: Counter[str] = Counter()

    def has_none(self, address: str) -> bool:
        """Whether what comes from there is not even looked at for now: they have guessed too often, and wait
        for as many answers as they may."""
        home = home_of(address)
        guesses = self._wrong.get(("address", home))
        if guesses is None or len(guesses) < GUESSES or guesses[0] <= self._clock() - WINDOW:
            return False
        return self._held[home] >= HELD or self._held.total() >= ALL_HELD

    def wrong(self, address: str, name: str) -> float:
        """Somebody from there has guessed wrong. Gives the seconds until this is forgiven where there were
        too many, else 0."""
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
        return max(
            self._noted("address", home_of(address), GUESSES),
            self._noted("name", digest, GUESSES),
            self._noted("all", "", ALL_GUESSES),
        )

    async def hold(self, address: str) -> None:
        """Let them wait for their answer, unless too many do already."""
        home = home_of(address)
        if self._held.total() >= ALL_HELD:
            return
        self._held[home] += 1
        try:
            await sleep(SLOWED)
        finally:
            self._held -= Counter({home: 1})

    def _noted(self, kind: str, key: str, most: int) -> float:
        now = self._clock()
        guesses = self._wrong.pop((kind, key), None) or deque(maxlen=most)
        before = guesses[0] if len(guesses) == most else -WINDOW
        guesses.append(now)
        self._wrong[kind, key] = guesses
        while len(self._wrong) > _KEPT:
            self._wrong.popitem(last=False)
        return max(before + WINDOW - now, 0.0)
