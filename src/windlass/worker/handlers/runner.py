"""One claimed job in, its outcome out [O1]. Knows tasks, hooks and policies, but neither store nor worker.

Whatever a handler does ends here: it returns, raises one of `windlass.endings`, raises anything else, or
cannot even be called because the payload does not fit. Each is an outcome of that job alone. Only
cancellation from outside passes through, since only the caller knows what it means; `timed_out` says what it
is where the caller's reason was the clock.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from windlass.codec import Codec
from windlass.core.counts import plural
from windlass.endings import Dead
from windlass.errors import WindlassError
from windlass.running.context import Context, entered
from windlass.running.encoding import decode
from windlass.running.failures import causes
from windlass.running.hooks import Hooks
from windlass.running.loopthread import cancelled_from_outside
from windlass.store.records import ClaimedJob, Need, Outcome
from windlass.tasks.task import RegisteredTask
from windlass.worker.handlers.error_outcomes import ErrorOutcomes, Policies, name
from windlass.worker.handlers.handler_call import HandlerCall
from windlass.worker.handlers.processes import Processes
from windlass.worker.handlers.result_arguments import payload_with_results
from windlass.worker.handlers.results import keep
from windlass.worker.handlers.threads import Threads

logger: Final = logging.getLogger("windlass.worker")

Tasks: TypeAlias = Mapping[str, RegisteredTask[..., Any]]
Observer: TypeAlias = Callable[[ClaimedJob, Outcome, BaseException | None], None]


class HandlerThreads(Protocol):
    """Where plain functions run."""

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call one, with this task's context, and await what it returns or raises."""

    def close(self) -> None:
        """No more calls will come."""


