"""A chunked task: a function that works on parts, a splitter that makes them, and perhaps a finalizer [P9].

A job of such a task runs three times over, each time through `function`: first it is split and so becomes a
parent, then each of its parts runs the handler, and when all have ended its finalizer runs. Which of these a
run is, its job says (`options.part`). What happens between them is the store's: see `Store.split`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, ParamSpec, TypeVar, cast

import msgspec

from windlass.chunks.batches import BATCH, BATCH_TIMEOUT, Work
from windlass.chunks.items import Planner
from windlass.chunks.parts import FINAL, Part
from windlass.chunks.splitter import Checks, Resizable, Splitter
from windlass.core.durations import Duration
from windlass.endings import Dead
from windlass.errors import ConfigurationError, SourceChanged
from windlass.running.context import Context
from windlass.running.encoding import decode
from windlass.running.port import hop, wait
from windlass.store.records import PartPlan, Plan
from windlass.tasks.functions import check_function, check_options, time_limit
from windlass.tasks.payload import Signature
from windlass.tasks.task import CommonOptions, RegisteredTask, TaskOptions

if TYPE_CHECKING:
    from windlass.app import Windlass

P = ParamSpec("P")
C = TypeVar("C")
"""The value of a call of the handler: a coroutine, where it is `async def`."""
F = TypeVar("F", bound=Callable[..., Any])

logger: Final = logging.getLogger("windlass.worker")
MAX_PARTS: Final = 1_000_000


class ChunkedOptions(CommonOptions, total=False):
    """The options of `@app.chunked(...)` besides `split`. Limits, budgets, retries and timeout are those of
    its parts."""

    parallel: int
    """How many parts of one parent may run at a time [any number]; changed live with `windlass parent set`
    [P8]."""
    tolerate: int | str
    """How many parts may fail while the parent still ends well [0]: a count, or a share such as "2%" [P9]."""
    batch: int
    """Records a batch [1000], where `part.batches()` does not say; changed live with `windlass task set`."""
    batch_timeout: Duration
    """How long one batch may take before it is halved [5 min] [P7]."""


class ChunkedTask(RegisteredTask[P, Any], Generic[P, C]):
    """A task whose jobs are split into parts. Made by `@app.chunked(split=…)`. An `async def` handler runs on
    the worker's loop, a plain one in threads."""

    context_type: ClassVar[type[Context]] = Part

    def __init__(
        self,
        app: Windlass,
        handler: Callable[..., Any],
        split: Splitter | Callable[..., Any],
        options: ChunkedOptions,
    ) -> None:
        check_function(handler)
        check_options("a chunked task", options, ("split", *ChunkedOptions.__annotations__))
        common = {key: value for key, value in options.items() if key in CommonOptions.__annotations__}
        super().__init__(app, handler, cast("TaskOptions", common))
        if self.signature.context is None or not issubclass(self.signature.context_type, Part):
            raise ConfigurationError(
                f"task {self.name} works on parts: make its first parameter `part: Part`"
            )
        self.split: Final = _splitter(self.name, split)
        if isinstance(self.split, Checks):
            self.split.check(self.name, self.signature.names)
        parallel = options.get("parallel")
        self.parallel: Final = None if parallel is None else _whole(self.name, "parallel", parallel)
        self.batch: Final = _whole(self.name, "batch", options.get("batch", BATCH))
        self.batch_timeout: Final = time_limit(
            f"task {self.name}: batch_timeout", options.get("batch_timeout", BATCH_TIMEOUT)
        )
        self.has_batch_timeout: Final = "batch_timeout" in options
        self.tolerated: Final = _tolerance(self.name, options.get("tolerate", 0))
        self._handler = handler
        self._finalizer: Callable[..., Any] | None = None
        self._finalizer_signature: Signature | None = None

        @functools.wraps(handler)
        def run(*args: Any, **kwargs: Any) -> Any:
            return self._run(cast("Part", kwargs[cast("str", self.signature.context)]), args, kwargs)

        self.function = run
        options_of_job = msgspec.structs.replace(self._template.options, chunked=True)
        self._template = msgspec.structs.replace(self._template, options=options_of_job)

    def __call__(self, part: Part, /, *args: P.args, **kwargs: P.kwargs) -> C:
        """Run the handler here and now; awaited, where it is `async def`. `Part.for_test()` makes a part."""
        value: C = self._handler(part, *args, **kwargs)
        return value

    def finalizer(self, function: F) -> F:
        """Run this function once all parts of a parent have ended, with the arguments of the job [P9]:

            @load.finalizer
            async def swap(ctx: Context, path: str) -> int: ...

        It is plain or `async def` as the handler is, and its return value is the parent's result. A parent
        with more failures than are tolerated is dead and has no use for it."""
        if self._finalizer is not None:
            raise ConfigurationError(f"task {self.name} has a finalizer already, {self._finalizer!r}")
        if inspect.iscoroutinefunction(function) is not self.is_async:
            kind = "`async def`" if self.is_async else "a plain function"
            raise ConfigurationError(f"task {self.name}: make its finalizer {kind}, as its handler is")
        own = Signature(self.name, function)
        unknown = own.required - set(self.signature.names)
        missing = set() if own.takes_any else set(self.signature.names) - set(own.names)
        if unknown or missing:
            raise ConfigurationError(
                f"task {self.name}: its finalizer gets the job's arguments, {_listed(self.signature.names)}; "
                f"give it parameters of these names, it has {_listed(own.names)}"
            )
        self._finalizer, self._finalizer_signature = function, own
        return function

    # -- what the runs share ------------------------------------------------------------------------------

    def _run(self, part: Part, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Split the job, run a part or finalize, as the job says; a coroutine where the handler is one."""
        of = part._job.options.part
        if of is None:
            return (self._asplit if self.is_async else self._split)(part, self._arguments(args, kwargs))
        if of.index == FINAL:
            return self._final(part, args, kwargs)
        run_part = self._arun_part if self.is_async else self._run_part
        return run_part(self._work(part, args, kwargs), args, kwargs)

    def _arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        rest = {key: value for key, value in kwargs.items() if key != self.signature.context}
        return self.signature.arguments(args, rest)

    def _work(self, part: Part, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Work:
        part._work = Work(
            part,
            self.split,
            self._arguments(args, kwargs),
            batch=self.batch,
            timeout=self.batch_timeout,
        )
        return part._work

    def _final(self, part: Part, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the finalizer, which names its context as it likes."""
        if self._finalizer is None or self._finalizer_signature is None:
            raise Dead(f"task {self.name} had a finalizer when its job was split, and has none now")
        arguments = {key: value for key, value in kwargs.items() if key != self.signature.context}
        context = self._finalizer_signature.context
        if context is not None:
            arguments[context] = part
        return self._finalizer(*args, **arguments)

    def _decode_result(self, text: str | None) -> Any:
        """A parent's result is its finalizer's."""
        signature = self._finalizer_signature
        return decode(text) if signature is None else signature.decode_result(text)

    def _sized_splitter(self, part: Part, chunk: int | None) -> Splitter:
        """How the job is split: as the code says, in parts as large as operators want them [P13]."""
        if chunk is None:
            return self.split
        if isinstance(self.split, Resizable):
            return self.split.resized(chunk)
        part.logger.warning(
            "the setting chunk=%d of this task is ignored: its splitter has no size of parts to set; "
            "`windlass task set %s --chunk default` removes the setting",
            chunk,
            self.name,
        )
        return self.split

    def _plan(self, parts: list[PartPlan], parallel: int | None) -> Plan:
        if len(parts) > MAX_PARTS:
            raise Dead(
                f"task {self.name}: more than {MAX_PARTS:,} parts are too many; make each part larger, in "
                f"code or with `windlass task set {self.name} --chunk`"
            )
        return Plan(
            parts=parts,
            parallel=parallel or self.parallel,
            tolerated=self.tolerated(len(parts)),
            finalizer=self._finalizer is not None,
        )

    # -- handlers that are `async def` --------------------------------------------------------------------

    async def _arun_part(self, work: Work, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            while True:
                try:
                    async with asyncio.timeout(None) as work.limit:
                        value = await self._handler(*args, **kwargs)
                    work.ended()
                    return value
                except TimeoutError:
                    if not cast("asyncio.Timeout", work.limit).expired():
                        raise
                    if not work.halve():
                        raise TimeoutError(_TOO_LONG.format(work.timeout)) from None
        except SourceChanged as changed:
            raise Dead(str(changed)) from None
        finally:
            work.close()

    async def _asplit(self, part: Part, arguments: dict[str, Any]) -> None:
        port = part._port
        settings = await hop(port.loop, port.settings(self.name, fresh=True))
        found = await asyncio.to_thread(_planned, self._sized_splitter(part, settings.chunk), arguments)
        parts = _some(await found) if isinstance(found, Awaitable) else found
        await hop(port.loop, port.split(part._job, self._plan(parts, settings.parallel)))
        part._ended = True

    # -- plain handlers -----------------------------------------------------------------------------------

    def _run_part(self, work: Work, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            value = self._handler(*args, **kwargs)
            work.ended()
            return value
        except SourceChanged as changed:
            raise Dead(str(changed)) from None
        finally:
            work.close()

    def _split(self, part: Part, arguments: dict[str, Any]) -> None:
        port = part._port
        settings = wait(port.loop, "split", lambda: port.settings(self.name, fresh=True))
        found = _planned(self._sized_splitter(part, settings.chunk), arguments)
        if isinstance(found, Awaitable):
            promised = found
            found = _some(wait(port.loop, "split", lambda: _awaited(promised)))
        parts = found
        wait(port.loop, "split", lambda: port.split(part._job, self._plan(parts, settings.parallel)))
        part._ended = True


def warn_of_long_batches(tasks: Iterable[RegisteredTask[..., Any]], lease: float) -> None:
    """Nothing is tied to the lease, but whoever chose a batch timeout beyond it should know that a batch of a
    dead worker is noticed by the lease and not by the timeout [C6]."""
    for task in tasks:
        if isinstance(task, ChunkedTask) and task.has_batch_timeout and task.batch_timeout >= lease:
            warn_of_long_batch(task.name, task.batch_timeout, lease)


def warn_of_long_batch(task: str, timeout: float, lease: float) -> None:
    """Warn of a batch timeout of one task, whether its code says so or the store."""
    logger.warning(
        "task %s has batch_timeout=%g s, which is not below the lease of %g s (WINDLASS_LEASE): that "
        "is fine while heartbeats arrive, and a batch may outlast the lease many times over",
        task,
        timeout,
        lease,
    )


def _planned(split: Splitter, arguments: Mapping[str, Any]) -> list[PartPlan] | Awaitable[Iterable[PartPlan]]:
    """The plan, as a list where it is there at once: making it may block."""
    found = split.plan(arguments)
    return found if isinstance(found, Awaitable) else _some(found)


def _some(found: Iterable[PartPlan]) -> list[PartPlan]:
    """All of them, or so many that they are too many: a planner may have no end."""
    return list(itertools.islice(found, MAX_PARTS + 1))


async def _awaited(found: Awaitable[Iterable[PartPlan]]) -> Iterable[PartPlan]:
    return await found


def _splitter(task: str, split: Any) -> Splitter:
    if isinstance(split, type):
        raise ConfigurationError(f"task {task}: split={split.__name__} is a class; write {split.__name__}(…)")
    if hasattr(split, "plan") and hasattr(split, "read"):
        return cast("Splitter", split)
    if not callable(split):
        raise ConfigurationError(
            f"task {task}: split={split!r} splits nothing; write NDJSON(…), Ranges(…), Shards(…), Items(…), "
            "or a function that yields what each part covers"
        )
    return Planner(split)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _whole(task: str, option: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"task {task}: {option}={value!r} is not a whole number from 1 on")
    return value


def _tolerance(task: str, value: int | str) -> Callable[[int], int]:
    """How many of so many parts may fail [P9]."""
    if type(value) is int and value >= 0:
        count = value
        return lambda total: count
    if isinstance(value, str) and value.endswith("%"):
        try:
            share = float(value[:-1])
        except ValueError:
            share = -1.0
        if 0 <= share <= 100:
            return lambda total: int(total * share / 100 + 1e-9)
    raise ConfigurationError(f'task {task}: tolerate={value!r} is neither a count nor a share such as "2%"')


_TOO_LONG: Final = "a batch of one record took longer than its batch timeout of {:g} s"
