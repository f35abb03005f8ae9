"""Instruments that break: what is measured does not depend on its measure [M1]."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.context import Context as Above
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from windlass import Retry, State, Windlass
from windlass.contrib.otel import instrument
from windlass.errors import QueueFull


class Broken(SpanProcessor):
    """Raises where a span begins, or where it ends."""

    def __init__(self, where: str) -> None:
        self._where = where

    def on_start(self, span: Span, parent_context: Above | None = None) -> None:
        if self._where == "start":
            raise RuntimeError("the processor is closed")

    def on_end(self, span: ReadableSpan) -> None:
        if self._where == "end":
            raise RuntimeError("the exporter is closed")


class BrokenMeters(MeterProvider):
    """Gives out instruments that raise whatever they are told."""

    def get_meter(self, *args: Any, **options: Any) -> Any:
        class Raising:
            def create_counter(self, *args: Any) -> Any:
                return self

            create_histogram = create_counter

            def add(self, *args: Any) -> None:
                raise RuntimeError("the reader is closed")

            record = add

        return Raising()


@pytest.fixture(params=["start", "end", "metrics"])
def broken(app: Windlass, request: pytest.FixtureRequest) -> Iterator[Windlass]:
    tracers = TracerProvider()
    tracers.add_span_processor(Broken(request.param))
    meters = BrokenMeters() if request.param == "metrics" else MeterProvider()
    instrument(app, tracers, meters)
    yield app
    tracers.shutdown()
    meters.shutdown()


async def test_m1_jobs_are_enqueued_and_run_all_the_same(
    broken: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    @broken.task(name="count")
    async def count(n: int) -> int:
        ran.append(n)
        return n

    @broken.task(name="fail", retry=Retry(1))
    async def fail() -> None:
        raise ValueError("as it should")

    jobs = [await count.aenqueue(1), count.enqueue(2)]
    failing = await fail.aenqueue()
    await broken.arun_until_idle()
    assert sorted(ran) == [1, 2]
    records = [await job.arecord() for job in jobs]
    assert [(record.state, record.attempt) for record in records] == [(State.SUCCEEDED, 1)] * 2
    assert (await failing.arecord()).errors[-1].message == "as it should"
    messages = [record for record in caplog.records if record.name == "windlass.otel"]
    assert [record.levelno for record in messages] == [logging.WARNING]  # once in a while


async def test_m1_a_refusal_is_told_as_it_is(broken: Windlass) -> None:
    @broken.task(name="full", queue="full")
    async def full() -> None: ...

    await broken._store_handle().acall(lambda store: store.set_queue("full", {"max_depth": 1}))
    await full.aenqueue()
    with pytest.raises(QueueFull):
        await full.aenqueue()