class Runner:
    """Runs jobs of known tasks: `async def` ones on this loop, plain ones in threads or processes.

    `observe` is told of every outcome, with the exception behind it if there was one. `interruptible` says
    that a KeyboardInterrupt is the user's and not a handler's.
    """

    def __init__(
        self,
        tasks: Tasks,
        policies: Policies,
        *,
        hooks: Hooks | None = None,
        observe: Observer | None = None,
        processes: Processes | None = None,
        threads: HandlerThreads | None = None,
        interruptible: bool = False,
    ) -> None:
        self.tasks = tasks
        self._errors = ErrorOutcomes(policies)
        self.poison: Final = policies.poison
        self.lease: Final = policies.lease
        self._hooks = hooks or Hooks()
        self._observe = observe
        self._interruptible = interruptible
        self.threads: Final = threads or Threads()
        self._pool = self.threads if isinstance(self.threads, Threads) else None
        self.processes: Final = processes or Processes()

    async def close(self) -> None:
        """Let idle threads end and stop the processes."""
        self.threads.close()
        await self.processes.close()

    @property
    def codec(self) -> Codec | None:
        """That of the app whose tasks these are."""
        return next((task.app.codec for task in self.tasks.values()), None)

    @property
    def needs(self) -> dict[str, list[Need]]:
        """Return the needs of the tasks that take tokens of budgets [F1]."""
        return {name: needs for name, task in self.tasks.items() if (needs := task.needs)}

    def batches(self) -> dict[str, int]:
        """By queue, how many jobs one of its tasks takes at once, where that is more than one."""
        found: dict[str, int] = {}
        for task in self.tasks.values():
            if task.batch_size > 1:
                found[task.queue] = max(task.batch_size, found.get(task.queue, 1))
        return found

    def pool_for(self, task: RegisteredTask[..., Any], job: ClaimedJob) -> Threads | None:
        """The threads that run this job without a task of the loop, by a `HandlerCall`: its handler is a
        plain function, there is no middleware, which awaits it, and nothing is to be read or waited for."""
        if task.mode != "thread" or self._hooks.middleware or job.options.results or job.starts_at:
            return None
        return self._pool

    def returned(self, call: HandlerCall) -> Outcome:
        """The outcome of an attempt that has ended well in its thread, with no checkpoint to settle."""
        job = call.run.job
        outcome = Outcome(job=job, result=call.value, run_ms=call.took * 1000.0)
        if self._observe is not None:
            self._observe(job, outcome, None)
        return outcome

    async def run(  # noqa: PLR0912 - one frame for all
        self, job: ClaimedJob, context: Context, call: HandlerCall | None = None
    ) -> Outcome:
        """Run one attempt to its end; with a `call`, that has ended in its thread, from there on. Raises
        CancelledError if, and only if, it is cancelled from outside."""
        task = self.tasks.get(job.task)
        if task is None:
            return self._errors.unknown_task(job)
        began = time.monotonic() if call is None else call.began
        try:
            if call is not None:
                result = call.result()
                if context._steps is not None and not context._ended:
                    context._steps.go_on()
            elif task.mode == "loop" and not self._hooks.middleware and not job.options.results:
                # The hot path: no frame that need not be there, since each costs a share of a short job.
                args, kwargs = task.decode(job.payload)
                if task.signature.context is not None:
                    kwargs[task.signature.context] = context
                entered(context)
                value = await task.function(*args, **kwargs)
                if context._calls is not None:
                    await context._returned()
                result = None if value is None else keep(value, task)
            else:
                result = keep(await self._call(task, job, context), task)
            if context._checkpoints is not None:
                await context._settle()
            outcome = Outcome(job=job, result=result, run_ms=(time.monotonic() - began) * 1000.0)
            if self._observe is not None:
                self._observe(job, outcome, None)
            return outcome
        except asyncio.CancelledError as cancelled:
            if cancelled_from_outside():
                raise
            return await self._raised(task, job, context, cancelled, began)
        except KeyboardInterrupt as interrupt:
            if self._interruptible:
                raise
            return await self._raised(task, job, context, interrupt, began)
        except GeneratorExit as closed:
            if asyncio.current_task() is None:
                raise  # nobody raised it: the loop is gone and takes this run along
            return await self._raised(task, job, context, closed, began)
        except BaseException as error:  # noqa: BLE001 - nobody else sees a job's error
            return await self._raised(task, job, context, error, began)

    async def run_batch(
        self, task: RegisteredTask[..., Any], jobs: Sequence[ClaimedJob], contexts: Sequence[Context]
    ) -> list[Outcome]:
        """Run one attempt of many jobs in one call of their handler, and say how each of them ended. Raises
        CancelledError as `run` does."""
        began = time.monotonic()
        answered: dict[int, Any] = {}
        items: list[Any] = []
        places: list[int] = []
        for place, job in enumerate(jobs):
            try:
                args, kwargs = task.decode(job.payload)
            except WindlassError as error:  # the others need not suffer
                answered[place] = error
            else:
                items.append(args[0] if args else next(iter(kwargs.values())))
                places.append(place)
        if items:
            try:
                answers = _each(
                    task.name, await self._call_with(task, items, contexts[places[0]]), len(items)
                )
            except asyncio.CancelledError as cancelled:
                if cancelled_from_outside():
                    raise
                answers = [cancelled] * len(items)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and self._interruptible:
                    raise
                answers = [error] * len(items)
            answered.update(zip(places, answers, strict=True))
        run_ms = (time.monotonic() - began) * 1000.0 / len(jobs)
        began = time.monotonic() - run_ms / 1000.0  # each has its share of the time, however it ended
        outcomes: list[Outcome] = []
        for place, job in enumerate(jobs):
            answer, kept = answered[place], None
            try:
                kept = None if isinstance(answer, BaseException) else keep(answer, task)
            except Dead as unfit:  # what it returned cannot be kept
                answer = unfit
            if isinstance(answer, BaseException):
                outcomes.append(await self._raised(task, job, contexts[place], answer, began))
                continue
            outcome = Outcome(job=job, result=kept, run_ms=run_ms)
            if self._observe is not None:
                self._observe(job, outcome, None)
            outcomes.append(outcome)
        return outcomes

    async def _call_with(self, task: RegisteredTask[..., Any], items: list[Any], context: Context) -> Any:
        async def call() -> Any:
            if task.is_async:
                return await task.function(items)
            return await self.threads.run(task.function, items)

        context._refuse_steps(
            f"task {task.name} runs many jobs in one call, and steps belong to one; enqueue a job for each "
            "from here, and let those have steps"
        )
        entered(context)
        return await (self._hooks.wrap(context, call) if self._hooks.middleware else call())

    async def timed_out(
        self, job: ClaimedJob, context: Context, limit: float, cancelled: BaseException, began: float
    ) -> Outcome:
        """The outcome of an attempt that its caller ended because it ran too long. `cancelled` is where it
        stood when it was told."""
        error = TimeoutError(f"ran longer than its timeout of {limit:g} s")
        error.__cause__ = cancelled
        return await self._raised(self.tasks[job.task], job, context, error, began)

    async def _call(self, task: RegisteredTask[..., Any], job: ClaimedJob, context: Context) -> Any:
        entered(context)
        if self._hooks.middleware:
            value = await self._hooks.wrap(context, lambda: self._handle(task, job, context))
        else:
            value = await self._handle(task, job, context)
        await context._returned()
        return value

    async def _handle(self, task: RegisteredTask[..., Any], job: ClaimedJob, context: Context) -> Any:
        handed = await payload_with_results(task, job, context) if job.options.results else None
        if task.mode == "process":
            return decode(await self.processes.run(task, handed or task.unsealed(job.payload)))
        args, kwargs = task.decode(job.payload) if handed is None else task.signature.decode(handed)
        if task.signature.context is not None:
            kwargs[task.signature.context] = context
        if task.mode == "loop":
            return await task.function(*args, **kwargs)
        return await self.threads.run(task.function, *args, **kwargs)

    async def _raised(
        self,
        task: RegisteredTask[..., Any],
        job: ClaimedJob,
        context: Context,
        error: BaseException,
        began: float,
    ) -> Outcome:
        if context._steps is not None:  # what the handler has left running begins no more
            context._steps.close()
        if context.ended:
            logger.warning(
                "%s raised after it had ended in its own transaction: %s", name(job), causes(error)
            )
            return Outcome(job=job)
        outcome = await self._errors.outcome(task, job, error)
        outcome = msgspec.structs.replace(outcome, run_ms=(time.monotonic() - began) * 1000.0)
        if outcome.error is not None:
            await self._hooks.failed(context, error, outcome)
        if self._observe is not None:
            self._observe(job, outcome, error)
        return outcome


def _each(task: str, answer: Any, n: int) -> list[Any]:
    """Return the answer of a batch's handler for each of its items."""
    if answer is None:
        return [None] * n
    if isinstance(answer, list | tuple) and len(answer) == n:
        return list(answer)
    raise TypeError(
        f"task {task} takes batches: it returns None, or a list with one entry for each of "
        f"{plural(n, 'item')}, not {type(answer).__name__}"
        + (f" of {len(answer)}" if isinstance(answer, list | tuple) else "")
    )
