"""The text that Prometheus scrapes: format 0.0.4, the numbers of the whole cluster [M1].

    exposition = Exposition(app._store_handle().acall)
    await exposition.text()

However many scrape, and however often, the store is read at most once a second, by one at a time, and what is
not cheap at most every five seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

import msgspec
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from windlass.errors import StoreBusy
from windlass.metrics.catalog import MEASURES, Measure
from windlass.metrics.histograms import coarse
from windlass.metrics.reading import Reading, read, read_slow
from windlass.store.protocol import Store
from windlass.web.service.read_cache import ReadCache

T = TypeVar("T")
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
FRESH: Final = 1.0
"""Seconds for which a text is given out again."""
SLOW_FRESH: Final = 5.0
"""Seconds for which an answer that is not cheap is kept."""
READ_TIME: Final = 4.0
"""Seconds that the store has to answer everything: less than a request of the web may take, and than
Prometheus waits, so that both hear what was wrong."""


class Ask(Protocol):
    """Runs an operation on an open store; `StoreHandle.acall` is one."""

    def __call__(self, operation: Callable[[Store], Awaitable[T]], /) -> Awaitable[T]: ...


class Exposition:
    """The answer of `/metrics`."""

    def __init__(
        self, ask: Ask, clock: Callable[[], float] = time.monotonic, logins: Mapping[str, int] | None = None
    ) -> None:
        self._ask = ask
        self._logins = {} if logins is None else logins
        self._cache = ReadCache(clock)

    async def text(self) -> str:
        """All metrics. Raises StoreUnavailable where the store does not answer."""
        return await self._cache.get("text", FRESH, self._text)

    async def _text(self) -> str:
        try:
            async with asyncio.timeout(READ_TIME):
                slow = await self._cache.get("slow", SLOW_FRESH, lambda: self._ask(read_slow))
                reading = await self._ask(lambda store: read(store, slow))
        except TimeoutError:
            raise StoreBusy(
                f"the store did not answer within {READ_TIME:g} s; see `windlass doctor`"
            ) from None
        # Some thousand lines: elsewhere, so that nobody on this loop waits for them.
        return await asyncio.to_thread(render, msgspec.structs.replace(reading, logins=dict(self._logins)))


def render(reading: Reading) -> str:
    """A reading as text."""
    return generate_latest(_Collected(reading)).decode()


class _Collected(Collector):
    """A reading in the shape that prometheus_client writes."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def collect(self) -> Iterable[Metric]:
        return (_family(measure, self._reading) for measure in MEASURES)


def _family(measure: Measure, reading: Reading) -> Metric:
    if measure.histograms is not None:
        histogram = HistogramMetricFamily(measure.name, measure.help, labels=measure.labels)
        for labels, counts in measure.histograms(reading):
            histogram.add_metric(labels, *coarse(counts))
        return histogram
    assert measure.numbers is not None
    kind = CounterMetricFamily if measure.kind == "counter" else GaugeMetricFamily
    family = kind(measure.name, measure.help, labels=measure.labels)
    for labels, value in measure.numbers(reading):
        family.add_metric(labels, value)
    return family
