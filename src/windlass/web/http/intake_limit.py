"""How many single jobs may be on their way into the store at once. Beyond that, callers are told to retry
later, before the jobs fill this process's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from windlass.store.records import NewJob
from windlass.web.http.problems import SOON, Problem

MAX_JOBS: Final = 10_000
"""Jobs that may be without an answer."""
MAX_SIZE: Final = 256 * 2**20
"""Characters of payload in them."""


class IntakeLimit:
    """Counts the jobs that wait for the store's answer."""

    def __init__(self) -> None:
        self._jobs = 0
        self._size = 0

    @contextmanager
    def admit(self, jobs: Sequence[NewJob]) -> Iterator[None]:
        """Count these while the block lasts. Raises a 503 where there is no room for them."""
        size = sum(len(job.payload) for job in jobs)
        if self._jobs and (self._jobs >= MAX_JOBS or self._size + size > MAX_SIZE):
            raise Problem(
                503, "busy", "jobs arrive faster than the database takes them; try again", retry_after=SOON
            )
        self._jobs += len(jobs)
        self._size += size
        try:
            yield
        finally:
            self._jobs -= len(jobs)
            self._size -= size
