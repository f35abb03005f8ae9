"""The twins of a context's awaited methods for plain handlers, which run in threads: `ctx.blocking.step(…)`.

The function of a step runs in the handler's own thread. What it returned is written on the worker's loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

from windlass.core.durations import Duration
from windlass.endings import Retry
from windlass.running.emitting import RunStream
from windlass.running.port import LOOK_EVERY, Port, wait
from windlass.running.steps import (
    WAIT,
    Call,
    Form,
    StepKeywords,
    Steps,
    span,
    time_until,
)
from windlass.store.records import Step
from windlass.store.signal_rules import check_name

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Blocking:
    """Steps, sleeps, waits and events of a plain handler; see `Context.step`, `Context.sleep`, `Context.wait`
    and `Context.emit`."""

    __slots__ = ("_check", "_port", "_put", "_steps")

    def __init__(
        self, steps: Steps, port: Port, check: Callable[[], None], put: Callable[[Any], RunStream | None]
    ) -> None:
        self._steps = steps
        self._port = port
        self._check = check
        self._put = put

    @overload
    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def step(
        self,
        name: str,
        function: Callable[[Unpack[Ts]], T],
        /,
        *args: *Ts,
        **options: Unpack[StepKeywords],
    ) -> T: ...
    def step(  # type: ignore[misc]  # what a step may say, no function is handed
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        retry: Retry | None = None,
        type: Any = None,
        version: str | int | None = None,
        accepts: Sequence[str] = (),
        was: str | None = None,
        **kwargs: Any,
    ) -> T:
        """Run a function once and keep what it returns; see `Context.step`. It has no timeout of its own:
        nothing can stop a plain function. Raises Cancelled before it calls one for a run that should stop."""
        call = Call(
            name, function, args, kwargs,
            retry=retry, timeout=None, type=type, version=version, accepts=accepts, was=was,
        )  # fmt: skip
        numbered = self._steps.numbered(name)
        with self._counted():
            found = wait(self._port.loop, "blocking.step", lambda: self._steps.find(numbered, call))
            if found is not None:
                result: T = self._steps.read(found, call)
                return result
            value = self._tried(numbered, call)
            kept: T = wait(self._port.loop, "blocking.step", lambda: self._steps.save(numbered, call, value))
            return kept

    def _tried(self, name: str, call: Call) -> Any:
        """Call a function until it succeeds, as often as the step says."""
        failures = 0
        while True:
            self._check()
            try:
                with self._steps.running(name):
                    return call.function(*call.args, **call.kwargs)
            except Exception as error:
                failures += 1
                pause = call.pause(failures, error)
                if pause is None:
                    raise
            self._wait(pause)

    def _counted(self) -> AbstractContextManager[None]:
        return self._steps.counted(threading.current_thread())

    def sleep(self, delay: Duration) -> None:
        """Go on after a while; see `Context.sleep`."""
        lasts = span(delay)
        name = self._steps.numbered("sleep")
        with self._counted():
            left = wait(self._port.loop, "blocking.sleep", lambda: self._steps.sleep(name, lasts))
        self._suspend(left, name)

    def _wait(self, seconds: float) -> None:
        """Wait between two tries; raises Cancelled where the run should stop, or what ends it."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_EVERY))
            self._check()
            self._steps.check()

    def sleep_until(self, moment: datetime) -> None:
        """Go on at a moment; see `Context.sleep_until`."""
        self.sleep(time_until(moment))

    @overload
    def wait(self, name: str, *, timeout: Duration | None = None) -> Any: ...
    @overload
    def wait(self, name: str, *, timeout: Duration | None = None, type: type[T]) -> T: ...
    @overload
    def wait(self, name: str, *, timeout: Duration | None = None, type: Form) -> Any: ...
    def wait(self, name: str, *, timeout: Duration | None = None, type: Any = Any) -> Any:
        """Wait for a signal; see `Context.wait`."""
        check_name(name)
        lasts = None if timeout is None else span(timeout, f"wait({name!r}): timeout")
        numbered = self._steps.numbered(f"{WAIT}{name}")
        while True:
            with self._counted():
                found = wait(
                    self._port.loop, "blocking.wait", lambda: self._steps.ask(numbered, name, lasts, type)
                )
            if isinstance(found, Step):
                return self._steps.answer(found, name, type)
            self._suspend(found, numbered)

    def _suspend(self, left: float, name: str) -> None:
        """End the run once the steps in other threads have ended, or sleep where that is soon over."""
        wait(self._port.loop, "blocking.wait", lambda: self._steps.suspend(name, left))

    def emit(self, value: Any) -> None:
        """Append an event to the job's stream; see `Context.emit`."""
        full = self._put(value)
        if full is not None:
            wait(self._port.loop, "blocking.emit", full.room)
