"""Start and stop hooks, middleware and failure hooks [K9]: their order, and what becomes of their errors."""

import logging
from typing import Any

import pytest

from windlass import Context, Retry, Snooze, Windlass
from windlass.core.states import Kind
from windlass.errors import ConfigurationError
from windlass.running.hooks import CallNext
from windlass.store.records import Outcome


async def test_k9_hooks_start_in_order_and_stop_in_reverse(app: Windlass) -> None:
    seen: list[object] = []

    @app.on_start
    def first() -> None:
        seen.append("first")

    @app.on_start
    async def second(it: Windlass) -> None:
        it.state.pool = "open"
        seen.append(it)

    @app.on_stop
    async def close(it: Windlass) -> None:
        seen.append(it.state.pool)

    @app.on_stop
    def last() -> None:
        seen.append("last")

    await app.hooks.start()
    assert seen == ["first", app]
    seen.clear()
    await app.hooks.stop()
    assert seen == ["last", "open"]
    assert first is not None  # the decorator gives the function back
    first()


async def test_k9_a_failing_start_hook_stops_the_worker_and_closes_what_was_opened(app: Windlass) -> None:
    seen: list[str] = []
    app.on_start(lambda: seen.append("opened"))
    app.on_stop(lambda: seen.append("closed"))

    @app.on_start
    def broken() -> None:
        raise OSError("no such host")

    @app.on_start
    def never() -> None:
        seen.append("never")

    with pytest.raises(OSError, match="no such host") as caught:
        await app.hooks.start()
    assert "broken" in caught.value.__notes__[0]
    assert seen == ["opened", "closed"]


async def test_k9_a_failing_stop_hook_is_logged_and_the_others_run(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    app.on_stop(lambda: seen.append("closed"))

    @app.on_stop
    async def broken() -> None:
        raise OSError("gone")

    await app.hooks.stop()
    assert seen == ["closed"]
    assert "broken" in caplog.text
    assert "OSError: gone" in caplog.text


async def test_k9_the_first_middleware_is_the_outermost(app: Windlass) -> None:
    seen: list[str] = []
    assert not app.hooks.middleware

    @app.middleware
    async def outer(ctx: Context, call_next: CallNext) -> Any:
        seen.append(f"outer {ctx.task}")
        value = await call_next()
        seen.append("outer after")
        return value + 1

    @app.middleware
    async def inner(ctx: Context, call_next: CallNext) -> Any:
        seen.append("inner")
        return 10 * await call_next()

    async def handler() -> int:
        seen.append("handler")
        return 4

    assert list(app.hooks.middleware) == [outer, inner]
    assert await app.hooks.wrap(Context.for_test("mail.send"), handler) == 41
    assert seen == ["outer mail.send", "inner", "handler", "outer after"]


async def test_k9_middleware_may_raise_signals_and_sees_errors(app: Windlass) -> None:
    @app.middleware
    async def patient(ctx: Context, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except ConnectionError:
            raise Snooze("5m") from None

    async def handler() -> None:
        raise ConnectionError

    with pytest.raises(Snooze):
        await app.hooks.wrap(Context.for_test(), handler)


async def test_k9_an_object_with_an_async_call_is_middleware_too(app: Windlass) -> None:
    class Counter:
        """Counts runs."""

        seen = 0

        async def __call__(self, ctx: Context, call_next: CallNext) -> Any:
            self.seen += 1
            return await call_next()

    counter = app.middleware(Counter())

    async def handler() -> str:
        return "done"

    assert await app.hooks.wrap(Context.for_test(), handler) == "done"
    assert counter.seen == 1


async def test_k9_failure_hooks_hear_of_it_and_their_own_errors_are_swallowed(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[object] = []

    @app.on_failure
    def broken(ctx: Context, error: BaseException, outcome: Outcome) -> None:
        raise RuntimeError("tracker is down")

    @app.on_failure
    async def report(ctx: Context, error: BaseException, outcome: Outcome) -> None:
        seen.extend([ctx, error, outcome])

    ctx = Context.for_test(id=9)
    error = Retry()
    outcome = Outcome(job=ctx._job, kind=Kind.RETRY)
    with caplog.at_level(logging.ERROR):
        await app.hooks.failed(ctx, error, outcome)
    assert seen == [ctx, error, outcome]
    assert "tracker is down" in caplog.text
    assert "job 9" in caplog.text


def test_what_cannot_be_called_so_is_refused_when_registered(app: Windlass) -> None:
    anything: Any = app
    with pytest.raises(ConfigurationError, match="async def"):
        anything.middleware(lambda ctx, call_next: None)

    async def narrow(ctx: Context) -> None: ...
    def two(one: int, other: int) -> None: ...

    with pytest.raises(ConfigurationError, match=r"narrow\(ctx, call_next\)"):
        anything.middleware(narrow)
    with pytest.raises(ConfigurationError, match=r"two\(app\)"):
        anything.on_start(two)
    with pytest.raises(ConfigurationError, match=r"two\(ctx, error, outcome\)"):
        anything.on_failure(two)
    assert app.hooks.middleware == ()
