"""History of the gauges of workers and of the store, evenly spaced, gaps filled [M3]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from windlass.core.histogram import percentile
from windlass.core.rollup import GAUGES, HOUR, MINUTE, Gauges, Reading, Subject
from windlass.operations.measures import FINE, LONGEST, SHORTEST, Range
from windlass.operations.operation import Ops
from windlass.presentation.text import rounded
from windlass.store.protocol import Store

DAY: Final = 86400.0
"""Up to this span gauges are drawn from the rows of minutes, which are kept for little longer."""
COARSE: Final = 10 * MINUTE
"""Seconds between two points of the last day."""
_LATE: Final = 75.0
"""Seconds until a minute has surely been reported, after it began."""


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long the store took to answer a report, in milliseconds; null where nobody has reported."""

    latency_p50: float | None = None
    latency_p95: float | None = None


class Shown(NamedTuple):
    """The gauges between one point of a chart and the next."""

    at: int
    gauges: Gauges | None
    minutes: float
    """How many minutes of it were reported."""

    def mean(self, name: str) -> float | None:
        """Return what a gauge showed on average: of one worker, one machine or the store."""
        reading = self._reading(name)
        return None if reading is None else reading.total / reading.n / GAUGES[name]

    def together(self, name: str) -> float | None:
        """Return what the gauges of several workers showed together."""
        reading = self._reading(name)
        return None if reading is None else reading.total / self.minutes / GAUGES[name]

    def workers(self) -> float | None:
        """Return how many workers showed anything, on average."""
        reading = self._reading("cpu")
        return None if reading is None else reading.n / self.minutes

    def most(self, name: str) -> float | None:
        """Return the highest moment of any of them."""
        reading = self._reading(name)
        return None if reading is None else reading.most / GAUGES[name]

    def latency(self) -> dict[str, float | None]:
        """Return how long the store took to answer: the fields of `Latency`."""
        calls = {} if self.gauges is None else self.gauges.calls
        return {f"latency_p{share}": rounded(percentile(calls, share / 100)) for share in (50, 95)}

    def _reading(self, name: str) -> Reading | None:
        return None if self.gauges is None else self.gauges.values.get(name)


async def history(ops: Ops, last: float, of: Subject, name: str = "") -> list[Shown]:
    """Return what gauges showed: by the minute up to six hours, every ten minutes up to a day, by the hour
    beyond. Gaps are filled."""
    now = await ops.now()
    last = min(max(last, SHORTEST), LONGEST)
    span = MINUTE if last <= DAY else HOUR
    step = span if last <= FINE or span == HOUR else COARSE
    since = int(now - last) // step * step

    async def read(store: Store) -> list[Shown]:
        return shown(await store.history(span, since, now + MINUTE, of, name), Range(span, since, now), step)

    return await ops.shared(("history", of, name, span, int(last)), 2.0, read)


def shown(rows: Iterable[Gauges], wanted: Range, step: int) -> list[Shown]:
    """Put rows together, one of these for each step."""
    found: dict[int, Gauges] = {}
    minutes: dict[int, float] = {}
    for row in rows:
        at = row.at - row.at % step
        if at not in found:
            found[at] = Gauges(at=at, of=row.of, name=row.name)
        found[at].add(row)
        passed = (wanted.until - _LATE - at) / MINUTE
        minutes[at] = (
            minutes.get(at, 0.0) + 1.0 if wanted.span == MINUTE else min(max(passed, 1.0), HOUR / MINUTE)
        )
    return [
        Shown(at, found.get(at), minutes.get(at, 0.0))
        for at in range(wanted.since, int(wanted.until) + 1, step)
    ]
