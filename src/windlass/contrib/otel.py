"""OpenTelemetry: one trace from the enqueue through every attempt to the parts of a parent, and metrics [M1].

    from windlass.contrib.otel import instrument

    instrument(app)     # once, beside the app; the providers are those of your OpenTelemetry set-up

An enqueue is a PRODUCER span. Its context travels with the job (`options.trace`, a W3C traceparent; a
tracestate as the header of that name), so every run is a CONSUMER span below it, in whatever process: retries
with their attempt, parts and finalizers of a parent, and what a handler enqueues in turn.

Spans and metrics are handed to the SDK and nothing waits for them. Export them with a BatchSpanProcessor: it
sends from a thread of its own and drops what finds no room, so a collector that dies or hangs costs no job
anything. (A SimpleSpanProcessor sends while the job waits.) A worker that stops gives the SDK two seconds to
send what is left. What a processor, a sampler or an exporter raises is logged, once a minute, and changes
nothing for the job.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from opentelemetry import metrics, trace
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from windlass import __version__
from windlass.endings import Cancelled, Dead, Snooze, SourceGone, Throttled
from windlass.running.context import Context
from windlass.running.hooks import WARN_EVERY, CallNext, Sending
from windlass.running.outages import OutageLog
from windlass.store.fields import MAX_HEADERS
from windlass.store.records import NewJob, Options
from windlass.tasks.options import MAX_HEADER

if TYPE_CHECKING:
    from windlass.app import Windlass

logger: Final = logging.getLogger("windlass.otel")
FLUSH_TIME: Final = 2.0
"""Seconds that a stopping worker gives the SDK to send what is left."""

_STATE: Final = "tracestate"
_PARENT: Final = "traceparent"
_propagator: Final = TraceContextTextMapPropagator()
_instrumented: Final[weakref.WeakSet[Windlass]] = weakref.WeakSet()
_WELL: Final = {SourceGone: "succeeded", Snooze: "snooze", Throttled: "throttled", Cancelled: "cancelled"}
"""Endings that a handler raises though nothing has failed."""


def instrument(
    app: Windlass,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> None:
    """Make spans and metrics of everything this app enqueues and runs. Without providers, the global ones are
    used. Doing it again for the same app does nothing."""
    if app in _instrumented:
        return
    _instrumented.add(app)
    instrument = _Instrument(tracer_provider, meter_provider)
    app.hooks.around_enqueue(instrument.enqueue)
    app.middleware(instrument.run)
    app.on_stop(instrument.flush)


class _Instrument:
    """The hooks of one app's instrument."""

    def __init__(
        self, tracer_provider: trace.TracerProvider | None, meter_provider: metrics.MeterProvider | None
    ) -> None:
        self._providers: tuple[Any, Any] = (tracer_provider, meter_provider)
        self._outages = OutageLog(logger, WARN_EVERY)
        self._tracer = trace.get_tracer("windlass", __version__, tracer_provider)
        meter = metrics.get_meter("windlass", __version__, meter_provider)
        self._enqueued = meter.create_counter("windlass.enqueued", "{job}", "Jobs enqueued.")
        self._outcomes = meter.create_counter("windlass.outcomes", "{run}", "Runs, by how they ended.")
        self._runs = meter.create_histogram("windlass.run.duration", "s", "How long runs took.")
        self._waits = meter.create_histogram(
            "windlass.wait.duration", "s", "How long jobs had been ready when they were started."
        )

    @contextmanager
    def enqueue(self, sending: Sending) -> Iterator[None]:
        """A span around one call that makes jobs, whose context they carry."""
        first = sending.jobs[0]
        about = _operation("send", "enqueue", first)
        if len(sending.jobs) > 1:
            about["messaging.batch.message_count"] = len(sending.jobs)
        with self._span(f"enqueue {first.task}", None, SpanKind.PRODUCER, about, notes_errors=True) as span:
            with self._unharmed():
                sending.jobs = _carrying(sending.jobs)
            yield
            with self._unharmed():
                if len(sending.receipts) == 1:
                    span.set_attribute("messaging.message.id", str(sending.receipts[0].id))
                    span.set_attribute("windlass.status", sending.receipts[0].status)
        with self._unharmed():
            self._enqueued.add(len(sending.jobs), {"queue": first.queue, "task": first.task})

    async def run(self, context: Context, call_next: CallNext) -> Any:
        """A span around one run, which continues the trace that the job carries."""
        labels = {"queue": context.queue, "task": context.task}
        ready_at = context._job.ready_at
        if ready_at:
            with self._unharmed():
                self._waits.record(max(0.0, time.time() - ready_at), labels)
        began = time.monotonic()
        outcome = "interrupted"  # from outside: its time is up, it was cancelled, or the worker must go
        with self._span(
            f"run {context.task}", _carried(context), SpanKind.CONSUMER, _about(context), notes_errors=False
        ) as span:
            try:
                value = await call_next()
                outcome = "split" if context._job.options.chunked else "succeeded"
                return value
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                outcome = _outcome(error, context)
                if not isinstance(error, tuple(_WELL)):
                    with self._unharmed():
                        span.record_exception(error)
                        span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
                raise
            finally:
                with self._unharmed():
                    span.set_attribute("windlass.outcome", outcome)
                    self._outcomes.add(1, {**labels, "outcome": outcome})
                    self._runs.record(time.monotonic() - began, labels)

    @contextmanager
    def _span(
        self, name: str, above: Any, kind: SpanKind, about: dict[str, str | int], *, notes_errors: bool
    ) -> Iterator[Span]:
        """A span around a block, or none where the SDK fails. `notes_errors`: with what it raises."""
        span = self._started(name, above, kind, about)
        if span is None:
            yield INVALID_SPAN
            return
        try:
            with trace.use_span(span, record_exception=notes_errors, set_status_on_exception=notes_errors):
                yield span
        finally:
            with self._unharmed():
                span.end()

    def _started(self, name: str, above: Any, kind: SpanKind, about: dict[str, str | int]) -> Span | None:
        try:
            return self._tracer.start_span(name, context=above, kind=kind, attributes=about)
        except Exception as error:  # noqa: BLE001 - as in _unharmed
            self._broken(error)
            return None

    @contextmanager
    def _unharmed(self) -> Iterator[None]:
        """Around what the SDK does: its processors, samplers and exporters are anybody's code."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - told; what is measured must not depend on its measure
            self._broken(error)

    def _broken(self, error: Exception) -> None:
        message = "a trace or metric could not be made; the jobs go on without"
        self._outages.failed("instruments", message, error=error)

    async def flush(self) -> None:
        """Have the SDK send what is left, for so long and no longer."""
        loop, sent = asyncio.get_running_loop(), asyncio.Event()

        def count() -> None:
            try:
                loop.call_soon_threadsafe(sent.set)
            except RuntimeError:
                return  # the worker has left without us

        def work() -> None:
            given_tracer, given_meter = self._providers
            try:
                for provider in (
                    given_tracer or trace.get_tracer_provider(),
                    given_meter or metrics.get_meter_provider(),
                ):
                    force_flush = getattr(provider, "force_flush", None)  # the API alone has none
                    if force_flush is not None:
                        force_flush(int(FLUSH_TIME * 1000))
            except Exception:
                logger.exception("the last traces and metrics could not be sent")
            finally:
                count()

        # A thread that nobody waits for: exporters heed no timeout, and one may hang for as long as it likes.
        threading.Thread(target=work, name="windlass-otel-flush", daemon=True).start()
        try:
            await asyncio.wait_for(sent.wait(), FLUSH_TIME)
        except TimeoutError:
            logger.warning("traces and metrics were not sent within %g s and may be lost", FLUSH_TIME)


def _operation(kind: str, name: str, job: NewJob | Context) -> dict[str, str | int]:
    """Return the attributes that spans of enqueues and runs share."""
    return {
        "messaging.system": "windlass",
        "messaging.operation.type": kind,
        "messaging.operation.name": name,
        "messaging.destination.name": job.queue,
        "windlass.task": job.task,
    }


def _about(context: Context) -> dict[str, str | int]:
    about: dict[str, str | int] = {
        **_operation("process", "run", context),
        "messaging.message.id": str(context.id),
        "windlass.attempt": context.attempt,
        "windlass.max_attempts": context.max_attempts,
    }
    part = context._job.options.part
    if part is not None:
        about["windlass.parent"] = str(part.parent)
        about["windlass.part"] = part.index
    return about


def _outcome(error: BaseException, context: Context) -> str:
    """How the run ends, as the worker will judge it."""
    for kind, outcome in _WELL.items():
        if isinstance(error, kind):
            return outcome
    return "dead" if isinstance(error, Dead) or context.last_attempt else "retry"


def _carrying(jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs with the context of the present span. One that carries a trace already keeps it."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    if _PARENT not in carrier:
        return list(jobs)
    # Jobs of one call mostly share their options.
    known: dict[int, Options] = {}
    carrying: list[NewJob] = []
    for job in jobs:
        options = known.get(id(job.options))
        if options is None:
            options = known[id(job.options)] = _with_trace(job.options, carrier)
        carrying.append(msgspec.structs.replace(job, options=options))
    return carrying


def _with_trace(options: Options, carrier: dict[str, str]) -> Options:
    if options.trace is not None:
        return options
    state = carrier.get(_STATE, "")
    fits = 0 < len(state) <= MAX_HEADER and len(options.headers) < MAX_HEADERS
    if fits and _STATE not in options.headers:
        headers = {**options.headers, _STATE: state}
        return msgspec.structs.replace(options, trace=carrier[_PARENT], headers=headers)
    return msgspec.structs.replace(options, trace=carrier[_PARENT])


def _carried(context: Context) -> Any:
    """The trace that a job carries, on top of nothing: what the worker does is no part of it."""
    from opentelemetry.context import Context as Empty

    carrier = {}
    if context.trace is not None:
        carrier[_PARENT] = context.trace
    if _STATE in context.headers:
        carrier[_STATE] = context.headers[_STATE]
    return _propagator.extract(carrier, context=Empty())
