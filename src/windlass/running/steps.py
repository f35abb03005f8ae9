"""The steps of one running job: each runs once, and its result is returned by every later attempt [W1].

A step is known by its name; where a handler uses a name again, in a loop say, the second is `name#2`, and so
on. Code between steps is run again by each attempt and may be anything. A sleep is a step that ends the run:
the job is put off until it is over, and holds neither a slot nor a lease meanwhile [W2]. So is a wait for a
signal. They let steps that run beside them come to their end first: what was begun is kept. So does the end
of a handler, however it ends: a step that went on would run beside itself in the next attempt.

Steps are read from the store once, by the first call that needs them; not at all where nobody can have run
the job before. A step has no steps of its own: they would not run again when it does not, and the numbers of
those behind it would be others.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, TypeVar, cast

from windlass.core.durations import Duration, seconds
from windlass.core.read_errors import READ_ERRORS
from windlass.endings import MAX_DELAY, Ending, Retry
from windlass.errors import (
    ConfigurationError,
    EnqueueError,
    InvalidOption,
    ResultInvalid,
    StepChanged,
    StoreError,
    WaitTimedOut,
)
from windlass.running.encoding import Decoder, decoder, encode, return_type, schema_of
from windlass.running.port import Port, runs_on
from windlass.store.records import TIMEOUT, ClaimedJob, Step, Wait

if TYPE_CHECKING:
    from typing import _SpecialForm

T = TypeVar("T")
MAX_NAME: Final = 200
NEXT_STEP_TURNS: Final = 5
"""Turns of the loop after the end of a step in which code behind it, in a gather say, begins the next one."""
WAIT: Final = "wait:"
"""Begins the names of steps that are waits, so that a step and a signal may be called alike."""
RESULTS: Final = "#results"
"""The step that keeps results of other jobs that a job was passed, so that it still has them after a sleep or
wait which is longer than they are kept."""
IN_PLACE: Final = 1.0
"""Seconds of a sleep that a run waits for itself: to put a job off and to take it up again costs more."""


Form: TypeAlias = "UnionType | _SpecialForm"
"""A type that is no class, such as `int | None`, for type checkers."""


class StepKeywords(TypedDict, total=False):
    """How a step runs, beside its arguments; see `Context.step`."""

    retry: Retry | None
    """How often it is tried within a run."""
    timeout: Duration | None
    """How long one try may take."""
    type: Any
    """The type of its result, where its function does not say."""
    version: str | int | None
    accepts: Sequence[str]
    was: str | None


class Suspended(BaseException):
    """Ends a run whose job goes on later. No failure: `except Exception` does not see it, and `finally` does.
    Let it pass."""

    def __init__(self, delay: float, names: Iterable[str]) -> None:
        self.delay: Final = delay
        waits = (each.removeprefix(WAIT) for each in names if each.startswith(WAIT))
        self.signals: Final = tuple(dict.fromkeys(each.partition("#")[0] for each in waits))
        """The waits that it ended with, by their signals; none: it sleeps."""
        super().__init__(f"the job goes on in {delay:g} s, or with its signal")


def ungrouped(error: BaseException) -> BaseException:
    """Return the error that matters out of a task group's: the sleep that ends first; where something has
    failed as well, that."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    sleeps, others = error.split(Suspended)
    if sleeps is None or others is not None:
        return others or error
    return min(_leaves(sleeps), key=lambda each: each.delay)


def _leaves(group: BaseExceptionGroup[Suspended]) -> Iterator[Suspended]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


