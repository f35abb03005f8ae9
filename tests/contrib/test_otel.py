"""One trace from the enqueue through retries to the parts of a parent, and what is counted [M1]."""

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags, TraceState

from tests.contrib.conftest import Sdk
from windlass import Context, Dead, Items, Part, Retry, Snooze, SourceGone, State, Windlass
from windlass.contrib.otel import instrument
from windlass.errors import QueueFull

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def of(span: ReadableSpan) -> tuple[int, int | None]:
    """The trace of a span, and the span above it."""
    return span.context.trace_id, span.parent.span_id if span.parent is not None else None


def attribute(span: ReadableSpan, name: str) -> object:
    return (span.attributes or {}).get(name)


async def test_m1_a_run_continues_the_trace_of_its_enqueue(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)

    @app.task(name="mail.send", queue="mail")
    async def send(to: str) -> None:
        trace.get_current_span().set_attribute("to", to)

    job = await send.aenqueue("a@b.c")
    await app.arun_until_idle()

    (enqueue,), (run,) = sdk.spans("enqueue mail.send"), sdk.spans("run mail.send")
    assert (enqueue.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert of(run) == (enqueue.context.trace_id, enqueue.context.span_id)
    assert attribute(run, "to") == "a@b.c"  # a handler finds the span of its run
    assert attribute(run, "windlass.outcome") == "succeeded"
    for span in (enqueue, run):
        assert attribute(span, "messaging.destination.name") == "mail"
        assert attribute(span, "messaging.message.id") == str(job.id)


async def test_m1_every_attempt_is_a_run_of_the_same_trace(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)

    @app.task(name="flaky", retry=Retry(3, base="1ms"))
    def flaky(context: Context) -> None:
        if context.attempt < 3:
            raise ValueError(f"attempt {context.attempt}")

    flaky.enqueue()
    await app.arun_until_idle(wait="1s")

    (enqueue,) = sdk.spans("enqueue flaky")
    runs = sdk.spans("run flaky")
    assert [of(run) for run in runs] == [(enqueue.context.trace_id, enqueue.context.span_id)] * 3
    assert [attribute(run, "windlass.attempt") for run in runs] == [1, 2, 3]
    assert [attribute(run, "windlass.outcome") for run in runs] == ["retry", "retry", "succeeded"]
    assert [run.status.status_code for run in runs] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    assert [event.name for event in runs[0].events] == ["exception"]
    assert "attempt 1" in str(runs[0].status.description)


async def test_m1_how_a_run_ended(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)
    ends = [Snooze("1h"), SourceGone("no such row"), Dead("never"), ValueError("the last attempt")]

    @app.task(name="ends", retry=Retry(1))
    async def end(n: int) -> None:
        raise ends[n]

    for n in range(len(ends)):
        await end.aenqueue(n)
    await app.arun_until_idle(concurrency=1)
    runs = sdk.spans("run ends")
    assert [attribute(run, "windlass.outcome") for run in runs] == ["snooze", "succeeded", "dead", "dead"]
    assert [run.status.status_code is StatusCode.ERROR for run in runs] == [False, False, True, True]


async def test_m1_what_a_handler_enqueues_is_of_its_trace(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)

    @app.task(name="second")
    async def second() -> None: ...

    @app.task(name="in.thread")
    def in_thread() -> None:
        second.enqueue()

    @app.task(name="on.loop")
    async def on_loop() -> None:
        await second.aenqueue()

    for first in ("in.thread", "on.loop"):
        await app.named(first).aenqueue()
        await app.arun_until_idle()
        (run,) = sdk.spans(f"run {first}")
        enqueue, last = sdk.spans("enqueue second")[-1], sdk.spans("run second")[-1]
        assert of(enqueue) == (run.context.trace_id, run.context.span_id)
        assert of(last) == (run.context.trace_id, enqueue.context.span_id)


async def test_m1_a_whole_import_is_one_trace(any_app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(any_app)

    @any_app.chunked(name="load", split=Items([1, 2, 3], 1))
    async def load(part: Part) -> None: ...

    @load.finalizer
    async def done() -> None: ...

    with sdk.tracers.get_tracer("caller").start_as_current_span("request") as request:
        parent = await load.aenqueue()
    await any_app.arun_until_idle(wait="1s")

    runs = sdk.spans("run load")
    assert {run.context.trace_id for run in runs} == {request.get_span_context().trace_id}
    assert [attribute(run, "windlass.outcome") for run in runs] == ["split"] + ["succeeded"] * 4
    assert sorted(str(attribute(run, "windlass.part")) for run in runs) == ["-1", "0", "1", "2", "None"]
    assert {attribute(run, "windlass.parent") for run in runs[1:]} == {str(parent.id)}


def test_m1_jobs_in_the_callers_transaction_carry_their_trace(pg_dsn: str, sdk: Sdk) -> None:
    with Windlass(pg_dsn) as app, psycopg.connect(pg_dsn) as connection:
        sdk.instrument(app)

        @app.task(name="note", queue="notes")
        def note() -> None: ...

        note.using(connection=connection).enqueue()
        connection.rollback()
        note.using(connection=connection).enqueue_many([(), ()])
        connection.commit()
        app.run_until_idle(wait="1s")

    _, enqueue = sdk.spans("enqueue note")
    assert attribute(enqueue, "messaging.batch.message_count") == 2
    runs = sdk.spans("run note")
    assert [of(run) for run in runs] == [(enqueue.context.trace_id, enqueue.context.span_id)] * 2


async def test_m1_a_trace_given_by_hand_is_kept(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)

    @app.task(name="given")
    async def given() -> None: ...

    await given.using(trace=TRACE).aenqueue()
    await app.arun_until_idle()
    (run,) = sdk.spans("run given")
    assert of(run) == (int(TRACE[3:35], 16), int(TRACE[36:52], 16))


async def test_m1_nonsense_in_place_of_a_trace_begins_a_new_one(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)

    @app.task(name="odd")
    async def odd() -> None: ...

    await odd.using(trace="no trace", headers={"tracestate": "\x01=,,"}).aenqueue()
    await app.arun_until_idle()
    (run,) = sdk.spans("run odd")
    assert run.parent is None


async def test_m1_a_tracestate_travels_as_a_header(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)
    seen: list[dict[str, str]] = []

    @app.task(name="stated")
    async def stated(context: Context) -> None:
        seen.append(dict(context.headers))

    above = trace.NonRecordingSpan(
        SpanContext(1, 2, True, TraceFlags(TraceFlags.SAMPLED), TraceState([("vendor", "x")]))
    )
    with trace.use_span(above):
        await stated.using(headers={"mine": "yes"}).aenqueue()
    await app.arun_until_idle()
    (run,) = sdk.spans("run stated")
    assert seen == [{"mine": "yes", "tracestate": "vendor=x"}]
    assert (run.context.trace_id, run.context.trace_state.get("vendor")) == (1, "x")


async def test_m1_an_enqueue_that_is_refused_shows_why(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)

    @app.task(name="full", queue="full")
    async def full() -> None: ...

    await app._store_handle().acall(lambda store: store.set_queue("full", {"max_depth": 1}))
    await full.aenqueue()
    with pytest.raises(QueueFull):
        await full.aenqueue()
    assert sdk.spans("enqueue full")[-1].status.status_code is StatusCode.ERROR
    assert sdk.points("windlass.enqueued") == {("full", "full"): 1}


async def test_m1_what_is_counted(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)

    @app.task(name="count", queue="counts", retry=Retry(1))
    async def count(fails: bool) -> None:
        if fails:
            raise ValueError("no")

    await count.aenqueue_many([(False,), (False,), (True,)])
    await app.arun_until_idle()
    assert sdk.points("windlass.enqueued") == {("counts", "count"): 3}
    assert sdk.points("windlass.outcomes") == {
        ("succeeded", "counts", "count"): 2,
        ("dead", "counts", "count"): 1,
    }
    assert sdk.points("windlass.run.duration") == {("counts", "count"): 3}
    assert sdk.points("windlass.wait.duration") == {("counts", "count"): 3}


async def test_m1_instrumenting_twice_does_nothing_more(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)
    sdk.instrument(app)

    @app.task(name="once")
    async def once() -> None: ...

    await once.aenqueue()
    await app.arun_until_idle()
    assert (len(sdk.spans("enqueue once")), len(sdk.spans("run once"))) == (1, 1)


async def test_m1_without_an_sdk_nothing_changes(app: Windlass) -> None:
    instrument(app)

    @app.task(name="plain")
    async def plain() -> None: ...

    job = await plain.aenqueue()
    assert (await app.arun_until_idle()).succeeded == 1
    record = await job.arecord()
    assert (record.state, record.options.trace) == (State.SUCCEEDED, None)


async def test_m1_jobs_in_a_test_mode_are_traced_too(app: Windlass, sdk: Sdk) -> None:
    sdk.instrument(app)

    @app.task(name="tested")
    async def tested() -> None: ...

    with app.testing(inline=True):
        await tested.aenqueue()
    (enqueue,), (run,) = sdk.spans("enqueue tested"), sdk.spans("run tested")
    assert of(run) == (enqueue.context.trace_id, enqueue.context.span_id)
