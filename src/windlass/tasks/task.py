"""A task: a registered function and the ways to make jobs of it.

    send("a@b.c")                                 runs here and now, without a job
    send.enqueue("a@b.c")                         makes a job (await send.aenqueue(...) in async code)
    send.using(delay="5m").enqueue("a@b.c")       the same with options
    send.enqueue_many([("a@b.c",), ("d@e.f",)])   many jobs in one call, all or none

Arguments are typed: what the function would refuse, mypy refuses in `enqueue` too, and what slips through is
checked against the annotations before anything is written [E3]. A parameter annotated with `Context` is the
worker's to fill in; as the first one it is left out of what mypy asks of `enqueue`, too.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import msgspec

from windlass.codec import Purpose, seal, unseal
from windlass.core.durations import Duration
from windlass.core.names import check_name
from windlass.core.states import Priority, PriorityName
from windlass.endings import Retry
from windlass.errors import (
    ConfigurationError,
    EnqueueError,
    InvalidArguments,
    InvalidOption,
    PayloadTooLarge,
)
from windlass.handles.calls import A, B, C, D, Named, Takes0, Takes1, Takes2, Takes3, Takes4, TakesMore
from windlass.handles.job import Job, id_of
from windlass.handles.results import Handed, comes_after, handed_in
from windlass.running.context import Context
from windlass.running.encoding import LIMIT, decode
from windlass.running.loopthread import run_here
from windlass.store.budgets import bucket_key
from windlass.store.fields import JobOptions
from windlass.store.records import JobRecord, Need, NewJob, Receipt
from windlass.tasks.functions import Elsewhere, check_function, check_options, name_of
from windlass.tasks.gaps import EVERY, Gaps, Reconciled
from windlass.tasks.limits import FlowOptions, Limits
from windlass.tasks.options import NOTHING_TO_FAIL, Template
from windlass.tasks.payload import Call, Signature, encode_call, encode_call_around

if TYPE_CHECKING:
    from windlass.app import Windlass

P = ParamSpec("P")
R = TypeVar("R")
G = TypeVar("G", bound=Callable[..., Any])


class Finder(Protocol):
    """The decorator of `task.find_gaps(...)`, which leaves its function as it is."""

    def __call__(self, find: G, /) -> G: ...


class CommonOptions(FlowOptions, total=False):
    """The options of both `@app.task(...)` and `@app.chunked(...)`. Retries and limits of a chunked task are
    those of its parts."""

    name: str
    """The task's name; without it, that of its module and function."""
    queue: str
    """Where its jobs go; without it, where the app's routes say [E5]."""
    priority: Priority | PriorityName | int
    """urgent, high, normal or low."""
    retry: Retry
    """How often and how far apart its jobs are tried."""
    timeout: Duration
    """How long one attempt may run."""
    expires: Duration
    """After how long its jobs end as cancelled where nobody has begun them; see `JobOptions`."""
    needs: Iterable[str] | str
    """Abilities: only a worker that has all of these runs its jobs [K14]."""
    tags: Iterable[str]
    """Words to find its jobs by."""


class TaskOptions(CommonOptions, total=False):
    """The options of `@app.task(...)`."""

    mode: Literal["thread", "process"]
    """Where a plain function runs: in a thread (default), or in a process of its own, for work that holds
    the GIL. `async def` functions run on the worker's loop."""


MODES: Final = ("thread", "process")


