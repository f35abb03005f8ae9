"""The context of a run: what its handler may know and do.

    @app.task
    async def load(ctx: Context, path: str) -> None:
        start = await ctx.asaved() or 0             # where the last attempt stopped
        for number, batch in read(path, start):
            await index(batch)
            await ctx.asave(number)                 # durable; refused when the job was lost [C5]

A handler asks for its context by annotating one parameter with `Context`, which is then no part of the
payload; `current_context()` finds the same one anywhere below the handler. Methods that begin with `a` are
awaited; their plain twins are for plain functions, which run in threads. The context talks to the worker that
runs the job through a `Port` and knows neither store nor engine.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from types import CoroutineType, MappingProxyType, TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    NoReturn,
    ParamSpec,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
    overload,
)

from windlass.core.durations import Duration
from windlass.core.states import Kind
from windlass.endings import Cancelled, Dead, Retry
from windlass.errors import ConfigurationError, EnqueueError, PayloadTooLarge
from windlass.running.blocking import Blocking
from windlass.running.checkpoints import Checkpoints
from windlass.running.emitting import MAX_EVENT, RunStream
from windlass.running.encoding import decode, encode
from windlass.running.port import Port, hop, runs_on, wait
from windlass.running.steps import (
    IN_PLACE,
    WAIT,
    Call,
    Form,
    StepKeywords,
    Steps,
    run,
    run_in_transaction,
    span,
    time_until,
)
from windlass.store.records import ClaimedJob, Outcome, Step
from windlass.store.signal_rules import check_name

if TYPE_CHECKING:
    from windlass.handles.budget import Budget
    from windlass.testing.context import TestContext, TestFields

__all__ = ["Context", "JobTransaction", "current_context", "entered"]

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
F = TypeVar("F", bound=Callable[..., Any])
logger: Final = logging.getLogger("windlass.job")
_current: Final[ContextVar[Context]] = ContextVar("windlass.context")


def _on_loop(method: F) -> F:
    """Refuse a plain handler as it calls and not as it awaits, which it never does: what it got would be a
    coroutine, which is true like a yes, and its wait would be over before it began [W2]. An `async def`
    handler that does not await is told as it returns: see `_returned`."""

    @functools.wraps(method)
    def called(self: Context, *args: Any, **kwargs: Any) -> Any:
        self._must_be_on_loop(method.__name__)
        coroutine = method(self, *args, **kwargs)
        calls = self._calls
        if calls is None:
            calls = self._calls = []
        while calls and not _is_unbegun(calls[-1]):  # one call is held for any number of tokens
            del calls[-1]
        calls.append(coroutine)
        return coroutine

    return cast(F, called)


def _is_unbegun(coroutine: CoroutineType[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


class Context:
    """One run of one job, as its handler sees it."""

    __slots__ = (
        "_calls",
        "_cancelled",
        "_checkpoints",
        "_emits",
        "_ended",
        "_job",
        "_logger",
        "_port",
        "_result",
        "_steps",
        "_transacting",
    )

    def __init__(self, job: ClaimedJob, port: Port) -> None:
        # One is made for each job, whether its handler asks or not: this must cost next to nothing.
        self._job = job
        self._port = port
        self._cancelled = self._ended = self._transacting = False
        self._checkpoints: Checkpoints | None = None
        self._emits: RunStream | None = None
        self._logger: logging.LoggerAdapter[logging.Logger] | None = None
        self._result: str | None = None
        self._steps: Steps | None = None
        self._calls: list[CoroutineType[Any, Any, Any]] | None = None
        """Coroutines that were called on the loop and may not have been awaited yet."""

    @staticmethod
    def for_test(task: str = "test.task", **fields: Unpack[TestFields]) -> TestContext:
        """A context for calling a task directly in a test; what it saves is kept in memory.

        `await load(Context.for_test(saved=3), "file")`; see `windlass.testing.context` for the fields.
        """
        from windlass.testing.context import TestContext

        return TestContext(task, fields)

    def __repr__(self) -> str:
        job = self._job
        attempt = f"attempt {job.attempt} of {job.options.max_attempts}"
        return f"<{type(self).__name__} of {job.task}, job {job.id}, {attempt}>"

    @property
    def _typical(self) -> bool:
        """Return whether the time this run takes says something about the next job of its queue."""
        return True

    # -- the job ----------------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        """The job's id, the same over all its attempts."""
        return self._job.id

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._job.task

    @property
    def queue(self) -> str:
        """The queue the job came from."""
        return self._job.queue

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._job.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts the job has before it is dead."""
        return self._job.options.max_attempts

    @property
    def last_attempt(self) -> bool:
        """Return whether the job is dead if this attempt fails."""
        return self._job.attempt >= self._job.options.max_attempts

    @property
    def deaths(self) -> int:
        """How many workers have died while they ran this job [C8]."""
        return self._job.deaths

    @property
    def fence(self) -> int:
        """The id of the claim this run belongs to, shared by no other run of the job [C5]."""
        return self._job.claim

    @property
    def worker(self) -> int:
        """The id of the worker that runs this."""
        return self._port.worker

    @property
    def enqueued_at(self) -> datetime:
        """When the job was enqueued, in UTC."""
        return datetime.fromtimestamp(self._job.enqueued_at, UTC)

    @property
    def tags(self) -> tuple[str, ...]:
        """The words the job can be found by."""
        return self._job.options.tags

    @property
    def headers(self) -> Mapping[str, str]:
        """The small texts that travel with the job."""
        return MappingProxyType(self._job.options.headers)  # read only: jobs may share the dict beneath

    @property
    def trace(self) -> str | None:
        """The W3C traceparent that this run continues."""
        return self._job.options.trace

    @property
    def parent(self) -> int | None:
        """The id of the parent that this job is a part or the finalizer of [P4]."""
        return None if self._job.options.part is None else self._job.options.part.parent

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """Logs as "windlass.job" with task and id before the message, and `job`, `task`, `queue` and
        `attempt` as extra fields."""
        if self._logger is None:
            job = self._job
            extra = {"job": str(job.id), "task": job.task, "queue": job.queue, "attempt": job.attempt}
            self._logger = _JobLogger(logger, extra)
        return self._logger

    # -- cancel -----------------------------------------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Return whether this run should stop: its cancel was requested, its time is up, or its worker must
        go.

        An `async def` handler is told by a CancelledError; a plain one has to look."""
        return self._cancelled

    def check(self) -> None:
        """Raise `windlass.Cancelled` if this run should stop. For the loops of plain functions [O5]."""
        if self._cancelled:
            raise Cancelled

    def _cancel(self) -> None:
        """For the engine, from any thread: this run should stop. Saying it again changes nothing [C7]."""
        self._cancelled = True

    # -- checkpoints ------------------------------------------------------------------------------------

    async def asaved(self) -> Any:
        """Return what was saved last, by this attempt or one before it; None if nothing was. Read from the
        store once."""
        return decode(await hop(self._port.loop, self._kept.saved()))

    def saved(self) -> Any:
        """Return what was saved last; see `asaved`."""
        return decode(wait(self._port.loop, "saved", self._kept.saved))

    async def asave(self, data: Any, *, done: int | None = None, total: int | None = None) -> None:
        """Make `data` (anything JSON can carry) durable for the next attempt, with `done` of `total` where
        they are told. Raises ClaimLost or WorkerLost when the job belongs to another worker now [C5]: let it
        pass. Raises InvalidPayload or InvalidOption, with nothing written, for what no store can keep."""
        text = self._encoded(data)
        await hop(self._port.loop, self._kept.save(text, done, total))

    def save(self, data: Any, *, done: int | None = None, total: int | None = None) -> None:
        """Make `data` durable for the next attempt; see `asave`."""
        text = self._encoded(data)
        wait(self._port.loop, "save", lambda: self._kept.save(text, done, total))

    async def aprogress(self, done: int, total: int | None = None) -> None:
        """Tell how far the job is. Saved data stays as it is.

        Call it as often as you like: it writes at most once a second, and always when `done` is `total`. A
        store that cannot be reached is logged and no error; ClaimLost and WorkerLost are raised."""
        if self._kept.is_due(done, total) and self._writable:
            await hop(self._port.loop, self._kept.progress(self.logger))

    def progress(self, done: int, total: int | None = None) -> None:
        """Tell how far the job is; see `aprogress`."""
        if self._kept.is_due(done, total) and self._writable:
            wait(self._port.loop, "progress", lambda: self._kept.progress(self.logger))

    async def _settle(self) -> None:
        """For the engine, on its loop: the handler has returned."""
        if self._checkpoints is not None and self._writable:
            await self._checkpoints.settle(self.logger)

    @property
    def _kept(self) -> Checkpoints:
        if self._checkpoints is None:
            self._checkpoints = Checkpoints(self._job, self._port)
        return self._checkpoints

    @property
    def _writable(self) -> bool:
        """Not once the job has ended; nor inside its transaction or that of a step, which on SQLite holds the
        write lock that the checkpoint would wait for."""
        if self._steps is not None and self._steps.in_transaction:
            return False
        return not (self._ended or self._transacting)

    def _encoded(self, data: Any) -> str:
        if not self._writable:
            raise RuntimeError(
                f"job {self.id} ends with its transaction: save before it, not in it or after"
                if self._ended or self._transacting
                else f"job {self.id} is in the transaction of a step, which keeps what its function returns"
            )
        return self._as_json("what save() was given", data)

    def _as_json(self, what: str, value: Any) -> str:
        try:
            return encode(value)
        except EnqueueError as error:
            raise type(error)(f"task {self.task}, job {self.id}: {what} {error}") from error.__cause__

    # -- budgets ------------------------------------------------------------------------------------------

    async def aspent(self, budget: str | Budget, tokens: int) -> None:
        """Say how many tokens of a budget this run really used, all in all: its bucket is corrected by the
        difference to what was taken when the job was claimed [F1]. More than there was leaves a debt, which
        is paid off before others get any; less comes back. Said again, the last word counts. A run that says
        nothing, or dies before, leaves what was taken.

        Raises InvalidOption where its task takes nothing of this budget, ClaimLost or WorkerLost when the job
        belongs to another worker now [C5]."""
        name = budget if isinstance(budget, str) else budget.name
        await hop(self._port.loop, self._port.spent(self._job, name, tokens))

    def spent(self, budget: str | Budget, tokens: int) -> None:
        """Say how many tokens of a budget this run really used; see `aspent`."""
        name = budget if isinstance(budget, str) else budget.name
        wait(self._port.loop, "spent", lambda: self._port.spent(self._job, name, tokens))

    # -- steps --------------------------------------------------------------------------------------------

    @overload
    async def step(
        self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step(
        self,
        name: str,
        function: Callable[[Unpack[Ts]], Awaitable[T]],
        /,
        *args: *Ts,
        transaction: Literal[False] = False,
        **options: Unpack[StepKeywords],
    ) -> T: ...
    @overload
    async def step(
        self,
        name: str,
        function: Callable[[Any, Unpack[Ts]], Awaitable[T]],
        /,
        *args: *Ts,
        transaction: Literal[True],
        **options: Unpack[StepKeywords],
    ) -> T: ...
    @overload
    async def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def step(
        self,
        name: str,
        function: Callable[[Unpack[Ts]], T],
        /,
        *args: *Ts,
        transaction: Literal[False] = False,
        **options: Unpack[StepKeywords],
    ) -> T: ...
    @overload
    async def step(
        self,
        name: str,
        function: Callable[[Any, Unpack[Ts]], T],
        /,
        *args: *Ts,
        transaction: Literal[True],
        **options: Unpack[StepKeywords],
    ) -> T: ...
    @_on_loop  # type: ignore[misc]  # what a step may say, no function is handed
    async def step(  # noqa: PLR0913 - what a step may say
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        type: Any = None,
        version: str | int | None = None,
        accepts: Sequence[str] = (),
        was: str | None = None,
        transaction: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Run a function once for this job, and keep what it returns: every later attempt is given that, and
        does not run it [W1].

            plan = await ctx.step("plan", make_plan, topic, retry=Retry(3), timeout="30s")

        The result is durable when this returns, and as JSON has it, read by `type` or the function's return
        annotation. A plain function runs in a thread. A step that fails is tried again as its own `retry`
        says, within this run; then its exception is the handler's. Steps may run side by side. A name that is
        used again numbers itself, in the order of the calls: "plan", "plan#2". Where that order is left to
        chance, name steps by what they are about: f"fetch {url}". A step has no steps of its own.

        A function may run twice where its worker died before the result was written, unless `transaction`
        is set: it is handed a connection as its first argument, in a transaction that makes the step durable
        together with what the function writes.

        A result belongs to the function that made it, by its name and by `version`. Where another function
        asks for it, after a deploy, StepChanged is raised; `accepts` names those whose results will do, and
        `was` the name that the step had before."""
        call = Call(
            name, function, args, kwargs,
            retry=retry, timeout=timeout, type=type, version=version, accepts=accepts, was=was,
        )  # fmt: skip
        if transaction:
            return await run_in_transaction(self._durable, call, self._job, self._port)
        return await run(self._durable, call)

    @_on_loop
    async def sleep(self, delay: Duration) -> None:
        """Go on after a while: the run ends here, and the job is run again when the time is over. Meanwhile
        it holds no slot, no lease and no memory, and no attempt is charged [W2].

        The handler begins anew then; its steps return at once what they returned before, and so does this.
        What ends the run is no Exception, so `except Exception` lets it pass. Steps that run beside a sleep
        end first. A sleep of a second or less is waited for in place."""
        lasts = span(delay)
        name = self._durable.numbered("sleep")
        with self._durable.counted(asyncio.current_task()):
            left = await self._durable.sleep(name, lasts)
        if left > IN_PLACE:
            await self._durable.suspend(name, left)
        else:
            await asyncio.sleep(left)

    @_on_loop
    async def sleep_until(self, moment: datetime) -> None:
        """Go on at a moment, a datetime with a time zone; see `sleep`."""
        await self.sleep(time_until(moment))

    @overload
    async def wait(self, name: str, *, timeout: Duration | None = None) -> Any: ...
    @overload
    async def wait(self, name: str, *, timeout: Duration | None = None, type: type[T]) -> T: ...
    @overload
    async def wait(self, name: str, *, timeout: Duration | None = None, type: Form) -> Any: ...
    @_on_loop
    async def wait(self, name: str, *, timeout: Duration | None = None, type: Any = Any) -> Any:
        """Wait for a signal to this job, and return its value, read by `type` [W2].

            answer = await ctx.wait("approved", timeout="7d", type=Approval)

        The run ends here, as in `sleep`, and the job is run again when `app.signal(job, "approved", value)`
        comes. Meanwhile it holds no slot, no lease and no memory. A signal that came before its wait was
        kept; of several of one name each wait takes the oldest. On later attempts this returns at once what
        it returned first. `timeout` counts from the first time it is asked, None means for ever; when it is
        over, WaitTimedOut is raised, now and on each later attempt. Uncaught, that ends the job dead."""
        check_name(name)
        lasts = None if timeout is None else span(timeout, f"wait({name!r}): timeout")
        numbered = self._durable.numbered(f"{WAIT}{name}")
        while True:
            with self._durable.counted(asyncio.current_task()):
                found = await self._durable.ask(numbered, name, lasts, type)
            if isinstance(found, Step):
                return self._durable.answer(found, name, type)
            await self._durable.suspend(numbered, found)

    # -- the stream ---------------------------------------------------------------------------------------

    @_on_loop
    async def emit(self, value: Any) -> None:
        """Append an event to the job's stream, for those who watch it run: text, or anything JSON can carry,
        up to 64 KiB [W3].

            async for token in answer:
                await ctx.emit(token)       # read by `async for event in job.events():`

        It does not wait for the store unless that is slow: what is emitted within some 20 ms is written
        together, in order, and all of it before the job's outcome. Events of an attempt that failed stay, and
        say which attempt they are from. Of a long stream the oldest are dropped (`stream_limit`).

        Raises ClaimLost or WorkerLost when the job belongs to another worker now [C5]: let it pass. Raises
        InvalidPayload or PayloadTooLarge for what no stream can keep."""
        full = self._put(value)
        if full is not None:
            await full.room()

    def _put(self, value: Any) -> RunStream | None:
        """Emit it, from any thread; the stream, where its room must be waited for."""
        if self._ended or self._transacting:
            raise RuntimeError(f"job {self.id} ends with its transaction: emit before it, not in it or after")
        text = self._as_json("what emit() was given", value)
        if len(text) > MAX_EVENT:
            raise PayloadTooLarge(
                f"task {self.task}, job {self.id}: an event takes {len(text):,} bytes as JSON and at most "
                f"{MAX_EVENT:,} are kept; emit it in pieces, or keep it elsewhere and emit its address"
            )
        if self._emits is None:
            self._emits = self._port.stream(self._job)
        return self._emits if self._emits.put(text) else None

    @property
    def blocking(self) -> Blocking:
        """Steps and waits for plain handlers: `ctx.blocking.step("plan", make_plan, topic)`, and so `sleep`,
        `sleep_until`, `wait` and `emit`."""
        return Blocking(self._durable, self._port, self.check, self._put)

    @property
    def _durable(self) -> Steps:
        if self._ended or self._transacting:
            raise RuntimeError(f"job {self.id} ends with its transaction: steps come before it, not in it")
        if self._steps is None:
            self._steps = Steps(self._job, self._port)
        return self._steps

    async def _returned(self) -> None:
        """For the engine, on its loop: the handler has returned. Raises Dead where it forgot an await, since
        what it did is done, and what ends this run where it has caught that [W2]."""
        if self._calls and not self._ended:
            if any(map(_is_unbegun, self._calls)):
                await asyncio.sleep(0)  # a task that the handler has made last has not begun yet
            forgotten = [each for each in self._calls if _is_unbegun(each)]
            for each in forgotten:
                each.close()
            if forgotten:
                name = forgotten[0].cr_code.co_name
                raise Dead(
                    f"its handler called ctx.{name}(…) and did not await it, so that was not done: write "
                    f"`await ctx.{name}(…)`, and replay the job"
                )
        if self._steps is not None and not self._ended:
            self._steps.go_on()

    def _refuse_steps(self, why: str) -> None:
        """For the engine: this handler can have none."""
        self._durable.refuse(ConfigurationError(why))

    @property
    def _is_on_loop(self) -> bool:
        return runs_on(self._port.loop)

    def _must_be_on_loop(self, name: str) -> None:
        if not self._is_on_loop:
            raise ConfigurationError(
                f"await ctx.{name}(…) is for `async def` handlers; a plain one writes ctx.blocking.{name}(…)"
            )

    # -- a transaction of the handler's own ---------------------------------------------------------------

    def transaction(self) -> JobTransaction:
        """End the job inside a database transaction of yours: data and outcome are committed together or
        not at all.

            async with ctx.transaction() as connection:     # asyncpg on PostgreSQL, apsw on SQLite
                await connection.execute("UPDATE …")
                ctx.result = 5   # the return value comes too late

        It raises ClaimLost or WorkerLost, and nothing is committed, when the job belongs to another worker
        now [C5]. What the handler does after the block cannot change how the job ended. For `async def`
        handlers only."""
        return JobTransaction(self)

    @property
    def ended(self) -> bool:
        """Return whether the job has ended with a transaction of its handler's: no other outcome is
        written."""
        return self._ended

    @property
    def result(self) -> Any:
        """The result that the transaction under way will keep, as JSON has it [O8]."""
        return decode(self._result)

    @result.setter
    def result(self, value: Any) -> None:
        if not self._transacting:
            raise RuntimeError(
                "ctx.result is set inside `async with ctx.transaction()`; elsewhere, return the value instead"
            )
        self._result = None if value is None else self._as_json("ctx.result", value)

    def _outcome(self) -> Outcome:
        return Outcome(job=self._job, kind=Kind.SUCCEEDED, result=self._result)


class JobTransaction:
    """The transaction that `ctx.transaction()` returns: `async with` it."""

    __slots__ = ("_context", "_inner")

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __aenter__(self) -> Any:
        context = self._context
        if context._ended or context._transacting:
            raise RuntimeError(f"job {context.id} can end only once: put all of it into one transaction")
        if not runs_on(context._port.loop):
            raise ConfigurationError(_ASYNC_ONLY)
        if context._emits is not None:
            await context._emits.settle()  # its end is final, and on SQLite nobody else can write meanwhile
        self._inner = context._port.transaction(context._job, context._outcome)
        connection = await self._inner.__aenter__()
        context._transacting, context._result = True, None
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        context = self._context
        try:
            swallowed = await self._inner.__aexit__(kind, error, trace)
        finally:
            context._transacting = False
        context._ended = error is None
        return swallowed

    def __enter__(self) -> NoReturn:
        # asyncpg's connection belongs to the worker's loop, and so does what guards SQLite's: neither can be
        # lent to a thread.
        raise ConfigurationError(_ASYNC_ONLY)

    def __exit__(self, *_: object) -> None: ...


def current_context() -> Context:
    """The context of the job that runs here, in `async def` handlers and in plain ones alike."""
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError(
            "no job runs here; call current_context() inside a handler, or pass what you need from there (a "
            "thread or process that the handler starts itself does not know the job)"
        ) from None


def entered(context: Context) -> None:
    """For the engine: from now on this is the current context, in this asyncio task and what it starts."""
    _current.set(context)


class _JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Says which job a line is about."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        about = self.extra or {}
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **about}
        return f"{about['task']} {about['job']}: {msg}", kwargs


_ASYNC_ONLY: Final = (
    "a job can end in a transaction of its own only on the worker's loop: make the handler `async def` and "
    "write `async with ctx.transaction() as connection:`"
)
