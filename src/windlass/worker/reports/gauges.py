"""Gauges of a process, added up by the minute until they are reported [M3].

A reading that is kept is the average over one minute, with its highest moment: one row a minute for each
worker, however often it looks at itself. A minute is reported once it is over, or when the process ends.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from windlass.core.histogram import bucket
from windlass.core.rollup import GAUGES, MINUTE, Gauges, Reading, Subject, add_up
from windlass.store.measures import label_text
from windlass.worker.reports.store_clock import StoreClock

MAX_WAITING: Final = 240
"""Minutes of gauges that may wait to be reported, while the store is down; later ones are not kept."""


class Whose(NamedTuple):
    """Whose gauges: a worker on a host, a host, or the store."""

    of: Subject
    name: str = ""
    host: str = ""


class _Shown:
    """The readings of one gauge in a minute."""

    def __init__(self) -> None:
        self.total = 0.0
        self.n = 0
        self.most = 0.0

    def add(self, value: float) -> None:
        self.total += value
        self.n += 1
        self.most = max(self.most, value)

    def reading(self, unit: int) -> Reading:
        return Reading(round(self.total / self.n * unit), 1, round(self.most * unit))


class _Minute:
    """The readings of one subject's gauges in a minute."""

    def __init__(self) -> None:
        self.shown: dict[str, _Shown] = {}
        self.calls: dict[int, int] = {}


class GaugeBuffer:
    """The gauges that one process reads; on one loop."""

    def __init__(self, clock: StoreClock) -> None:
        self._clock = clock
        self._minutes: dict[tuple[int, Whose], _Minute] = {}
        self._own: Whose | None = None

    def read(self, whose: Whose, **values: float | None) -> None:
        """Add a reading of the gauges; None where one shows nothing. Charts go by the store's clock:
        before that is known, nothing is kept."""
        whose = Whose(whose.of, label_text(whose.name), label_text(whose.host))
        if whose.of != "store":
            self._own = whose
        minute = self._minute(whose)
        for name, value in values.items():
            if minute is not None and value is not None:
                minute.shown.setdefault(name, _Shown()).add(max(value, 0.0))

    def called(self, ms: float) -> None:
        """The store took so long to answer a call of this process, as whatever it reads its own gauges."""
        minute = None if self._own is None else self._minute(self._own)
        if minute is not None:
            add_up(minute.calls, {bucket(ms): 1})

    def any(self, *, last: bool = False) -> bool:
        """Return whether a minute waits to be reported: one that is over, or with `last` the present one,
        too."""
        present = self._present()
        return any(last or at < present for at, _ in self._minutes)

    def take(self, *, last: bool = False) -> list[Gauges]:
        """Remove and return what is to be reported now."""
        present = self._present()
        taken = {key: minute for key, minute in self._minutes.items() if last or key[0] < present}
        for key in taken:
            del self._minutes[key]
        return [
            Gauges(
                at=at,
                of=whose.of,
                name=whose.name,
                host=whose.host,
                values={name: shown.reading(GAUGES[name]) for name, shown in minute.shown.items()},
                calls=minute.calls,
            )
            for (at, whose), minute in taken.items()
        ]

    def _minute(self, whose: Whose) -> _Minute | None:
        if not self._clock.known:
            return None
        key = (self._present(), whose)
        if key not in self._minutes and len(self._minutes) < MAX_WAITING:
            self._minutes[key] = _Minute()
        return self._minutes.get(key)

    def _present(self) -> int:
        return int(self._clock.at(time.monotonic())) // MINUTE * MINUTE