class Task(Generic[P, R]):
    """Makes jobs of one name. `app.named("mail.send")` gives one without the code; `@app.task` one with
    it."""

    is_registered: ClassVar[bool] = False
    """True if its code is here."""

    def __init__(self, app: Windlass, name: str, template: Template) -> None:
        self.app = app
        self.name: Final = check_name("task", name)
        self._template = template

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    if not TYPE_CHECKING:  # a type checker knows what there is
        delay, apply_async, send = Elsewhere(), Elsewhere(), Elsewhere()
        send_with_options, defer = Elsewhere(), Elsewhere()
        defer_async = Elsewhere("aenqueue")

    def using(self, **options: Unpack[JobOptions]) -> Self:
        """This task with options for its next jobs; see `JobOptions` for what there is."""
        other = copy.copy(self)
        other._template = self._template.using(options)
        return other

    @property
    def queue(self) -> str:
        """The queue its jobs go to: the one named, else the one the app's routes say [E5]. Where neither
        does and its code is elsewhere, jobs go where live workers say, and this is `default`."""
        return self._template.queue or self.app._routes.queue(self.name)

    @property
    def abilities(self) -> str | None:
        """The abilities that its jobs need of a worker, with commas between the names; None where its code is
        elsewhere, or says nothing [K14]."""
        return self._template.options.needs

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Make one job."""
        task = self if self.is_registered else self._placed()
        job = task._called(args, kwargs)
        return self._handle(self.app._producer.send([job], self._template.connection)[0])

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Make one job."""
        task = self if self.is_registered else await self._aplaced()
        job = task._called(args, kwargs)
        return self._handle((await self.app._producer.asend([job], self._template.connection))[0])

    @overload
    def enqueue_many(self: Takes0, calls: Iterable[tuple[()] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(self: Takes1[A], calls: Iterable[tuple[A] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(self: Takes2[A, B], calls: Iterable[tuple[A, B] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(self: Takes3[A, B, C], calls: Iterable[tuple[A, B, C] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(self: Takes4[A, B, C, D], calls: Iterable[tuple[A, B, C, D] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(self: TakesMore, calls: Iterable[tuple[Any, ...] | Named]) -> list[int]: ...
    @overload
    def enqueue_many(self, calls: Iterable[Named]) -> list[int]: ...
    def enqueue_many(self, calls: Iterable[tuple[Any, ...] | Named]) -> list[int]:
        """Make many jobs in one call, all or none, and return their ids in the same order.

        Each item is a tuple of positional arguments or a mapping of named ones. With an idempotency key, job
        number n is remembered as `key/n`, so sending the same list again adds nothing [E7].
        """
        task = self if self.is_registered else self._placed()
        receipts = self.app._producer.send(task._jobs(calls), self._template.connection)
        return [receipt.id for receipt in receipts]

    @overload
    async def aenqueue_many(self: Takes0, calls: Iterable[tuple[()] | Named]) -> list[int]: ...
    @overload
    async def aenqueue_many(self: Takes1[A], calls: Iterable[tuple[A] | Named]) -> list[int]: ...
    @overload
    async def aenqueue_many(self: Takes2[A, B], calls: Iterable[tuple[A, B] | Named]) -> list[int]: ...
    @overload
    async def aenqueue_many(self: Takes3[A, B, C], calls: Iterable[tuple[A, B, C] | Named]) -> list[int]: ...
    @overload
    async def aenqueue_many(
        self: Takes4[A, B, C, D], calls: Iterable[tuple[A, B, C, D] | Named]
    ) -> list[int]: ...
    @overload
    async def aenqueue_many(self: TakesMore, calls: Iterable[tuple[Any, ...] | Named]) -> list[int]: ...
    @overload
    async def aenqueue_many(self, calls: Iterable[Named]) -> list[int]: ...
    async def aenqueue_many(self, calls: Iterable[tuple[Any, ...] | Named]) -> list[int]:
        """Make many jobs in one call; see `enqueue_many`."""
        task = self if self.is_registered else await self._aplaced()
        receipts = await self.app._producer.asend(task._jobs(calls), self._template.connection)
        return [receipt.id for receipt in receipts]

    def _placed(self) -> Self:
        """This task with the queue that its jobs go to, as live workers say where nobody else does [E5]."""
        if not self._is_unplaced:
            return self
        return self.using(queue=self.app._producer.queue_of(self.name, self._template.connection))

    async def _aplaced(self) -> Self:
        if not self._is_unplaced:
            return self
        return self.using(queue=await self.app._producer.aqueue_of(self.name, self._template.connection))

    @property
    def _is_unplaced(self) -> bool:
        """Return whether nothing here says where its jobs go."""
        named = self._template.queue or self.app._routes.find(self.name)
        return not self.is_registered and named is None

    def job(self, id: int | str) -> Job[R]:
        """The handle of a job of this task, from its id."""
        return self._made(id_of(id), None)

    def _handle(self, receipt: Receipt) -> Job[R]:
        return self._made(receipt.id, receipt)

    def _made(self, id: int, receipt: Receipt | None) -> Job[R]:
        return Job(self.app, id, self._result, task=self.name, receipt=receipt)

    def _called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int | None = None) -> NewJob:
        """The job of one call. Where it is handed results of others, it comes after them [W4]."""
        if not handed_in(args, kwargs):
            if self._template.options.otherwise == "run_only" and not self._template.options.after:
                raise InvalidOption(f"task {self.name}: {NOTHING_TO_FAIL}")
            return self._job(self._encode(args, kwargs), place)
        if self._template.delay is not None or self._template.run_at is not None:
            raise InvalidOption(
                f"task {self.name}: a job that gets results of others comes after them; leave out delay and "
                "run_at"
            )
        payload, handed = self._encode_around(args, kwargs)
        return comes_after(self._job(payload, place), handed)

    def _job(self, payload: str, place: int | None = None) -> NewJob:
        job = self._template.job(self.name, payload, self.queue, place)
        return job if self.app.codec is None else self._sealed(job)

    def _sealed(self, job: NewJob, beside: Mapping[str, str] | None = None) -> NewJob:
        payload = seal(self.app.codec, job.payload, Purpose("payload", self.name), beside)
        if len(payload) > LIMIT:  # the stores' own, for what they keep
            raise PayloadTooLarge(
                f"task {self.name}: the payload takes {len(payload):,} bytes after the app's codec, and at "
                f"most {LIMIT:,} are kept with a job; store the data elsewhere and pass its address"
            )
        return msgspec.structs.replace(job, payload=payload)

    def _jobs(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[NewJob]:
        """All of them, before the first is sent: one that is wrong must keep the others from being
        written. The error says which one it is, from 0."""
        jobs = []
        for place, call in enumerate(calls):
            try:
                args, kwargs = (call, {}) if type(call) is tuple else self._call_of(call)
                jobs.append(self._called(args, kwargs, place))
            except EnqueueError as error:
                error.args = (f"item {place}: {error}",)
                raise
        return jobs

    def _call_of(
        self, call: tuple[Any, ...] | Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        if isinstance(call, tuple):
            return call, {}
        if isinstance(call, Mapping):
            return (), call
        raise InvalidArguments(
            f"task {self.name}: this is of type {type(call).__name__}; each item is a tuple of positional "
            "arguments or a mapping of named ones"
        )

    def _encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        return encode_call(self.name, args, kwargs)

    def _encode_around(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[str, dict[str, Handed]]:
        return encode_call_around(self.name, args, kwargs)

    def _result(self, record: JobRecord) -> Any:
        """Return the result of a job [O8]."""
        return self._decode_result(self.app._unsealed_result(record))

    def _decode_result(self, text: str | None) -> Any:
        return decode(text)


class RegisteredTask(Task[P, R]):
    """A task whose code is here. It also says how its jobs are run: signature, policy, timeout and mode.

    `has_policy` tells whether `retry=` was given; the back-off of the others is their queue's to say [O2].
    """

    is_registered: ClassVar[bool] = True
    context_type: ClassVar[type[Context]] = Context
    """The type of the context that the worker makes for each run."""
    batch_size: int = 1
    """How many jobs its handler takes at once; see `windlass.tasks.batch`."""
    __name__: str

    def __init__(self, app: Windlass, function: Callable[P, Any], options: TaskOptions) -> None:
        check_options("a task", options, TaskOptions.__annotations__)
        self.retry: Final = options.get("retry", Retry())
        if not isinstance(self.retry, Retry):
            raise ConfigurationError(f"retry={self.retry!r} is not a policy; write retry=Retry(5, base='5s')")
        self.has_policy: Final = "retry" in options
        given = JobOptions(max_attempts=self.retry.attempts)
        for option in ("queue", "priority", "expires", "needs", "tags"):
            if option in options:
                given[option] = options[option]
        name = options["name"] if "name" in options else name_of(function)
        super().__init__(app, name, Template().using(given))
        limit = JobOptions(timeout=options["timeout"]) if "timeout" in options else JobOptions()
        self.timeout: Final = Template().using(limit).options.timeout
        self.function = function
        self.is_async: Final = inspect.iscoroutinefunction(function)
        self.gaps: Gaps | None = None
        """How it finds what is missing, if it does."""
        self.signature: Final = self._signature(function)
        self.signature.secret = app.codec is not None
        # Without a codec it is the signature's own: the hot path must not pay for what is not there.
        self.decode: Callable[[str], Call] = self.signature.decode if app.codec is None else self._decode
        """The call that a stored payload stands for; see `Signature.decode`. Raises CodecError as well."""
        self.limits: Final = Limits(self.name, self.signature, options)
        if self.limits.carried:
            carried = msgspec.structs.replace(self._template.options, **self.limits.carried)
            self._template = msgspec.structs.replace(self._template, options=carried)
        if not issubclass(self.context_type, self.signature.context_type):
            raise ConfigurationError(
                f"task {self.name}: parameter {self.signature.context!r} takes a part, and only chunked "
                "tasks have parts; write @app.chunked(split=…), or annotate it with Context"
            )
        self.mode: Final = self._mode(options.get("mode"))
        # Its name and text, not its attributes: one called `retry` must not become ours.
        functools.update_wrapper(cast("Callable[..., Any]", self), function, updated=())

    @property
    def needs(self) -> list[Need]:
        """Return the tokens of budgets that each run takes [F1]. Raises ConfigurationError where one of them
        goes by an argument that the task does not have."""
        declared = {name: budget.declared for name, budget in self.app._budgets.items()}
        return self.limits.needs({name: each.key for name, each in declared.items() if each is not None})

    # -- what is missing [K5] -----------------------------------------------------------------------------

    @overload
    def find_gaps(self, find: G, /) -> G: ...
    @overload
    def find_gaps(self, /, *, every: Duration = ..., key: Callable[..., str] | None = ...) -> Finder: ...
    def find_gaps(
        self, find: Any = None, /, *, every: Duration = EVERY, key: Callable[..., str] | None = None
    ) -> Any:
        """Say with this function which jobs of the task are missing: `@embed.find_gaps(every="5m")` [K5].

        It yields their arguments, each as a tuple or a mapping, and is plain or `async`. `key` makes the
        unique key of a job from its arguments. See `windlass.tasks.gaps`."""

        def register(find: G) -> G:
            if self.gaps is not None:
                raise ConfigurationError(
                    f"task {self.name} has a find_gaps function already; a task takes one"
                )
            self.gaps = Gaps(self, find, every, key)
            return find

        return register if find is None else register(find)

    def reconcile(self) -> Reconciled:
        """Enqueue now what `find_gaps` says is missing, and tell what came of it."""
        return run_here(self.areconcile())

    async def areconcile(self) -> Reconciled:
        """Enqueue now what `find_gaps` says is missing; see `reconcile`."""
        if self.gaps is None:
            raise ConfigurationError(
                f"task {self.name} has no find_gaps function: write @{self.__name__}.find_gaps"
            )
        return await self.gaps.fill()

    def _mode(self, wish: str | None) -> Literal["loop", "thread", "process"]:
        if wish is not None and wish not in MODES:
            raise ConfigurationError(f"task {self.name}: mode={wish!r} is not one of {', '.join(MODES)}")
        if self.is_async:
            if wish is not None:
                raise ConfigurationError(
                    f"task {self.name}: mode={wish!r} is for plain functions, and an `async def` runs on the "
                    "worker's loop; leave mode= out or write a plain `def`"
                )
            return "loop"
        if wish != "process":
            return "thread"
        if self.signature.context is not None:
            raise ConfigurationError(
                f"task {self.name}: parameter {self.signature.context!r} takes a Context, which cannot leave "
                "the worker's process; drop the parameter or mode='process'. Steps, sleeps and waits are for "
                "a task without mode=, which enqueues the work for a process as a job of its own"
            )
        return "process"

    def _signature(self, function: Callable[..., Any]) -> Signature:
        """Return the signature that a job's arguments must fit."""
        return Signature(self.name, function)

    def _job(self, payload: str, place: int | None = None) -> NewJob:
        job = self._template.job(self.name, payload, self.queue, place)
        if self.limits.reads_arguments:
            job = self.limits.filled(job)
        return job if self.app.codec is None else self._sealed(job, self._beside(job.payload))

    def _beside(self, payload: str) -> dict[str, str]:
        """The arguments that budgets go by: the store reads them when it takes tokens [F1]."""
        if not self.limits.budgets:
            return {}
        found = {need.argument: bucket_key(payload, need) for need in self.needs}
        return {argument: value for argument, value in found.items() if argument is not None and value}

    def unsealed(self, payload: str) -> str:
        """A stored payload as JSON text. Raises CodecError."""
        return unseal(self.app.codec, payload, Purpose("payload", self.name))

    def _decode(self, payload: str) -> Call:
        return self.signature.decode(self.unsealed(payload))

    def _encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        return self.signature.encode(args, kwargs)

    def _encode_around(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[str, dict[str, Handed]]:
        if self.batch_size > 1:
            raise InvalidArguments(
                f"task {self.name} takes batches, and its jobs cannot be handed results of others; enqueue a "
                "task of single jobs"
            )
        return self.signature.encode_around(args, kwargs)

    def _decode_result(self, text: str | None) -> Any:
        return self.signature.decode_result(text)


class SyncTask(RegisteredTask[P, R]):
    """A task made of a plain function; its jobs run in threads, or in processes."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now."""
        value: R = self.function(*args, **kwargs)
        return value


class AsyncTask(RegisteredTask[P, R]):
    """A task made of an `async def` function; its jobs run on the worker's loop."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Run the function here and now, when awaited."""
        coroutine: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return coroutine


def make_task(app: Windlass, function: Any, options: TaskOptions) -> RegisteredTask[..., Any]:
    """The task of a function, by whether it is `async def`."""
    check_function(function)
    kind = AsyncTask if inspect.iscoroutinefunction(function) else SyncTask
    return kind(app, function, options)