class Call:
    """A step as its caller describes it."""

    __slots__ = (
        "_decoder",
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
        self.name: Final = name
        self.function: Final = function
        self.args: Final = args
        self.kwargs: Final = kwargs
        self.retry: Final = retry
        self.timeout: Final = None if timeout is None else span(timeout, f"step {name!r}, timeout")
        self.type: Final = return_type(function) if type is None else type
        self._decoder: Decoder | None = None
        self.version: Final = version
        self.accepts: Final = accepts
        self.was: Final = was

    @property
    def decoder(self) -> Decoder:
        """Reads its result. Raises ConfigurationError where its type cannot be read."""
        if self._decoder is None:
            self._decoder = decoder(self.type)
        return self._decoder

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
        """Return the seconds until it is tried again within this run; None: it has failed."""
        if self.retry is None or isinstance(error, Ending | StoreError) or failures >= self.retry.attempts:
            return None
        if self.retry.rules.refusal(error) is not None:
            return None
        return self.retry.backoff.delay(failures, random.random())


_inside: Final[ContextVar[tuple[object, str, bool] | None]] = ContextVar("windlass.step", default=None)
"""The step whose function runs here: whose it is, its name, whether it has a transaction."""


class Steps:
    """The steps of a run and of those before it. Lives on the worker's loop."""

    def __init__(self, job: ClaimedJob, port: Port) -> None:
        self._job = job
        self._port = port
        self._used: dict[str, int] = {}
        self._lock = threading.Lock()
        self._kept: dict[str, Step] | None = None
        self._read_at = 0.0
        self._turn = asyncio.Lock()
        self._running: list[object] = []
        """The runners of steps under way: tasks of the loop, threads of a plain handler, and calls of plain
        functions, each in a thread of its own."""
        self._changed = asyncio.Event()
        """One of them has ended, or the run has."""
        self._sleeps: dict[str, float] = {}
        """The sleeps under way, and when they are over, by the monotonic clock."""
        self._waited: set[str] = set()
        """Signals that were waited for before in this run. One that is not over by then, since the store's
        clock is slow or that of a test stands still, ends the run."""
        self._refusal: BaseException | None = None
        self._results: str | None = None
        """The results of other jobs that this run was passed, until they are kept."""

    def refuse(self, why: BaseException) -> None:
        """Begin no more steps: a call of one raises this."""
        self._refusal = why
        self._changed.set()

    def check(self) -> None:
        """Raise what a call of a step raises now, where no more of them begin."""
        if self._refusal is not None:
            raise self._refusal

    def close(self) -> None:
        """Begin no more steps, since the handler has ended."""
        self.refuse(asyncio.CancelledError(f"job {self._job.id} runs no more"))

    def go_on(self) -> None:
        """The handler has returned. Where the run was to end at a sleep or a wait, and the handler caught
        that, in a gather with return_exceptions say, it ends there all the same: raise it again."""
        if isinstance(self._refusal, Suspended):
            raise self._refusal

    def pass_results(self, results: str) -> None:
        """Take the results of other jobs, as JSON text."""
        self._results = results

    async def kept_results(self) -> str | None:
        """Return the results of other jobs that an earlier run has kept."""
        found = (await self._load()).get(RESULTS)
        return None if found is None else found.result

    async def _put_off(self, left: float) -> float:
        """Return `left`. Keep passed results if the run ends here: they may be gone when the job resumes."""
        if left > IN_PLACE and self._results is not None:
            await self.keep(Step(name=RESULTS, result=self._results, attempt=self._job.attempt))
            self._results = None
        return left

    def numbered(self, name: str) -> str:
        """The name of the next step that is called so. From any thread, in the order of the calls."""
        _check_name(name)
        self.check()
        if (outer := self.inside) is not None:
            raise ConfigurationError(
                f"task {self._job.task}, job {self._job.id}: {name!r} would be a step inside of step "
                f"{outer!r}; call the function itself there, or make them two steps of the handler"
            )
        with self._lock:
            times = self._used[name] = self._used.get(name, 0) + 1
        return name if times == 1 else f"{name}#{times}"

    @contextmanager
    def running(self, name: str, *, transaction: bool = False) -> Iterator[None]:
        """Around the function of a step, where it is called."""
        token = _inside.set((self, name, transaction))
        try:
            yield
        finally:
            _inside.reset(token)

    @property
    def inside(self) -> str | None:
        """The name of the step whose function the caller is; None between steps."""
        outer = _inside.get()
        return outer[1] if outer is not None and outer[0] is self else None

    @property
    def in_transaction(self) -> bool:
        """Return whether the caller is the function of a step that has a transaction."""
        outer = _inside.get()
        return outer is not None and outer[0] is self and outer[2]

    @contextmanager
    def counted(self, by: object) -> Iterator[None]:
        """Make the end of the run, and the sleeps beside it, wait for the end of a step, in any thread. `by`
        is what runs it: a task of the loop, or anything else that cannot be cancelled."""
        with self._lock:
            self.check()
            self._running.append(by)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(by)
            if runs_on(loop := self._port.loop):
                self._changed.set()
            else:
                with suppress(RuntimeError):  # the loop is closed, and nobody waits
                    loop.call_soon_threadsafe(self._changed.set)

    async def ended(self, by: object = None) -> None:
        """Wait until no step is under way; with `by`, none that this runs."""
        while self._running if by is None else by in self._running:
            self._changed.clear()
            await self._changed.wait()

    async def stop(self) -> None:
        """Cancel the steps that run on the loop, and wait for their end. A thread goes on [W1]."""
        for task in self._tasks():
            task.cancel()
        while self._tasks():
            self._changed.clear()
            await self._changed.wait()

    def _tasks(self) -> list[asyncio.Task[Any]]:
        return [each for each in self._running if isinstance(each, asyncio.Task)]

    async def pause(self, seconds: float) -> None:
        """Wait between two tries of a step. Raises where the run has ended meanwhile: no other begins."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._refusal is None:
                    self._changed.clear()
                    await self._changed.wait()
        self.check()

    async def find(self, name: str, call: Call) -> Step | None:
        """The step that is done already. Raises StepChanged where other code has done it, ConfigurationError
        where it is to be run and its result could not be read."""
        kept = await self._load()
        found = kept.get(name)
        if found is None and call.was is not None:
            found = kept.get(call.was + name[len(call.name) :])
        if found is None:
            _ = call.decoder  # a result that nobody can read is refused before it is made
            return None
        if found.code in (call.code, *call.accepts):
            return found
        if found.left is not None:
            raise StepChanged(
                f"task {self._job.task}, job {self._job.id}: {found.name!r} was a sleep, and is a step now; "
                "give the step another name to run it"
            )
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
            return call.decoder.decode(step.result)
        except READ_ERRORS as error:
            raise ResultInvalid(
                f"task {self._job.task}, job {self._job.id}: the result of step {step.name!r} does not fit "
                f"its type: {error}. The job keeps the result: deploy a type that takes it and retry the "
                "job, or replay it to begin anew"
            ) from error

    async def keep(self, step: Step) -> Step:
        """Write a step."""
        kept = await self._port.save_step(self._job, step)
        if self._kept is not None:
            self._kept[kept.name] = kept
        return kept

    async def sleep(self, name: str, delay: float) -> float:
        """Begin a sleep, or find it; the seconds that are left of it."""
        found = (await self._load()).get(name)
        if found is None:
            await self._put_off(delay)
            found = await self.keep(Step(name=name, attempt=self._job.attempt, sleep=min(delay, MAX_DELAY)))
            return max(found.left or 0.0, 0.0)
        if found.left is None:
            raise StepChanged(
                f"task {self._job.task}, job {self._job.id}: {name!r} was a step, done by {found.code}, and "
                "is a sleep now; give the step another name"
            )
        return max(found.left - (time.monotonic() - self._read_at), 0.0)

    async def suspend(self, name: str, left: float) -> None:
        """Wait for the steps that run beside this sleep or wait, and end the run then; where it is over
        before they are, return. The job goes on when the first of its sleeps and waits is over."""
        again = name in self._waited
        self._waited.add(name)
        self._sleeps[name] = over = time.monotonic() + left
        try:
            while again or (left := over - time.monotonic()) > 0:
                if await self._is_still(IN_PLACE if again else left):
                    first = min(self._sleeps.values()) - time.monotonic()
                    if first <= IN_PLACE and not again:
                        await asyncio.sleep(first)
                        continue
                    with self._lock:  # no thread begins a step in between
                        if self._refusal is None and not self._running:
                            self._refusal = Suspended(self._delay(), self._sleeps)
                    self.check()
        finally:
            del self._sleeps[name]

    def _delay(self) -> float:
        """Seconds until the first sleep is over. When a wait is the store knows, to the moment."""
        sleeps = [over for name, over in self._sleeps.items() if not name.startswith(WAIT)]
        return max(min(sleeps) - time.monotonic(), 0.0) if sleeps else MAX_DELAY

    async def _is_still(self, within: float) -> bool:
        """Return whether no step runs any more after `within` seconds at most."""
        try:
            async with asyncio.timeout(within):
                await self.ended()
        except TimeoutError:
            return False
        for _ in range(NEXT_STEP_TURNS):
            await asyncio.sleep(0)
        return not self._running

    async def ask(self, name: str, signal: str, timeout: float | None, type: Any) -> Step | float:
        """Return the end of a wait, or the seconds that are left of it [W2]."""
        found = (await self._load()).get(name)
        if found is not None:
            return found
        decoder(type)  # an answer that nobody could read is refused before anybody is asked
        asked = Wait(
            name=name,
            signal=signal,
            timeout=None if timeout is None else min(timeout, MAX_DELAY),
            attempt=self._job.attempt,
            shape=schema_of(type),
        )
        answer = await self._port.wait_for_signal(self._job, asked)
        if answer.step is None:
            return await self._put_off(MAX_DELAY if answer.left is None else max(answer.left, 0.0))
        (await self._load())[name] = answer.step
        return answer.step

    def answer(self, step: Step, signal: str, type: Any) -> Any:
        """The value of a signal that was waited for. Raises WaitTimedOut where it did not come in time."""
        if step.code == TIMEOUT:
            raise WaitTimedOut(f"signal {signal!r} did not come in time to job {self._job.id}", signal)
        try:
            return decoder(type).decode(step.result)
        except READ_ERRORS as error:
            raise ResultInvalid(
                f"task {self._job.task}, job {self._job.id}: the value of signal {signal!r} does not fit its "
                f"type: {error}. The job keeps the value: deploy a handler whose type takes it and retry the "
                "job, or replay it to begin anew"
            ) from error

    async def _load(self) -> dict[str, Step]:
        async with self._turn:
            if self._kept is None:
                self._read_at = time.monotonic()
                job = self._job
                # A part that runs again is a new job, with the steps of the one before it.
                fresh = job.attempt == 1 and job.deaths == 0 and job.ready_at == job.enqueued_at
                fresh = fresh and job.options.part is None
                found = [] if fresh else await self._port.steps(job)
                self._kept = {step.name: step for step in found}
            return self._kept


async def run(steps: Steps, call: Call) -> Any:
    """Run a step of an `async def` handler, or return what it returned before. A plain function runs in a
    thread."""

    async def once() -> Any:
        with steps.running(name):
            return await _called(steps, call)

    name = steps.numbered(call.name)
    with steps.counted(asyncio.current_task()):
        found = await steps.find(name, call)
        if found is not None:
            return steps.read(found, call)
        return await steps.save(name, call, await _tried(steps, call, once))


async def run_in_transaction(steps: Steps, call: Call, job: ClaimedJob, port: Port) -> Any:
    """Run a step in a transaction that its function works in and that makes it durable. The function is
    handed the connection before its own arguments; what fails is rolled back before it is tried again."""

    async def once() -> Step:
        made: list[Step] = []
        async with port.saving_step(job, lambda: made[0]) as connection:
            with steps.running(name, transaction=True):
                value = call.function(connection, *call.args, **call.kwargs)
                value = await value if inspect.isawaitable(value) else value
            made.append(steps.made(name, call, value))
        return made[0]

    name = steps.numbered(call.name)
    with steps.counted(asyncio.current_task()):
        found = await steps.find(name, call)
        if found is not None:
            return steps.read(found, call)
        return steps.read(await _tried(steps, call, once), call)


async def _tried(steps: Steps, call: Call, once: Callable[[], Awaitable[T]]) -> T:
    """Call a function until it succeeds, as often as the step says."""
    failures = 0
    while True:
        try:
            async with asyncio.timeout(call.timeout):
                return await once()
        except Exception as error:
            failures += 1
            pause = call.pause(failures, error)
            if pause is None:
                raise
        await steps.pause(pause)
        await steps.ended(call)  # a thread that has run into the timeout goes on


async def _called(steps: Steps, call: Call) -> Any:
    if inspect.iscoroutinefunction(inspect.unwrap(call.function)):
        return await call.function(*call.args, **call.kwargs)

    def function() -> Any:
        with steps.counted(call):
            return call.function(*call.args, **call.kwargs)

    value = await asyncio.to_thread(function)
    return await value if inspect.isawaitable(value) else value


def _check_name(name: object) -> None:
    is_name = isinstance(name, str) and 0 < len(name) <= MAX_NAME and not {"\0", "#"} & {*name}
    if not is_name or not _is_text(cast(str, name)):
        raise InvalidOption(
            f"{name!r} cannot be the name of a step: it is a text of 1 to {MAX_NAME} characters without '#'"
        )


def _is_text(name: str) -> bool:
    return name.isascii() or name.encode("utf-8", "ignore").decode() == name


def span(value: Duration, what: str = "a sleep") -> float:
    """A span of time in seconds. Raises ConfigurationError that says whose it is."""
    try:
        return seconds(value)
    except ValueError as error:
        raise ConfigurationError(f"{what}: {error}") from None


def time_until(moment: object) -> float:
    """Seconds until a moment, 0 where it has passed. Raises ConfigurationError for what is none."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ConfigurationError(f"sleep_until({moment!r}): write a datetime with a time zone")
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)
