"""Apps for the tests of this folder, and an SDK that keeps its spans and metrics in memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.apps import any_app, app, no_settings_from_outside, url
from windlass import Windlass
from windlass.contrib.otel import instrument

__all__ = ["any_app", "app", "no_settings_from_outside", "url"]


@dataclass(frozen=True)
class Sdk:
    """An SDK of the test's own; the global one can be set only once in a process."""

    tracers: TracerProvider
    meters: MeterProvider
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    def instrument(self, app: Windlass) -> None:
        instrument(app, self.tracers, self.meters)

    def spans(self, name: str) -> list[ReadableSpan]:
        """Those that have ended, by when they did."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def points(self, name: str) -> dict[tuple[str, ...], float]:
        """The value, or the count, of each set of labels."""
        data = self.reader.get_metrics_data()
        assert data is not None
        found: dict[tuple[str, ...], float] = {}
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points if metric.name == name else ():
                        labels = tuple(str(value) for _, value in sorted((point.attributes or {}).items()))
                        found[labels] = float(getattr(point, "value", getattr(point, "count", 0)))
        return found


@pytest.fixture
def sdk() -> Iterator[Sdk]:
    tracers, exporter, reader = TracerProvider(), InMemorySpanExporter(), InMemoryMetricReader()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader])
    yield Sdk(tracers, meters, exporter, reader)
    tracers.shutdown()
    meters.shutdown()
