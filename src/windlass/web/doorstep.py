"""How many jobs may be on their way into the store through this process at once. Where more come in than it
takes, the next ones are told when to come again, before they fill its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from windlass.store.records import NewJob
from windlass.web.problems import SOON, Problem

MOST_OPEN: Final = 10_000
"""How many single jobs may be without an answer."""
MOST_HELD: Final = 256 * 2**20
"""Characters of payload that may be."""


class Doorstep:
    """Counts those who wait for an answer."""

    def __init__(self) -> None:
        self._open = 0
        self._held = 0

    @contextmanager
    def crossed(self, jobs: Sequence[NewJob]) -> Iterator[None]:
        """While the block lasts these are on their way. Raises a 503 where there is no room for them."""
        size = sum(len(job.payload) for job in jobs)
        if self._open and (self._open >= MOST_OPEN or self._held + size > MOST_HELD):
            told = "more jobs come in than the database takes at the moment; try again"
            raise Problem(503, "busy", told, retry_after=SOON)
        self._open += len(jobs)
        self._held += size
        try:
            yield
        finally:
            self._open -= len(jobs)
            self._held -= size
