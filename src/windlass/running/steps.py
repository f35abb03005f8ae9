"""The steps of one running job: each runs once, and its result is returned by every later attempt [W1].

A step is known by its name; where a handler uses a name again, in a loop say, the second is `name#2`, and so
on. Code between steps is run again by each attempt and may be anything. A sleep is a step that ends the run:
the job is put off until it is over, and holds neither a slot nor a lease meanwhile [W2].

Steps are read from the store once, by the first call that needs them; not at all where nobody can have run
the job before.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
import time
import typing
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from windlass.core.durations import Duration, seconds
from windlass.errors import ConfigurationError, EnqueueError, InvalidOption, ResultInvalid, StepChanged
from windlass.running.encoding import decoder, encode
from windlass.running.port import Port
from windlass.signals import MAX_DELAY, Retry, Signal
from windlass.store.records import ClaimedJob, Step

MAX_NAME: Final = 200
IN_PLACE: Final = 1.0
"""Seconds of a sleep that a run waits for itself: to put a job off and to take it up again costs more."""


class Suspended(BaseException):
    """Ends a run whose job goes on later. No failure: `except Exception` does not see it, and `finally` does.
    Let it pass."""

    def __init__(self, delay: float) -> None:
        self.delay: Final = delay
        super().__init__(f"the job goes on in {delay:g} s")


class Call:
    """A step as its caller describes it."""

    __slots__ = (
        "accepts",
        "args",
        "function",
        "kwargs",
        "name",
        "retry",
        "timeout",
        "type",
        "version",
        "was",
    )

    def __init__(  # noqa: PLR0913 - what a step may say
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        *,
        retry: Retry | None,
        timeout: Duration | None,
        type: Any,
        version: str | int | None,
        accepts: Sequence[str],
        was: str | None,
    ) -> None:
        _check_name(name)
        if not callable(function):
            raise ConfigurationError(f"step {name!r} takes a function and its arguments, not {function!r}")
        self.name = name
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.retry = retry
        self.timeout = None if timeout is None else span(timeout, f"step {name!r}, timeout")
        self.type = return_type(function) if type is None else type
        self.version = version
        self.accepts = accepts
        self.was = was

    @property
    def code(self) -> str:
        """Which code makes the result: the function by its name, and the version where one is given. A hash
        of the code would change with every release of Python."""
        function = inspect.unwrap(self.function)
        while isinstance(function, functools.partial):
            function = function.func
        name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(function))}"
        return name if self.version is None else f"{name}@{self.version}"

    def pause(self, failures: int, error: Exception) -> float | None:
        """Seconds until it is tried again within this run, after so many failures; None: it has failed."""
        if self.retry is None or isinstance(error, Signal) or failures >= self.retry.attempts:
            return None
        return self.retry.backoff.delay(failures, random.random())


class Steps:
    """What a run has done of its job, and what those before it did. Lives on the worker's loop."""

    def __init__(self, job: ClaimedJob, port: Port) -> None:
        self._job = job
        self._port = port
        self._used: dict[str, int] = {}
        self._kept: dict[str, Step] | None = None
        self._read_at = 0.0
        self._turn = asyncio.Lock()

    def numbered(self, name: str) -> str:
        """The name of the next step that is called so. From any thread, in the order of the calls."""
        _check_name(name)
        times = self._used[name] = self._used.get(name, 0) + 1
        return name if times == 1 else f"{name}#{times}"

    async def find(self, name: str, call: Call | None = None) -> Step | None:
        """The step that is done already. Raises StepChanged where other code has done it."""
        kept = await self._load()
        found = kept.get(name)
        if found is None and call is not None and call.was is not None:
            found = kept.get(call.was)
        if found is None or call is None or found.code in (call.code, *call.accepts):
            return found
        raise StepChanged(
            f"task {self._job.task}, job {self._job.id}: step {found.name!r} was done by {found.code}, and "
            f"{call.code} asks for its result now. Give the step another name to run it, or write "
            f"accepts=({found.code!r},) to use the result"
        )

    async def save(self, name: str, call: Call, value: Any) -> Any:
        """Make what a step returned durable, and give it as every later attempt will have it."""
        step = self.made(name, call, value)
        return self.read(await self.keep(step), call)

    def made(self, name: str, call: Call, value: Any) -> Step:
        """The step that returned this."""
        try:
            text = encode(value)
        except EnqueueError as error:
            raise type(error)(
                f"task {self._job.task}, job {self._job.id}: what step {name!r} returned {error}"
            ) from error.__cause__
        return Step(name=name, result=text, code=call.code, attempt=self._job.attempt)

    def read(self, step: Step, call: Call) -> Any:
        """The result of a step, by its annotation."""
        try:
            return decoder(call.type).decode(step.result)
        except msgspec.ValidationError as error:
            raise ResultInvalid(
                f"task {self._job.task}, job {self._job.id}: the result of step {step.name!r} does not fit "
                f"its type: {error}"
            ) from error

    async def keep(self, step: Step) -> Step:
        """Write a step."""
        kept = await self._port.save_step(self._job, step)
        if self._kept is not None:
            self._kept[kept.name] = kept
        return kept

    async def sleep(self, name: str, delay: float) -> float:
        """Begin a sleep, or find it; the seconds that are left of it."""
        found = await self.find(name)
        if found is None:
            found = await self.keep(Step(name=name, attempt=self._job.attempt, sleep=min(delay, MAX_DELAY)))
            return max(found.left or 0.0, 0.0)
        return max((found.left or 0.0) - (time.monotonic() - self._read_at), 0.0)

    async def _load(self) -> dict[str, Step]:
        async with self._turn:
            if self._kept is None:
                self._read_at = time.monotonic()
                job = self._job
                fresh = job.attempt == 1 and job.deaths == 0 and job.ready_at == job.enqueued_at
                found = [] if fresh else await self._port.steps(job)
                self._kept = {step.name: step for step in found}
            return self._kept


