"""The governor's operations: workers tell it how runs went, the coordinator what it decided [F2]."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.governor import Governor, Window
from windlass.store.flow import Governed, Runs
from windlass.store.memory.base import Base, atomic
from windlass.store.memory.depth import depth


class Governors(Base):
    """The coordinator's governor, and the workers that tell it how runs went."""

    @atomic
    async def report(self, runs: Mapping[str, Runs]) -> None:
        now = self._clock()
        for queue, told in runs.items():
            pace = self._tables.pace(queue, now)
            if pace is not None:
                pace.add(told)

    @atomic
    async def governed(self, term: int) -> list[Governed]:
        now = self._clock()
        self._tables.hold_term(term, now)
        return [
            self._look(name, now) for name, queue in sorted(self._tables.queues.items()) if queue.governor
        ]

    def _look(self, queue: str, now: float) -> Governed:
        pace, settings = self._tables.pace(queue, now), self._tables.queues[queue]
        assert pace is not None, "only governed queues are looked at"
        runs, pace.runs = pace.runs, Runs()
        window = Window(
            succeeded=runs.succeeded,
            failed=runs.failed,
            throttled=runs.throttled,
            waiting=depth(self._tables, queue, now).ready,
            times=runs.times,
        )
        return Governed(queue, window, settings.rate_min, settings.rate_max, pace.governor)

    @atomic
    async def govern(self, term: int, queue: str, governor: Governor) -> None:
        now = self._clock()
        self._tables.hold_term(term, now)
        pace = self._tables.pace(queue, now)
        if pace is not None:
            pace.follow(governor, now)

    @atomic
    async def observe(self, latency: float) -> None:
        self._tables.latency = (latency, self._clock())
