"""A collector that dies or hangs neither slows nor stops jobs [M1]: real spans, the real exporter over HTTP,
and at its other end a port where nobody listens, or a socket that is accepted and never answered."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.stopwatch import Stopwatch
from windlass import Windlass
from windlass.contrib import otel

JOBS = 300


@contextlib.contextmanager
def nobody() -> Iterator[int]:
    """A port that refuses connections."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield closed.getsockname()[1]


@contextlib.contextmanager
def silence() -> Iterator[int]:
    """A port where every connection is accepted, read, and never answered."""
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(server.accept()[0])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            assert accepted, "the exporter never came"
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in accepted:
                connection.close()


async def seconds_for(app: Windlass) -> tuple[float, float]:
    """How long a worker takes for the jobs, and then to stop."""

    @app.task(name="quick")
    async def quick(n: int) -> int:
        return n

    async with app.worker():
        began = time.monotonic()
        jobs = [await quick.aenqueue(n) for n in range(JOBS)]
        assert await jobs[-1].aresult(timeout="30s") == JOBS - 1
        stopping = time.monotonic()
    return stopping - began, time.monotonic() - stopping


@pytest.mark.parametrize("collector", [nobody, silence])
async def test_m1_a_dead_or_hanging_collector_costs_jobs_nothing(
    collector: Callable[[], contextlib.AbstractContextManager[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otel, "FLUSH_TIME", 0.3)
    with Windlass("sqlite:///:memory:") as plain:
        alone, _ = await seconds_for(plain)
    with Windlass("sqlite:///:memory:") as app, collector() as port:
        tracers = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces")
        # Small batches, sent at once: the exporter is at it, and stuck, while the jobs run.
        processor = BatchSpanProcessor(exporter, schedule_delay_millis=1, max_export_batch_size=16)
        tracers.add_span_processor(processor)
        otel.instrument(app, tracers)
        try:
            watch = Stopwatch()
            traced, stop = await seconds_for(app)
            lost = watch.lost()
        finally:
            exporter.shutdown()  # type: ignore[no-untyped-call]
    assert traced < alone * 5 + 1 + lost, (
        f"{JOBS} jobs took {traced:.2f} s with a collector, {alone:.2f} s without"
    )
    assert stop < 0.3 + 2 + lost, f"the worker took {stop:.2f} s to stop"