async def run(steps: Steps, call: Call) -> Any:
    """Run a step of an `async def` handler, or return what it returned before. A plain function runs in a
    thread."""
    name = steps.numbered(call.name)
    found = await steps.find(name, call)
    if found is not None:
        return steps.read(found, call)
    failures = 0
    while True:
        try:
            async with asyncio.timeout(call.timeout):
                value = await _called(call)
        except Exception as error:
            failures += 1
            pause = call.pause(failures, error)
            if pause is None:
                raise
            await asyncio.sleep(pause)
        else:
            return await steps.save(name, call, value)


async def run_in_transaction(steps: Steps, call: Call, job: ClaimedJob, port: Port) -> Any:
    """The same with a transaction that its function works in and that makes the step durable. The function
    is handed the connection before its own arguments."""
    name = steps.numbered(call.name)
    found = await steps.find(name, call)
    if found is not None:
        return steps.read(found, call)
    made: list[Step] = []
    async with port.saving_step(job, lambda: made[0]) as connection:
        value = call.function(connection, *call.args, **call.kwargs)
        made.append(steps.made(name, call, await value if inspect.isawaitable(value) else value))
    return steps.read(made[0], call)


async def _called(call: Call) -> Any:
    if inspect.iscoroutinefunction(inspect.unwrap(call.function)):
        return await call.function(*call.args, **call.kwargs)
    value = await asyncio.to_thread(call.function, *call.args, **call.kwargs)
    return await value if inspect.isawaitable(value) else value


def return_type(function: Callable[..., Any]) -> Any:
    """What a function says that it returns; Any where it does not say."""
    try:
        return typing.get_type_hints(inspect.unwrap(function)).get("return", Any)
    except (NameError, TypeError):
        return Any


def _check_name(name: str) -> None:
    if not 0 < len(name) <= MAX_NAME or "\0" in name or "#" in name:
        raise InvalidOption(
            f"{name!r} cannot be the name of a step: it is a text of 1 to {MAX_NAME} characters without '#'"
        )


def span(value: Duration, what: str = "a sleep") -> float:
    """A span of time in seconds. Raises ConfigurationError that says whose it is."""
    try:
        return seconds(value)
    except ValueError as error:
        raise ConfigurationError(f"{what}: {error}") from None
